"""Steps with a large weight: rates are over all steps, and one far longer than the others pulls them down."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...model.evidence import RankEvidence
from ...sentences import notes as texts

LEAST_STEPS = 5
SHARE = 0.2  # of the time of all steps that a step must take
TIMES = 5  # the median


def heavy_step_notes(ranks: Iterable[RankEvidence]) -> list[str]:
    """One note for each step, with its share and the ranks it was heavy for."""
    found: dict[int, list[tuple[str, float]]] = {}  # step -> rank, share of the rank's time
    for rank in ranks:
        lasted = (rank.steps.end_ns - rank.steps.begin_ns).astype(np.float64)
        if rank.serving or len(lasted) < LEAST_STEPS or not lasted.sum() > 0:
            continue
        longest = int(np.argmax(lasted))
        share = float(lasted[longest] / lasted.sum())
        if share >= SHARE and lasted[longest] >= TIMES * np.median(lasted):
            found.setdefault(int(rank.steps.step[longest]), []).append((rank.key, share))
    return [
        texts.heavy_step(step, max(share for _, share in ranks), [name for name, _ in ranks])
        for step, ranks in sorted(found.items())
    ]
