"""Points against roofs: classic, hierarchical and network rooflines of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from roofline.answers.roofline import Roof, Roofline, RoofPoint
from roofline.answers.values import Provenance, Value, value

from ...errors import BadRequest
from ...model.evidence import RankEvidence
from ...model.roofline import point_gaps, point_limits
from ...model.roofline.points import Level, flops_spread, intensity_spread, levels, nodes, of_its_part, point
from ...model.roofline.roofs import MINIMUM, NETWORK
from ...model.roofline.summary import placed
from ...model.roofline.work import dominant_precision
from ...sentences import reasons
from ...sentences import rooflines as texts
from ...store.store import Needed, Store
from ...store.view import JobView
from ..about import about
from ..ceilings.caveats import caveats
from ..ceilings.contention import contention
from ..ceilings.network import ceiling_notes
from ..ceilings.roofs import roofs
from ..evidence.gathering import check_seen, gather
from ..evidence.ranks import NEEDED as OF_REPORT
from ..evidence.replays import notes as replay_notes
from ..evidence.sampled import notes as sample_notes
from ..evidence.steady import left_out_notes
from ..questions import Subject
from ..ranks.members import chosen
from .groups import PointGroup, groups_of, placing_of, summarized
from .kernel_sums import CallsAsked
from .kernels import of_kernels
from .layers import of_layers
from .network_points import by_its_bytes, crossings, over_network
from .phases import of_phases
from .steps import of_steps

KINDS = ("classic", "hierarchical", "network")
OF_CALLS = {"phase": of_phases, "kernel": of_kernels, "layer": of_layers}
POINTS = ("role", "rank", "step", *OF_CALLS)


def needed(kind: str, points: str) -> Needed:
    """What it reads of the step tables: collectives and phases of any name only where they are asked for."""
    communicated = kind in (NETWORK, "hierarchical") and points in ("role", "rank")
    return {**OF_REPORT, "steps_spans": None} if communicated or points == "phase" else OF_REPORT


def roofline(store: Store, view: JobView, subject: Subject, kind: str, points: str) -> Roofline:
    """The answer to GetRoofline. Raises BadRequest for a kind, points or range that cannot be, and
    UnknownRank."""
    _check_question(kind, points)
    check_seen(view, subject.steps)
    numbers = chosen(view, subject.ranks)
    gathered = gather(view, subject.steps)
    every = gathered.evidence
    evidence = {number: every[number] for number in numbers}
    notes: list[str] = []
    groups: list[PointGroup] = []
    if points in ("role", "rank"):
        groups = groups_of(view, evidence, every, points, summarized)
        found = [made for group in groups for made in points_of(group, kind)]
    elif points == "step":
        found, notes = of_steps(view, evidence, kind, contention(view, every))
    else:
        asked = CallsAsked(store, view, evidence, subject.steps, kind, contention(view, every))
        found, notes = OF_CALLS[points](asked)
    drawn = _roofs(view, evidence, found, kind)
    notes = [
        *_notes(drawn, evidence, gathered.mode),
        *ceiling_notes(view, kind, found),
        *notes,
        *replay_notes(view, evidence),
        *sample_notes(evidence.values()),
        *left_out_notes(view, subject.steps),
    ]
    return Roofline(
        about=about([view]),
        kind=kind,
        roofs=drawn,
        points=sorted(found, key=lambda p: -(p.time.value or 0.0)),
        crossings=crossings(view, groups, every) if kind == NETWORK else [],
        notes=list(dict.fromkeys(notes)),
    )


def of_roles(view: JobView, evidence: Mapping[int, RankEvidence]) -> list[tuple[PointGroup, RoofPoint]]:
    """A point of the classic roofline for each role and host whose FLOPs are known."""
    groups = groups_of(view, evidence, evidence, "role", summarized)
    return _with_flops((group, made) for group in groups for made in points_of(group, "classic"))


def places_of_roles(
    view: JobView, evidence: Mapping[int, RankEvidence]
) -> list[tuple[PointGroup, RoofPoint]]:
    """The points of `of_roles` without spreads over steps and words, which takes a quarter of the time."""
    groups = groups_of(view, evidence, evidence, "role", placing_of)
    return _with_flops((group, _place(group)) for group in groups)


def _with_flops(points: Iterable[tuple[PointGroup, RoofPoint]]) -> list[tuple[PointGroup, RoofPoint]]:
    return [(group, made) for group, made in points if made.flops_per_second.value is not None]


def _place(group: PointGroup) -> RoofPoint:
    name, intensity, reached = placed(group.evidence, group.values)
    made = point(group.who, Level(name, intensity), reached, group.limits, _time_seen(group))
    return of_its_part(made, group.parts)


def _check_question(kind: str, points: str) -> None:
    if kind not in KINDS:
        raise BadRequest(f"there is no {kind!r} roofline; there are {', '.join(KINDS)}")
    if points not in POINTS:
        raise BadRequest(f"points cannot be {points!r}; they can be {', '.join(POINTS)}")
    if kind == NETWORK and points not in ("role", "rank"):
        raise BadRequest(
            f"bytes communicated are not known of each {points}: ask for points of roles or ranks"
        )


# -- roles and ranks --------------------------------------------------------------------------------------


def points_of(group: PointGroup, kind: str) -> list[RoofPoint]:
    """One for each level of the kind; where none is known one that has the reason."""
    _, _, reached = placed(group.evidence, group.values)
    time = _time_seen(group)
    found = []
    for level in _levels(group, kind):
        # The FLOPs that the intensity is of: traffic of kernels goes with FLOPs of kernels.
        flops = reached if level.name in (NETWORK, "dram") else group.values["flops_per_second"]
        intensities = intensity_spread(group.evidence, level.steps, level.flops)
        made = point(
            group.who,
            level,
            flops,
            group.limits,
            time,
            incomplete=point_gaps.incomplete(group.evidence, group.values, level.name),
            spreads=(intensities, flops_spread(group.evidence)),
            flops_per_joule=group.values["flops_per_joule"],
        )
        if kind == NETWORK:
            made = by_its_bytes(group, made)
        if not made.words and made.headroom.value is not None and made.intensity.value is not None:
            # The network is shared by all ranks of a node, whatever they compute on.
            limits, mates = group.limits[0], group.sharing
            if made.level == NETWORK:
                limits, mates = nodes(group.limits)[0], group.mates
            words = point_limits.sentence(
                made.headroom.value,
                made.intensity.value,
                made.level,
                limits,
                group.evidence,
                group.values,
                mates,
            )
            made = made._replace(words=words)
        # The network is shared by whoever sends: how much of it a rank has is not known beforehand.
        found.append(of_its_part(made, group.parts) if made.level != NETWORK else made)
    return found


def _levels(group: PointGroup, kind: str) -> list[Level]:
    network = Level(NETWORK, over_network(group, group.local)) if kind in (NETWORK, "hierarchical") else None
    if network is not None and kind == NETWORK:
        return [network]
    device = group.limits[0].device if group.limits else ""
    known = levels(group.evidence, group.values, device)
    if network is not None:
        if network.intensity.value is not None:
            known.append(network)
        return known or [Level(MINIMUM, group.values["intensity.minimum"])]
    name, intensity, _ = placed(group.evidence, group.values)
    return [next((level for level in known if level.name == name), Level(name, intensity))]


def _time_seen(group: PointGroup) -> Value:
    """Of all steps seen; of ranks without steps the time in which their kernels were recorded."""
    lasted = 0.0
    for rank in group.evidence:
        if len(rank.steps.step):
            lasted += float((rank.steps.end_ns - rank.steps.begin_ns).sum()) / 1e9
        elif rank.kernels is not None:
            lasted += float(rank.kernels.duration_ns.sum()) / 1e9
    why = texts.ALL_STEPS if len(group.ranks) > 1 else ""
    return value(
        lasted or None, "s", Provenance.MEASURED, group.scope, reason=why, missing=reasons.NO_STEPS_SEEN
    )


# -- roofs and notes --------------------------------------------------------------------------------------


def _roofs(
    view: JobView, evidence: Mapping[int, RankEvidence], found: Sequence[RoofPoint], kind: str
) -> list[Roof]:
    """Of the hosts of these ranks, and of the GPUs that have points."""
    precisions = sorted({p.precision for p in found} or {dominant_precision(list(evidence.values()))})
    homes = {rank.host for rank in evidence.values()}
    used = {(p.host, p.device) for p in found}
    every = roofs(view, *precisions, kind=kind)
    return [r for r in every if r.host in homes and (not r.device or (r.host, r.device) in used)]


def _notes(drawn: Sequence[Roof], evidence: Mapping[int, RankEvidence], mode: str) -> list[str]:
    notes = [texts.no_ceilings_of_host(roof.host) for roof in drawn if not roof.ceilings]
    notes += caveats(drawn)
    recorded = [r for r in evidence.values() if r.kernels is not None]
    if len({dominant_precision([r]) for r in recorded} - {""}) > 1:
        notes.append(texts.DIFFERENT_PRECISIONS)
    if not mode and recorded:
        notes.append(texts.NO_STEPS)
    return notes
