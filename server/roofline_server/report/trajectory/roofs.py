"""The roofs under a trajectory: one of each kind of machine, and where those of other stops differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from roofline.answers.roofline import Roof, RoofLine

from ...sentences.trajectories import other_roof
from ...sentences.wording import place
from ...store.view import JobView
from ..ceilings.places import ALIKE
from ..ceilings.roofs import roofs
from .experiments import JobNote

Places = Collection[tuple[str, str]]  # (host, device)


class _RoofOfJob(NamedTuple):
    roof: Roof
    job: str


def drawn(
    jobs: Iterable[tuple[JobView, Places]], precisions: Collection[str]
) -> tuple[list[Roof], list[JobNote]]:
    """(one roof per machine model and device, notes). jobs: with where they computed; precisions: of stops.

    Of several machines of a model, and of several calibrations of one, the newest is drawn."""
    found: dict[tuple[str, str], list[_RoofOfJob]] = {}
    for view, places in jobs:
        models = {m.host: m.cpu_model for m in view.machines.values() if m.cpu_model}
        for roof in roofs(view, *sorted(filter(None, precisions))):
            if (roof.host, roof.device) in places:
                key = (models.get(roof.host, roof.host), roof.device)
                found.setdefault(key, []).append(_RoofOfJob(roof, view.job))
    kept, notes = [], []
    for key in sorted(found):
        best = min(found[key], key=lambda one: (-one.roof.calibrated_ns, one.roof.host))
        kept.append(best.roof)
        for other in found[key]:
            lines = _differing(best.roof, other.roof)
            if lines:
                where = place(best.roof.host, best.roof.device)
                notes.append(JobNote(other_roof(other.roof.host, lines, where, best.job), other.job))
    return kept, notes


def _differing(best: Roof, other: Roof) -> list[str]:
    """Labels of the lines of another roof that are not as high as those of the one that is drawn for it."""
    mine = _heights(best)
    return [
        line.label
        for key, (height, line) in _heights(other).items()
        if key in mine and abs(height - mine[key][0]) > ALIKE * mine[key][0]
    ]


def _heights(roof: Roof) -> Mapping[tuple[str, str, str], tuple[float, RoofLine]]:
    """Of the lines that are the roof the peak, or what a slope lets reach where it begins."""
    return {
        (line.kind, line.level, line.precision): (line.flops[-1 if line.kind == "compute" else 0], line)
        for line in roof.lines
        if line.binding
    }
