"""What of the bytes that kernels move does not depend on the batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...model.account.signals import RankSignals
from ...records import Floats
from ...store.view import JobView

MOST = 0.5  # of the time of kernels: they compute, too
TIMES = 3  # weights are read forward and backward, and written as gradients


def gradient_bytes(view: JobView) -> float | None:
    """Bytes that a step reduces, or sends to parameter servers, as hooks of any rank reported them."""
    sizes = [facts.get("gradient.bytes", "") for facts in view.facts.values()]
    return max((float(size) for size in sizes if size.isdecimal()), default=None)


def share_of_weights(view: JobView, signals: Mapping[int, RankSignals], numbers: Sequence[int]) -> float:
    """The share of the bytes of kernels that weights are, 0: not known."""
    moved = mean(signals[n].bytes for n in numbers if n in signals)
    return min(MOST, TIMES * (gradient_bytes(view) or 0.0) / moved) if moved else 0.0


def mean(columns: Iterable[Floats | None]) -> float | None:
    """Mean of the means of each; None: nothing is known."""
    means = [float(np.nanmean(c)) for c in columns if c is not None and not np.isnan(c).all()]
    return float(np.mean(means)) if means else None
