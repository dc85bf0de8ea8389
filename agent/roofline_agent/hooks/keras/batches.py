"""How many examples a step of Keras' `fit` has, from the arrays that it cuts into batches.

The last batch of arrays may be smaller, so their dataset has no static batch size; the adapter that cuts them
knows it. Keras 2 keeps it in a data handler, Keras 3 in an epoch iterator, both created again in every `fit`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from ..signals import raise_again


class BatchCut(NamedTuple):
    """Arrays cut into batches of one size, but for the last."""

    batch: int
    last: int
    batches: int

    def examples(self, first: int, count: int) -> int:
        """Examples in `count` batches from the first-th on; the arrays come again and again."""
        lasts = (first + count) // self.batches - first // self.batches
        return count * self.batch - lasts * (self.batch - self.last)


def cut_of(adapter: Any) -> Optional[BatchCut]:
    """How a Keras data adapter cuts its arrays; None where it does not know."""
    try:
        batch = _ask(adapter, "batch_size")
        batches = _ask(adapter, "get_size") if hasattr(adapter, "get_size") else _ask(adapter, "num_batches")
        if not batch or not batches:
            return None
        partial = _ask(adapter, "partial_batch_size") if _ask(adapter, "has_partial_batch") else None
        return BatchCut(int(batch), int(partial or batch), int(batches))
    except Exception:
        raise_again()
        return None


def _ask(adapter: Any, name: str) -> Any:
    value = getattr(adapter, name)
    return value() if callable(value) else value
