"""Machines with their ceilings, now and before, as messages of the wire."""

from __future__ import annotations

from typing import Any

from ..store.store import Store


def answer(store: Store, host: str, history: bool) -> Any:
    """The answer to GetMachines. Raises UnknownHost."""
    raise NotImplementedError
