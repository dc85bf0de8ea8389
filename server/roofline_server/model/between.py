"""How often and how long ranks did what is no part of a step: evaluations, checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value

from .evidence import RankEvidence
from .times import durations


def between(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    """Of each kind how many stretches there were and their mean time, and the share of all together of the
    time in steps and between them. Nothing where none was seen: whether hooks can see any is not known."""
    found: dict[str, Value] = {}
    kinds = sorted({kind for r in ranks for kind in r.between})
    working = [r for r in ranks if not r.serving] if kinds else []
    whole = sum(float(durations(r.steps).sum()) + r.left_out for r in working)
    spent = 0.0
    for kind in kinds:
        lasted = np.concatenate([r.between[kind] for r in ranks if kind in r.between])
        spent += float(lasted.sum())
        found[f"between.{kind}.count"] = value(len(lasted), "1", Provenance.MEASURED, scope)
        found[f"between.{kind}.time"] = value(float(lasted.mean()), "s", Provenance.MEASURED, scope)
    if found:
        share = spent / (whole + spent) if whole + spent > 0 else None
        found["between.share"] = value(share, "1", Provenance.MEASURED, scope)
    return found
