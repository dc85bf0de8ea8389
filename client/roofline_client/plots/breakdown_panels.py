"""What the plot of a breakdown shows, its panels and bars, and what is in its caption instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from roofline.answers.breakdown import Breakdown, BreakdownPart
from roofline.answers.values import Value
from roofline.phrases import NOT_KNOWN

from ..errors import NothingToDraw
from ..tables import units
from ..tables.names import clean
from . import caption, kernels, part_colours, style
from .label_placement import shortened

TITLES = {
    "time": "Time",
    "stack_by_time": "Time by layer of the software",
    "flops_by_width": "FLOPs by vector width",
    "flops_by_precision": "FLOPs by precision",
    "work_and_memory": "FLOPs and memory accesses",
    "traffic_by_level": "Traffic by level",
    "kernels_by_time": "Kernels by time",
    "layers_by_time": "Traced steps by layer",
}
MOST_BARS, MOST_PARTS = 16, 8
KERNELS = "kernels_by_time"
UNSEEN = 1 / 350  # of the longest bar: about a point, and less is no area


class Bar(NamedTuple):
    """The parts of one subject, in order."""

    subject: str
    role: str
    parts: list[BreakdownPart]


class BreakdownPanel(NamedTuple):
    """One question."""

    kind: str
    bars: list[Bar]
    colours: dict[str, str]  # by part, in the order they are drawn


def panels_of(record: Breakdown) -> tuple[list[BreakdownPanel], list[str]]:
    readable = kernels.names(part.part for part in record.parts if part.kind == KERNELS)
    parts = [p._replace(part=readable[p.part]) if p.kind == KERNELS else p for p in record.parts]
    notes: list[str] = []
    panels = []
    chosen: list[str] = []  # the first panel with too many bars chooses for all, so that they can be compared
    for kind in dict.fromkeys([*TITLES, *(part.kind for part in parts)]):
        panel = _panel(kind, parts, chosen, notes)
        if panel:
            panels.append(panel)
    # A sentence says better than a plot that all of every bar is the same part.
    uniform = [panel for panel in panels if adds_up(panel.bars) and len(_part_names(panel)) == 1]
    if uniform:
        notes.append(f"All of one kind: {'; '.join(_uniform_text(panel) for panel in uniform)}.")
    notes += _absent(parts)
    if not panels:
        why = caption.joined([*notes, *record.notes][:3]) or "nothing was counted and no step was timed"
        raise NothingToDraw(f"nothing to draw: {clean(why)}")
    return [panel for panel in panels if panel not in uniform] or panels, notes


def _part_names(panel: BreakdownPanel) -> set[str]:
    return {part.part for bar in panel.bars for part in bar.parts}


def _uniform_text(panel: BreakdownPanel) -> str:
    """ "FLOPs by precision (f32, 2 to 4 GFLOP)"."""
    values = [part.value for bar in panel.bars for part in bar.parts]
    ends = dict.fromkeys(units.show(end(values, key=_number)) for end in (min, max))
    return f"{title_of(panel.kind)} ({clean(panel.bars[0].parts[0].part)}, {' to '.join(ends)})"


def _number(value: Value) -> float:
    return value.value or 0.0


def _panel(
    kind: str, parts: Sequence[BreakdownPart], chosen: list[str], notes: list[str]
) -> BreakdownPanel | None:
    own = [part for part in parts if part.kind == kind]
    shown = [part for part in own if part.value.value is not None and part.value.value > 0]
    if any(part.share.value is not None for part in shown):  # next to parts of a whole: what is none of it
        shown = [part for part in shown if part.share.value is not None]
    if not shown:
        return None
    subjects = dict.fromkeys((part.subject, part.role) for part in shown)
    bars = [Bar(name, role, [p for p in shown if p.subject == name]) for name, role in subjects]
    if len(bars) > MOST_BARS and not {bar.subject for bar in bars} & set(chosen):
        bars.sort(key=length, reverse=True)
        chosen[:] = [bar.subject for bar in bars[:MOST_BARS]]
        notes.append(f"{title_of(kind)}: the {MOST_BARS} longest of {len(bars)} bars, and the same below.")
    if len(bars) > MOST_BARS:
        by_subject = {bar.subject: bar for bar in bars}
        bars = [by_subject[subject] for subject in chosen if subject in by_subject]
    colours = _colours(kind, [part for bar in bars for part in bar.parts])
    unseen = {name: most for name, most in _unseen(bars).items() if name in colours}
    if unseen:
        names = ", ".join(f"{shortened(clean(part), 34)} ({most})" for part, most in unseen.items())
        notes.append(f"{title_of(kind)}: too small to be seen: {names}.")
    return BreakdownPanel(
        kind, bars, {part: colour for part, colour in colours.items() if part not in unseen}
    )


def _unseen(bars: Sequence[Bar]) -> dict[str, str]:
    """Parts of a whole that are visible in no bar, and the largest value of each."""
    if not adds_up(bars):
        return {}
    least = UNSEEN * max(map(length, bars))
    most: dict[str, Value] = {}
    for part in (part for bar in bars for part in bar.parts):
        most[part.part] = max(most.get(part.part, part.value), part.value, key=_number)
    return {name: units.show(value) for name, value in most.items() if _number(value) < least}


def title_of(kind: str) -> str:
    return TITLES.get(kind, clean(kind).replace("_", " "))


def _absent(parts: Sequence[BreakdownPart]) -> list[str]:
    """A sentence for each reason: "FLOPs by precision of chief, ps absent: no PMU."."""
    reasons: dict[str, list[BreakdownPart]] = {}
    for part in parts:
        if part.value.value is None:
            reasons.setdefault(part.value.reason or "not measured", []).append(part)
    sentences = []
    for reason, own in reasons.items():
        subjects = ", ".join(dict.fromkeys(clean(p.subject) for p in own))
        kinds = list(dict.fromkeys(title_of(p.kind) for p in own))
        names = dict.fromkeys(clean(p.part) for p in own)
        if len(kinds) == 1 and len({p.part for p in own}) < 4:
            kinds = [f"{kinds[0]} ({', '.join(names)})"]
        sentences.append(f"{', '.join(kinds)} of {shortened(subjects, 60)} absent: {reason}.")
    return sentences


def length(bar: Bar) -> float:
    return sum(part.value.value or 0.0 for part in bar.parts)


def adds_up(bars: Sequence[Bar]) -> bool:
    """Whether the parts are shares of a whole. Bytes of memory levels are not: levels move the same data."""
    return any(part.share.value is not None for bar in bars for part in bar.parts)


def _colours(kind: str, parts: Sequence[BreakdownPart]) -> dict[str, str]:
    """By part, in drawing order. If there are many, only the largest have a colour; the rest share one."""
    totals: dict[str, float] = {}
    for part in parts:
        totals[part.part] = totals.get(part.part, 0.0) + (part.value.value or 0.0)
    names = list(totals)
    if len(names) > MOST_PARTS:
        largest = sorted(names, key=lambda name: -totals[name])[: MOST_PARTS - 1]
        names = [name for name in names if name in largest]
    if kind in ("flops_by_width", "flops_by_precision"):
        known = sorted((name for name in names if NOT_KNOWN not in name), key=_vector_width)
        shades = {name: style.shade(at, len(known)) for at, name in enumerate(known)}
        return {**shades, **{name: style.PARTS["other"] for name in names if name not in shades}}
    if kind == KERNELS:
        return {name: part_colours.of_kernels(names)[name] for name in names}
    return {name: style.part_colour(name, at) for at, name in enumerate(names)}


def _vector_width(part: str) -> tuple[int, str]:
    """Sorts from narrow to wide: scalar, vectors by their bits, then tiles."""
    bits = [int(word) for word in part.replace("-", " ").split() if word.isdecimal()]
    return (10_000 if "amx" in part.casefold() else max(bits, default=0)), part
