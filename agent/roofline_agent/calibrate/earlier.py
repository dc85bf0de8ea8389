"""Ceilings of an earlier calibration that a new one could not measure: they stay, with their own time.

Pure. Often nothing but the framework for the GPUs is missing, or a part of the measurement ran out of time.
"""

from __future__ import annotations

import time

from roofline_agent.calibrate.calibration import Calibration, Ceiling
from roofline_agent.records import Provenance


def with_earlier(new: Calibration, before: Calibration | None) -> Calibration:
    """The new one with what still holds of an earlier one of the same machine; notes say what."""
    if before is None or before.host != new.host or new.cpu_model not in ("", before.cpu_model):
        return new
    known = {(c.device, c.name) for c in new.ceilings}
    lacking = [c for c in before.ceilings if (c.device, c.name) not in known and _holds(c, new, before)]
    # What Nsight Compute reports stands only for what was not measured.
    measured = {_subject(c) for c in (*new.ceilings, *lacking) if c.provenance == Provenance.MEASURED}
    ceilings, earlier = (
        tuple(c for c in some if c.provenance != Provenance.REPORTED or _subject(c) not in measured)
        for some in (new.ceilings, lacking)
    )
    gpus = dict.fromkeys(c.device for c in before.ceilings if c.device)
    notes = [
        f"{gpu}: earlier ceilings are not kept, as the driver does not show the same whole GPU"
        for gpu in gpus
        if not _is_same(gpu, new, before)
    ]
    return new._replace(
        cpu_model=new.cpu_model or before.cpu_model,
        cpus=new.cpus or before.cpus,
        ceilings=(*ceilings, *earlier),
        notes=(*new.notes, *_notes(earlier), *notes),
    )


def _holds(one: Ceiling, new: Calibration, before: Calibration) -> bool:
    """Whether the ceiling was not measured again for want of something else than the hardware."""
    if one.device:
        return _is_same(one.device, new, before)
    if one.kind == "overhead":
        return True
    # What a whole measurement leaves out has no ceiling, as an L3 that is hardly faster than DRAM.
    return not new.is_complete and new.cpus in (0, before.cpus)


def _is_same(gpu: str, new: Calibration, before: Calibration) -> bool:
    """By its theoretical peaks, as the driver has them: another GPU has others, a part of one (MIG) none."""
    return _theory(gpu, new) == _theory(gpu, before)


def _theory(device: str, calibration: Calibration) -> dict[str, float]:
    own = [c for c in calibration.ceilings if c.device == device]
    return {c.name: c.value for c in own if c.provenance == Provenance.ANALYTIC}


def _subject(one: Ceiling) -> tuple[str, str, str, str]:
    return one.device, one.kind, one.level, one.precision


def _notes(earlier: tuple[Ceiling, ...]) -> list[str]:
    names: dict[str, list[str]] = {}
    for one in earlier:
        day = time.strftime("%Y-%m-%d", time.localtime(one.time_ns / 1e9))
        names.setdefault(day, []).append(f"{one.device} {one.name}".strip())
    why = "as not measured this time"
    return [f"kept from {day}, {why}: {', '.join(found)}" for day, found in names.items()]
