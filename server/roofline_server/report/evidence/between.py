"""What lay between the steps of a rank: evaluations, checkpoints, whatever a hook saw there."""

from __future__ import annotations

import numpy as np

from ...model.evidence import NS
from ...records import Bools, Floats, Table, rows
from ..questions import Steps


def between_steps(spans: Table, windows: Table, steps: Steps) -> dict[str, Floats]:
    """Kind -> seconds of each stretch of one rank. windows: of the steps asked for; where these are not all
    of the job's only what lay between them counts."""
    if not rows(spans):
        return {}
    wanted = np.ones(rows(spans), bool)
    if steps.is_bounded:
        if not rows(windows):
            return {}
        wanted = (spans["time_ns"] >= windows["begin_ns"].min()) & (
            spans["end_ns"] <= windows["end_ns"].max()
        )
    return by_kind(spans, wanted)


def by_kind(spans: Table, wanted: Bools | None = None) -> dict[str, Floats]:
    """Kind -> seconds of each stretch, of those of one rank that are wanted."""
    if not rows(spans):
        return {}
    wanted = np.ones(rows(spans), np.bool_) if wanted is None else wanted
    kinds = np.array([name.partition(".")[2] for name in spans["name"].tolist()], object)
    lasted = (spans["end_ns"] - spans["time_ns"]) / NS
    found = {kind: lasted[wanted & (kinds == kind)] for kind in sorted(set(kinds.tolist()))}
    return {kind: seconds for kind, seconds in found.items() if len(seconds)}
