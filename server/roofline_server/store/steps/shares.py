"""Which metrics of a counter set are read at once: some, where there are many samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...correlate.steps import SAMPLE_KEYS
from ...records import Metric

SHARE_BYTES = 96 << 20  # of samples in memory at once: less means to read and sort their keys more often


def in_shares(metrics: Sequence[Metric], samples: int) -> Iterator[Sequence[Metric]]:
    """All of them, as many at a time as fit; each counter with the gauge that says for how much of the time
    it counted, which may come twice."""
    most = max(1, SHARE_BYTES // (8 * max(1, samples)) - len(SAMPLE_KEYS))
    for first in range(0, len(metrics), most):
        some = metrics[first : first + most]
        names = {metric.name for metric in some}
        yield [*some, *(m for m in metrics if m.coverage_of in names and m.name not in names)]
