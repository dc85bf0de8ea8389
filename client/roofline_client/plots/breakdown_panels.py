"""What the picture of a breakdown shows: a panel for each question, a bar for each role or rank, and what is
said in words instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import ClientError
from ..model_records import Breakdown, BreakdownPart
from ..records import Value
from ..tables import units
from ..tables.names import clean
from . import caption, kernels, part_colours, style
from .label_placement import shortened

TITLES = {
    "time": "Time",
    "flops_by_width": "FLOPs by vector width",
    "flops_by_precision": "FLOPs by precision",
    "work_and_memory": "FLOPs and memory accesses",
    "traffic_by_level": "Traffic by level",
    "kernels_by_time": "Kernels by time",
}
MOST_BARS, MOST_PARTS = 16, 8
KERNELS = "kernels_by_time"
UNSEEN = 1 / 350  # of the longest bar: about a point, and less is no area


class Bar(NamedTuple):
    """The parts of one subject, in order."""

    subject: str
    role: str
    parts: list[BreakdownPart]


class Panel(NamedTuple):
    """One question."""

    kind: str
    bars: list[Bar]
    colours: dict[str, str]  # by part, in the order they are drawn


def panels_of(record: Breakdown) -> tuple[list[Panel], list[str]]:
    record = record._replace(parts=_named(record.parts))
    kinds = dict.fromkeys([*TITLES, *(part.kind for part in record.parts)])
    notes: list[str] = []
    found = [panel for kind in kinds if (panel := _panel(kind, record.parts, notes))]
    notes += [*_alone(found), *_absent(record.parts)]
    told = [panel for panel in found if not _is_uniform(panel)]
    if not found:
        said = caption.joined([*notes, *record.notes][:3]) or "nothing was counted and no step was timed"
        raise ClientError(f"nothing to draw: {clean(said)}")
    return told or found, notes


def _named(parts: Sequence[BreakdownPart]) -> list[BreakdownPart]:
    """Kernels with names that can be read."""
    told = kernels.names(part.part for part in parts if part.kind == KERNELS)
    return [p._replace(part=told[p.part]) if p.kind == KERNELS else p for p in parts]


def _is_uniform(panel: Panel) -> bool:
    """Whether all of every bar is the same part: a sentence says that better than a picture."""
    parts = {part.part for bar in panel.bars for part in bar.parts}
    return len(parts) == 1 and adds_up(panel.bars)


def _alone(panels: Sequence[Panel]) -> list[str]:
    """ "All of one kind: FLOPs by precision (f32, 2 to 4 GFLOP)."."""
    told = []
    for panel in filter(_is_uniform, panels):
        values = [part.value for bar in panel.bars for part in bar.parts]
        ends = dict.fromkeys(units.show(end(values, key=_number)) for end in (min, max))
        told.append(f"{title_of(panel.kind)} ({clean(panel.bars[0].parts[0].part)}, {' to '.join(ends)})")
    return [f"All of one kind: {'; '.join(told)}."] if told else []


def _number(value: Value) -> float:
    return value.value or 0.0


def _panel(kind: str, parts: Sequence[BreakdownPart], notes: list[str]) -> Panel | None:
    own = [part for part in parts if part.kind == kind]
    shown = [part for part in own if part.value.value is not None and part.value.value > 0]
    if not shown:
        return None
    subjects = dict.fromkeys((part.subject, part.role) for part in shown)
    bars = [Bar(name, role, [p for p in shown if p.subject == name]) for name, role in subjects]
    if len(bars) > MOST_BARS:
        bars.sort(key=length, reverse=True)
        notes.append(f"{title_of(kind)}: the {MOST_BARS} longest of {len(bars)} bars.")
    bars = bars[:MOST_BARS]
    colours = _colours(kind, [part for bar in bars for part in bar.parts])
    unseen = {name: most for name, most in _unseen(bars).items() if name in colours}
    if unseen:
        told = ", ".join(f"{shortened(clean(part), 34)} ({most})" for part, most in unseen.items())
        notes.append(f"{title_of(kind)}: too small to be seen: {told}.")
    return Panel(kind, bars, {part: colour for part, colour in colours.items() if part not in unseen})


def _unseen(bars: Sequence[Bar]) -> dict[str, str]:
    """Parts of a whole without a visible area in any bar, and the most of each in a bar."""
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
    """What is absent and why, reason by reason."""
    reasons: dict[str, list[BreakdownPart]] = {}
    for part in parts:
        if part.value.value is None:
            reasons.setdefault(part.value.reason or "nobody measured it", []).append(part)
    return [f"{_lacking(own)} absent: {why}." for why, own in reasons.items()]


def _lacking(parts: Sequence[BreakdownPart]) -> str:
    """ "FLOPs by precision, FLOPs by vector width of chief, ps"."""
    names = ", ".join(dict.fromkeys(clean(p.subject) for p in parts))
    kinds = list(dict.fromkeys(title_of(p.kind) for p in parts))
    if len(kinds) == 1 and len({p.part for p in parts}) < 4:
        kinds = [f"{kinds[0]} ({', '.join(dict.fromkeys(clean(p.part) for p in parts))})"]
    return f"{', '.join(kinds)} of {shortened(names, 60)}"


def length(bar: Bar) -> float:
    return sum(part.value.value or 0.0 for part in bar.parts)


def adds_up(bars: Sequence[Bar]) -> bool:
    """Whether parts are shares of a whole: what passes one level passes the next, too."""
    return any(part.share.value is not None for bar in bars for part in bar.parts)


def _colours(kind: str, parts: Sequence[BreakdownPart]) -> dict[str, str]:
    """Of many parts the largest have a colour, the rest one together."""
    totals: dict[str, float] = {}
    for part in parts:
        totals[part.part] = totals.get(part.part, 0.0) + (part.value.value or 0.0)
    names = list(totals)
    if len(names) > MOST_PARTS:
        largest = sorted(names, key=lambda name: -totals[name])[: MOST_PARTS - 1]
        names = [name for name in names if name in largest]
    if kind in ("flops_by_width", "flops_by_precision"):
        told = sorted((name for name in names if "not told" not in name), key=_width)
        shades = {name: style.shade(at, len(told)) for at, name in enumerate(told)}
        return {**shades, **{name: style.PARTS["other"] for name in names if name not in shades}}
    if kind == KERNELS:
        return {name: part_colours.of_kernels(names)[name] for name in names}
    return {name: style.part_colour(name, at) for at, name in enumerate(names)}


def _width(part: str) -> tuple[int, str]:
    """Order from narrow to wide: scalar, then the bits that are said, then tiles."""
    bits = [int(word) for word in part.replace("-", " ").split() if word.isdecimal()]
    return (10_000 if "amx" in part.casefold() else max(bits, default=0)), part
