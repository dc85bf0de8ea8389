"""The numbers of one rank, or of several together, as values with formula and reason."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.answers.efficiency import Utilisation, UtilisationMeasure, WaterfallPart
from roofline.answers.model_flops import ModelFlops
from roofline.answers.values import Provenance, Scope, Value, value

from ...model.account.ledger import PARTS
from ...model.efficiency import USEFUL, RankSteps, mean_waterfall, sparse_peak, utilisation_of
from ...model.roofline.roofs import NETWORK
from ...model.roofline.summary import placed
from ...sentences import efficiency as texts
from ...sentences import reasons
from ...sentences.wording import joined
from ..roofline.groups import PointGroup
from ..roofline.rooflines import points_of
from .rank_use import RankUse

LOSSES_NAMED = 2
ESTIMATED, SCOPE = Provenance.ESTIMATED, Scope.ROLE


def of_ranks(
    label: str, uses: Sequence[RankUse], groups: Sequence[PointGroup], asked: ModelFlops
) -> Utilisation:
    """groups: the same ranks as points of a roofline, each host once."""
    steps = [use.steps for use in uses]
    parts = mean_waterfall(steps)
    precisions = {use.peaks.precision for use in uses}
    found = {
        "step": value(
            sum(parts.values()) if parts else None,
            "s",
            Provenance.MEASURED,
            SCOPE,
            missing=reasons.NO_STEPS_SEEN,
        ),
        **_flops_and_peaks(uses, asked),
    }
    found |= _shares(steps, found, asked)
    found |= _under_roofs(steps, groups)
    return Utilisation(
        label=label,
        rank="",
        host="",
        precision=precisions.pop() if len(precisions) == 1 else "",
        steps=max((one.steps for one in steps), default=0),
        measures=[
            UtilisationMeasure(name, found[name], formula)
            for name, formula in texts.FORMULAS.items()
            if name in found
        ],
        waterfall=_waterfall(parts, uses),
    )


def measured(whole: Utilisation, name: str) -> Value:
    """One of its measures."""
    return next(one.value for one in whole.measures if one.name == name)


def losses(whole: Utilisation) -> list[tuple[str, float]]:
    """The largest parts of the step that are no useful FLOPs, with their shares."""
    known = [(part.part, part.share.value) for part in whole.waterfall if part.share.value is not None]
    rest = sorted((one for one in known if one[0] != USEFUL and one[1] > 0), key=lambda one: -one[1])
    return rest[:LOSSES_NAMED]


# -- FLOPs and peaks --------------------------------------------------------------------------------------


def _flops_and_peaks(uses: Sequence[RankUse], asked: ModelFlops) -> dict[str, Value]:
    peaks = [use.peaks for use in uses]
    theory = _sum([one.theory for one in peaks])
    found = {
        "model_flops": _added([use.model for use in uses]),
        "executed_flops": _added([use.executed for use in uses]),
        "peak": value(
            _sum([one.measured for one in peaks]),
            "FLOP/s",
            Provenance.MEASURED,
            SCOPE,
            reason=joined(*dict.fromkeys(one.part_of for one in peaks)),
            missing=joined(*dict.fromkeys(one.why for one in peaks)) or reasons.NO_STEPS_SEEN,
        ),
        "peak.theoretical": value(theory, "FLOP/s", Provenance.ANALYTIC, SCOPE, missing=texts.NO_THEORY),
    }
    if asked.sparse:
        sparse = [sparse_peak(one.theory, one.precision) if one.theory else None for one in peaks]
        missing = texts.NO_THEORY if theory is None else texts.NO_SPARSE
        found["peak.sparse"] = value(_sum(sparse), "FLOP/s", Provenance.ANALYTIC, SCOPE, missing=missing)
    return found


def _sum(numbers: Sequence[float | None]) -> float | None:
    known = [one for one in numbers if one is not None]
    return sum(known) if len(known) == len(numbers) > 0 else None


def _added(values: Sequence[Value]) -> Value:
    """Of all ranks; absent where it is of one."""
    missing = next((one for one in values if one.value is None), None)
    if missing is not None or not values:
        return missing or Value(None, "FLOP", reason=reasons.NO_STEPS_SEEN)
    known = [one.coverage for one in values if one.coverage is not None]
    return values[0]._replace(
        value=_sum([one.value for one in values]),
        scope=SCOPE if len(values) > 1 else values[0].scope,
        coverage=min(known, default=None),
    )


# -- shares -----------------------------------------------------------------------------------------------


def _shares(steps: Sequence[RankSteps], found: dict[str, Value], asked: ModelFlops) -> dict[str, Value]:
    """MFU and HFU. They are as sure as the FLOPs are."""
    made = {}
    kinds = ["", ".theoretical", *([".sparse"] if asked.sparse else [])]
    for name, which in (("mfu", "model"), ("hfu", "executed")):
        for kind in kinds:
            if name == "hfu" and kind == ".sparse":
                continue
            flops, peak = found[f"{which}_flops"], found[f"peak{kind}"]
            share = utilisation_of(steps, which, "theory" if kind else "peak")
            if kind == ".sparse" and share is not None and peak.value is not None:
                share *= (found["peak.theoretical"].value or 0.0) / peak.value
            lacking = flops if flops.value is None else peak
            made[name + kind] = value(
                share if lacking.value is not None else None,
                "1",
                flops.provenance,
                SCOPE,
                flops.coverage,
                reason=flops.reason,
                missing=lacking.reason,
            )
    return made


def _under_roofs(steps: Sequence[RankSteps], groups: Sequence[PointGroup]) -> dict[str, Value]:
    """Of all of them: what they did in their steps over what the lowest of their roofs lets them attain."""
    could = 0.0
    why, notes = reasons.NO_STEPS_SEEN if not groups else "", dict[str, None]()
    for group in groups:
        reached = placed(group.evidence, group.values)[2]
        first, *others = [*points_of(group, "classic"), *points_of(group, NETWORK)]
        if reached.value is None or first.headroom.value is None:
            why = reached.reason if reached.value is None else first.headroom.reason
            break
        headrooms = [one.headroom.value for one in others if one.headroom.value is not None]
        could += reached.value * min([first.headroom.value, *headrooms])
        notes[first.headroom.reason] = None
    share = utilisation_of(steps, "executed")
    done = (share or 0.0) * sum(one.peak or 0.0 for one in steps)
    known = not why and could > 0 and share is not None
    note, why = joined(*notes), why or reasons.NO_FLOPS_COUNTED
    return {
        "attainable": value(could if known else None, "FLOP/s", ESTIMATED, SCOPE, reason=note, missing=why),
        "roofline_utilisation": value(
            done / could if known else None, "1", ESTIMATED, SCOPE, reason=note, missing=why
        ),
    }


# -- the waterfall ----------------------------------------------------------------------------------------


def _waterfall(parts: dict[str, float], uses: Sequence[RankUse]) -> list[WaterfallPart]:
    """In the order of what adds up to the peak, then as an account has them."""
    whole = sum(parts.values())
    order = [*texts.FORMULAS, *PARTS]
    found = []
    for part in sorted(parts, key=lambda part: order.index(part.partition("|")[0])):
        origin = _origin(part, uses)
        share = parts[part] / whole if whole > 0 else None
        found.append(
            WaterfallPart(
                part,
                value(parts[part], "s", origin, SCOPE),
                value(share, "1", origin, SCOPE, missing=reasons.NO_STEPS_SEEN),
                texts.FORMULAS.get(part, texts.OF_ACCOUNT),
            )
        )
    return found


def _origin(part: str, uses: Sequence[RankUse]) -> Provenance:
    """As sure as that of every rank."""
    found = {use.origins.get(part, ESTIMATED) for use in uses if part in use.steps.parts}
    return found.pop() if len(found) == 1 else ESTIMATED
