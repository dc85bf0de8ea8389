"""What decoding needs to know of the numbers that stand for names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..records import KernelKind, Metric, RankKey


class Numbers(Protocol):
    """Gives out the small integers by which rows refer to ranks and kernels."""

    rank_tables: dict[Any, Any]  # rank tables that were decoded before; kept here as their numbers are

    def rank(self, key: RankKey) -> int: ...

    def kernel(self, kind: KernelKind) -> int: ...

    def metrics(self, metrics: Sequence[Metric]) -> None: ...

    def allows(self, job: str, span: str) -> bool: ...
