"""Points of a roofline: what something reached, compared with the roofs of where it ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.roofline import RoofPoint
from roofline.answers.values import Provenance, Scope, Spread, Value, value

from ...records import ABSENT, Floats, Ints
from ...sentences import origins, reasons
from ...sentences import rooflines as texts
from ...sentences.wording import joined
from ..evidence import NS, KernelEvidence, RankEvidence, total_of
from . import point_limits
from .rates import apart, over_counted, pool, ratio
from .roofs import CACHES, MINIMUM, NETWORK, Limits, main_memory


class Held(NamedTuple):
    """Something against its roofs. bound: names of the ceilings that bind; "": unknown, `why` says why.

    attainable: FLOP/s under them, all places together; headroom: attainable over reached; share: the inverse.
    """

    bound: str
    attainable: Value
    headroom: Value
    share: Value
    why: str = ""

    def of_part(self, parts: float) -> Held:
        """These numbers against one of so many equal parts of the roofs."""
        return self._replace(
            attainable=_of_part(self.attainable, 1 / parts),
            headroom=_of_part(self.headroom, 1 / parts),
            share=_of_part(self.share, parts),
        )


class Level(NamedTuple):
    """Bytes of one level: intensity over them, and the bytes of each completely watched step where known."""

    name: str
    intensity: Value
    steps: Sequence[Ints | None] = ()  # per rank, as its KernelEvidence; None: of single steps not known
    flops: Sequence[Ints] = ()  # that go with `steps`


def against(intensity: Value, reached: Value, level: str, limits: Sequence[Limits]) -> Held:
    """intensity: FLOP per byte of the level; reached: FLOP/s of all together. limits: of the places where it
    computed, each once: their roofs add up."""
    why = _why_not(intensity, reached, level, limits)
    if why or intensity.value is None or reached.value is None:
        absent = Value(None, "1", reason=why)
        return Held("", Value(None, "FLOP/s", reason=why), absent, absent, why)
    x = intensity.value
    together = nodes(limits) if level == NETWORK else limits
    attainable = sum(limit.attainable(x, level) or 0.0 for limit in together)
    binding = [limit.binding(x, level) for limit in together]
    names = dict.fromkeys(ceiling.name for ceiling in binding if ceiling is not None)
    notes = {_what_the_roof_is_of(limits, level): None}
    for limit in limits:
        notes[limit.note] = None
        if level == NETWORK:
            notes[limit.network_note] = None
    note = joined(*notes)

    def derived(number: float, unit: str) -> Value:
        return value(number, unit, Provenance.ESTIMATED, Scope.NODE, reason=note)

    return Held(
        ", ".join(names),
        derived(attainable, "FLOP/s"),
        derived(attainable / reached.value, "1"),
        derived(reached.value / attainable, "1"),
    )


def nodes(limits: Sequence[Limits]) -> list[Limits]:
    """Each host once, with the peaks of its places added up: they share its one network."""
    found: dict[str, Limits] = {}
    for limit in limits:
        known = found.get(limit.host)
        if known and known.compute and limit.compute:
            peak = known.compute.value + limit.compute.value
            limit = known._replace(compute=known.compute._replace(value=peak))
        found[limit.host] = limit
    return list(found.values())


def _why_not(intensity: Value, reached: Value, level: str, limits: Sequence[Limits]) -> str:
    """Why there is nothing to compare, or nothing to compare it with; "": there is."""
    for known, unit in ((reached, "FLOP/s"), (intensity, "FLOP/byte")):
        if known.value is None:
            return known.reason
        if known.value < 0:
            return reasons.ran_backwards(known.value, unit)
        if known.value == 0:
            return reasons.NO_FLOPS
    if not limits:
        return reasons.PLACE_UNKNOWN
    return joined(*dict.fromkeys(limit.lacks(level) for limit in limits))


def _what_the_roof_is_of(limits: Sequence[Limits], level: str) -> str:
    """Of how much of the machines the roof is."""
    if any(limit.device for limit in limits):
        gpus = texts.WHOLE_GPU if len(limits) == 1 else texts.of_gpus(len(limits))
        return texts.of_gpus_and_network(gpus) if level == NETWORK else gpus
    parts = [(limit.host, limit.part) for limit in limits if limit.part]
    if len(limits) > 1:
        return texts.of_nodes(len(limits), parts)
    return texts.of_part(parts[0][1]) if parts else texts.WHOLE_NODE


# -- levels of bytes --------------------------------------------------------------------------------------


def levels(ranks: Sequence[RankEvidence], values: Mapping[str, Value], device: str) -> list[Level]:
    """Levels whose bytes are known, from the least there can be to the main memory."""
    known = _kernels(ranks)
    flops = [k.flops for k in known]
    sized = [k.sized_flops for k in known]
    found = [Level(MINIMUM, values["intensity.minimum"], [k.bytes for k in known], sized)]
    for name in CACHES:
        caches = [k.levels.get(name) for k in known]
        found.append(Level(name, _cache_intensity(ranks, caches), caches, flops))
    dram = [k.dram if _whole(k, k.dram) else None for k in known]
    found.append(Level(main_memory(device), values["intensity.dram"], dram, flops))
    return [level for level in found if level.intensity.value is not None]


def _kernels(ranks: Sequence[RankEvidence]) -> list[KernelEvidence]:
    return [r.kernels for r in ranks if r.kernels is not None]


def _whole(k: KernelEvidence, column: Ints | None) -> bool:
    """Whether a profiler counted these bytes of every call of every completely watched step."""
    return column is not None and bool(k.complete.any()) and not bool(np.any(column[k.complete] == ABSENT))


def _cache_intensity(ranks: Sequence[RankEvidence], caches: Sequence[Ints | None]) -> Value:
    pairs = list(zip(_kernels(ranks), caches, strict=True))
    if not pairs or not all(_whole(k, column) for k, column in pairs):
        return Value(None, "FLOP/byte", reason=reasons.BYTES_OF_LEVEL_NOT_COUNTED)
    flops = total_of(pool([k.flops[k.complete] for k, _ in pairs]))
    moved = total_of(pool([column[k.complete] for k, column in pairs if column is not None]))
    why = origins.BY_PROFILER
    origin = over_counted(k for k, _ in pairs)
    return value(ratio(flops, moved), "FLOP/byte", origin, Scope.PROCESS, reason=why, missing=why)


# -- spread over steps ------------------------------------------------------------------------------------


def spread(numbers: Floats) -> Spread | None:
    """Quantiles of what is finite; None: fewer than two numbers."""
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) < 2:
        return None
    p5, p25, p50, p75, p95 = np.percentile(numbers, (5, 25, 50, 75, 95)).tolist()
    return Spread(p5, p25, p50, p75, p95, len(numbers))


def intensity_spread(
    ranks: Sequence[RankEvidence], steps: Sequence[Ints | None], flops: Sequence[Ints] = ()
) -> Spread | None:
    """Over the completely watched steps of all ranks. steps, flops: of a Level; no flops: all."""
    each = []
    known = _kernels(ranks)
    for k, column, counted in zip(known, steps, flops or [k.flops for k in known], strict=False):
        if column is not None and k.has_flops:
            done, moved = counted[k.complete].astype(np.float64), column[k.complete]
            each.append(done[moved > 0] / moved[moved > 0])
    return spread(np.concatenate(each)) if each else None


def flops_spread(ranks: Sequence[RankEvidence]) -> Spread | None:
    """FLOP/s of single steps; of several ranks their sum in each step that they have in common. Numbers that
    come again make no sum: which of them belong together is not known; nor do steps at different times."""
    known = [k for k in _kernels(ranks) if k.has_flops and k.complete.any()]
    if not known or len(known) < len(ranks) or apart(ranks):
        return None
    if len(known) == 1:
        return spread(step_rates(known[0]))
    numbers = [k.step[k.complete] if k.step is not None else np.zeros(0, np.int64) for k in known]
    if not all(map(_each_once, numbers)):
        return None
    each = [step_rates(k) for k in known]
    if all(np.array_equal(n, numbers[0]) for n in numbers):
        return spread(np.sum(each, axis=0))
    every, where = np.unique(np.concatenate(numbers), return_inverse=True)
    rates = np.concatenate(each)
    common = np.bincount(where, minlength=len(every)) == len(known)
    return spread(np.bincount(where, rates, minlength=len(every))[common])


def _each_once(numbers: Ints) -> bool:
    rises = bool((numbers[1:] > numbers[:-1]).all())
    return len(numbers) > 0 and (rises or len(np.unique(numbers)) == len(numbers))


def step_rates(k: KernelEvidence) -> Floats:
    """FLOP/s of each completely watched step; NaN where it took no time."""
    lasted = k.duration_ns[k.complete] / NS
    known: Floats = np.full(len(lasted), np.nan)
    np.divide(k.flops[k.complete], lasted, out=known, where=lasted > 0)
    return known


# -- points -----------------------------------------------------------------------------------------------


class Named(NamedTuple):
    """Who a point is of. Field by field in models.proto."""

    label: str
    kind: str
    role: str
    rank: str
    host: str


def point(
    who: Named,
    level: Level,
    reached: Value,
    limits: Sequence[Limits],
    time: Value,
    words: str = "",
    incomplete: str = "",
    spreads: tuple[Spread | None, Spread | None] = (None, None),
    flops_per_joule: Value | None = None,
) -> RoofPoint:
    """A point; of several GPUs what one of them reached in the mean: it compares with the roof of one.

    reached: FLOP/s of all places together. words: what to say of it where a roof holds.
    """
    held = against(level.intensity, reached, level.name, limits)
    share = 1 / max(1, len(limits))
    intensities, rates = spreads
    if rates is not None:
        p5, p25, p50, p75, p95 = (quantile * share for quantile in rates[:5])
        rates = Spread(p5, p25, p50, p75, p95, rates.count)
    first = limits[0] if limits else None
    if flops_per_joule is None:
        flops_per_joule = Value(None, "FLOP/J", reason=reasons.NO_ENERGY_OF_PARTS)
    return RoofPoint(
        *who,
        device=first.device if first else "",
        level=level.name,
        precision=first.precision if first else "",
        intensity=level.intensity,
        flops_per_second=_scaled(reached, share),
        intensity_spread=intensities,
        flops_spread=rates,
        time=time,
        bound=held.bound,
        attainable=_scaled(held.attainable, share),
        headroom=held.headroom,
        words=held.why or words,
        incomplete=incomplete,
        flops_per_joule=flops_per_joule,
    )


def plain(
    who: Named,
    level: str,
    flops: float,
    moved: float,
    lasted: float,
    limits: Sequence[Limits],
    counted: bool,
    spread: Spread | None = None,
    more: float = 0.0,
    sharing: int = 1,
) -> RoofPoint:
    """A point of bare numbers: FLOP, bytes, seconds. counted: a profiler counted its FLOPs; spread: of
    FLOP/s.

    limits: as of `against`, at least one. more: FLOPs done in this time whose bytes are not known: they count
    for the rate alone. sharing: how many like it compute in these places at once."""
    origin = Provenance.MEASURED if counted else Provenance.ANALYTIC
    over_counted = Provenance.MEASURED if counted else Provenance.ESTIMATED
    over_bytes = Provenance.ANALYTIC if level == MINIMUM else over_counted
    x = flops / moved if moved else None
    rate = (flops + more) / lasted if lasted else None
    made = point(
        who,
        Level(level, value(x, "FLOP/byte", over_bytes, Scope.PROCESS, missing=reasons.NO_BYTES)),
        value(rate, "FLOP/s", origin, Scope.PROCESS, missing=reasons.TOOK_NO_TIME),
        limits,
        value(lasted, "s", Provenance.MEASURED, Scope.PROCESS),
        spreads=(None, spread),
    )
    if not made.words and made.headroom.value is not None and x is not None:
        made = made._replace(words=point_limits.of_work(made.headroom.value, x, level, limits[0], sharing))
    return of_its_part(made, sharing)


def of_its_part(made: RoofPoint, parts: float) -> RoofPoint:
    """The point against the part of the roof that it has where others compute too: one of so many."""
    by = 1 / max(1.0, parts)
    return made._replace(attainable=_of_part(made.attainable, by), headroom=_of_part(made.headroom, by))


def _of_part(found: Value, by: float) -> Value:
    """Scaled to a part of the roof; its reason says what the roof is of."""
    if found.value is None or by == 1:
        return found
    parts = by if by > 1 else 1 / by
    return _scaled(found, by)._replace(reason=texts.its_part(parts, found.reason))


def _scaled(found: Value, by: float) -> Value:
    return found if found.value is None else found._replace(value=found.value * by)
