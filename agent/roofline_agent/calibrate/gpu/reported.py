"""Peaks as Nsight Compute reports them, for what could not be measured: the L2, all without a framework."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...ncu.session import Unusable
from ...ncu.sustained import Sustained, ask
from ...records import Provenance
from ..calibration import Ceiling

DEVICE = "gpu 0"  # an empty kernel of ours runs on the first
# A level of which something was measured needs nobody's word; and so does a precision.
_WANTED = ("peak.f64", "peak.f32", "peak.f16", "hbm", "l2")


def by_ncu(
    gpus: Sequence[Mapping[str, Any]], measured: Sequence[Ceiling], environ: Mapping[str, str]
) -> tuple[list[Ceiling], list[str]]:
    """Ceilings of the first GPU that nobody measured, and why there are none."""
    if not gpus:
        return [], []
    known = {_subject(ceiling.name) for ceiling in measured if ceiling.device == DEVICE}
    if known.issuperset(_WANTED):
        return [], []
    try:
        found = ask(environ)
    except Unusable as error:
        return [], [f"{DEVICE}: peaks that were not measured are not had from Nsight Compute either: {error}"]
    now_ns = time.time_ns()
    return [_ceiling(one, now_ns) for one in found if _subject(one.name) not in known], []


def _subject(name: str) -> str:
    return name if name.startswith("peak.") else name.partition(".")[0]


def _ceiling(one: Sustained, now_ns: int) -> Ceiling:
    is_memory = not one.name.startswith("peak.")
    subject = _subject(one.name)
    return Ceiling(
        name=one.name,
        kind="memory" if is_memory else "compute",
        level=subject if is_memory else "",
        precision="" if is_memory else subject.partition(".")[2],
        width=0,
        value=one.value,
        unit="byte/s" if is_memory else "FLOP/s",
        spread=0.0,
        method=f"{one.how}, by Nsight Compute while an empty kernel ran; no kernel was seen to come so far",
        time_ns=now_ns,
        device=DEVICE,
        provenance=int(Provenance.REPORTED),
        clock_hz=one.clock_hz,
    )
