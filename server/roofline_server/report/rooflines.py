"""Points against roofs: classic, hierarchical and network rooflines of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..errors import BadRequest
from ..model import network, verdicts
from ..model.evidence import RankEvidence
from ..model.points import Level, Named, flops_spread, intensity_spread, levels, nodes, point
from ..model.records import Crossing, Roof, RoofLine, Roofline, RoofPoint
from ..model.roofline import NETWORK, Limits
from ..model.summary import placed, summarize
from ..model.values import Provenance, Scope, Value, value
from ..model.work import dominant_precision
from ..store.store import Needed, Store
from ..store.view import JobView
from . import doubts, roofs
from .about import about
from .crowds import crowd
from .evidence import NEEDED as OF_REPORT
from .gathering import check_seen, gather
from .inside import Peers
from .members import role_order
from .profiled import notes as replay_notes
from .records import Subject
from .roof_kernels import of_kernels
from .roof_steps import of_steps
from .steps import chosen

KINDS = ("classic", "hierarchical", "network")
POINTS = ("role", "rank", "step", "phase", "kernel")


class Group(NamedTuple):
    """Ranks that are one point: one rank, or those of a role on one host."""

    who: Named
    ranks: dict[int, RankEvidence]
    limits: Sequence[Limits]
    values: Mapping[str, Value]
    sharing: int  # ranks of the job that compute in the same places
    mates: int  # ranks of the job on the same host
    layout: network.Layout  # how those lie on nodes with whom it takes part in collectives
    inside: network.Inside  # of its TCP bytes
    among: network.Inside  # the same, with what it exchanged with others than ranks

    @property
    def evidence(self) -> list[RankEvidence]:
        return list(self.ranks.values())

    @property
    def scope(self) -> Scope:
        return Scope.ROLE if self.who.kind == "role" else Scope.PROCESS


def needed(kind: str, points: str) -> Needed:
    """What it reads of the step tables: collectives and phases of any name only where they are asked for."""
    communicated = kind in (NETWORK, "hierarchical") and points in ("role", "rank")
    return {**OF_REPORT, "steps_spans": None} if communicated or points == "phase" else OF_REPORT


def roofline(store: Store, view: JobView, subject: Subject, kind: str, points: str) -> Roofline:
    """The answer to GetRoofline. Raises BadRequest for a kind, points or range that cannot be, and
    UnknownRank."""
    _check(kind, points)
    check_seen(view, subject.steps)
    numbers = chosen(view, subject.ranks)
    every, mode = gather(view, subject.steps)
    evidence = {number: every[number] for number in numbers}
    notes: list[str] = []
    groups: list[Group] = []
    if points in ("role", "rank"):
        groups = _groups(view, evidence, every, points)
        found = [made for group in groups for made in _points(group, kind)]
    elif points == "step":
        found, notes = of_steps(view, evidence, kind, crowd(view, every))
    else:
        there = crowd(view, every)
        found, notes = of_kernels(store, view, evidence, subject.steps, kind, points, there)
    drawn = _roofs(view, evidence, found, kind)
    return Roofline(
        about=about([view]),
        kind=kind,
        roofs=drawn,
        points=sorted(found, key=lambda p: -(p.time.value or 0.0)),
        crossings=_crossings(view, groups, every) if kind == NETWORK else [],
        notes=list(
            dict.fromkeys((*_notes(drawn, evidence, kind, mode), *notes, *replay_notes(view, evidence)))
        ),
    )


def of_roles(view: JobView, evidence: Mapping[int, RankEvidence]) -> list[RoofPoint]:
    """A point of the classic roofline for each role and host whose FLOPs are known."""
    groups = _groups(view, evidence, evidence, "role")
    points = (made for group in groups for made in _points(group, "classic"))
    return [point for point in points if point.flops_per_second.value is not None]


def _check(kind: str, points: str) -> None:
    if kind not in KINDS:
        raise BadRequest(f"there is no {kind!r} roofline; there are {', '.join(KINDS)}")
    if points not in POINTS:
        raise BadRequest(f"points cannot be {points!r}; they can be {', '.join(POINTS)}")
    if kind == NETWORK and points not in ("role", "rank"):
        raise BadRequest(
            f"bytes communicated are not known of each {points}: ask for points of roles or ranks"
        )


# -- roles and ranks --------------------------------------------------------------------------------------


def _groups(
    view: JobView, evidence: Mapping[int, RankEvidence], every: Mapping[int, RankEvidence], points: str
) -> list[Group]:
    places = roofs.places(view, every)
    there, peers = crowd(view, every), Peers(view)
    found = []
    for who, ranks in _named(evidence, points):
        limits = roofs.of_ranks(view, ranks)
        scope = Scope.ROLE if points == "role" else Scope.PROCESS
        known = roofs.computing(ranks)
        sharing = max(there[place.host, place.device] for number in known for place in places[number])
        mates = sum(mine[0].host == who.host for mine in places.values())
        if len(limits) > 1:
            who = who._replace(label=f"{who.label}, mean of {len(limits)} GPUs")
        found.append(
            Group(
                who,
                ranks,
                limits,
                summarize(list(ranks.values()), limits, scope).values,
                sharing,
                mates,
                peers.layout(ranks),
                peers.inside(ranks),
                peers.among_ranks(ranks),
            )
        )
    return found


def _named(
    evidence: Mapping[int, RankEvidence], points: str
) -> Iterable[tuple[Named, dict[int, RankEvidence]]]:
    """One a rank, or one a role and host: only what one node did compares with its roof."""
    if points == "rank":
        for number, rank in evidence.items():
            yield Named(rank.key, "rank", rank.role, rank.key, rank.host), {number: rank}
        return
    grouped: dict[tuple[str, str], dict[int, RankEvidence]] = {}
    for number, rank in evidence.items():
        grouped.setdefault((rank.role, rank.host), {})[number] = rank
    spread = {role for role, _ in grouped if sum(r == role for r, _ in grouped) > 1}
    for (role, host), ranks in sorted(grouped.items(), key=lambda item: (role_order(item[0][0]), item[0][1])):
        label = f"{role} on {host or 'an unknown host'}" if role in spread else role
        yield Named(label, "role", role, "", host), ranks


def _points(group: Group, kind: str) -> list[RoofPoint]:
    """One for each level of the kind; where none is known one that says why."""
    _, _, reached = placed(group.evidence, group.values)
    time = _time(group)
    found = []
    for level in _levels(group, kind):
        intensities = intensity_spread(group.evidence, level.steps, level.flops)
        made = point(
            group.who,
            level,
            _reached(group, level, reached),
            group.limits,
            time,
            incomplete=verdicts.incomplete(group.evidence, group.values, level.name),
            spreads=(intensities, flops_spread(group.evidence)),
            flops_per_joule=group.values["flops_per_joule"],
        )
        found.append(made._replace(words=made.words or _words(group, made)))
    return found


def _reached(group: Group, level: Level, reached: Value) -> Value:
    """The FLOPs that the intensity is of: traffic of kernels goes with FLOPs of kernels."""
    return reached if level.name in (NETWORK, "dram") else group.values["flops_per_second"]


def _levels(group: Group, kind: str) -> list[Level]:
    if kind == NETWORK:
        return [_network(group)]
    device = group.limits[0].device if group.limits else ""
    known = levels(group.evidence, group.values, device)
    if kind == "hierarchical":
        communicated = _network(group)
        known += [communicated] * (communicated.intensity.value is not None)
        return known or [Level("minimum", group.values["intensity.minimum"])]
    name, intensity, _ = placed(group.evidence, group.values)
    return [next((level for level in known if level.name == name), Level(name, intensity))]


def _network(group: Group) -> Level:
    return Level(NETWORK, _over_network(group, group.inside))


def _over_network(group: Group, inside: network.Inside) -> Value:
    moved = network.communicated(group.evidence, group.values, group.scope, group.layout, inside)
    return network.intensity(group.evidence, group.values, moved, group.scope)


def _words(group: Group, made: RoofPoint) -> str:
    if made.headroom.value is None or made.intensity.value is None:
        return ""
    return verdicts.sentence(
        made.headroom.value,
        made.intensity.value,
        made.level,
        (nodes(group.limits) if made.level == NETWORK else group.limits)[0],
        group.evidence,
        group.values,
        group.mates if made.level == NETWORK else group.sharing,
    )


def _time(group: Group) -> Value:
    """Of all steps seen; of ranks without steps the time in which their kernels were recorded."""
    lasted = 0.0
    for rank in group.evidence:
        if len(rank.steps.step):
            lasted += float((rank.steps.end_ns - rank.steps.begin_ns).sum()) / 1e9
        elif rank.kernels is not None:
            lasted += float(rank.kernels.duration_ns.sum()) / 1e9
    why = "steps of all its ranks added up" if len(group.ranks) > 1 else ""
    return value(
        lasted or None, "s", Provenance.MEASURED, group.scope, reason=why, missing="no steps were seen"
    )


# -- the network ------------------------------------------------------------------------------------------


def _crossings(view: JobView, groups: Sequence[Group], every: Mapping[int, RankEvidence]) -> list[Crossing]:
    """Of what trains: who serves has no examples of its own."""
    found = []
    for group in groups:
        if all(rank.serving for rank in group.evidence) or not group.limits:
            continue
        mates = {n: r for n, r in every.items() if r.host == group.who.host}
        node = roofs.of_roles(view, mates) or group.limits
        lacks = next((limits.lacks(NETWORK) for limits in node if limits.lacks(NETWORK)), "")
        intensity = _over_network(group, group.among)
        found.append(
            network.crossing(
                group.who.label, group.who.role, group.evidence, intensity, network.ridge(node), lacks
            )
        )
    return found


# -- roofs and notes --------------------------------------------------------------------------------------


def _roofs(
    view: JobView, evidence: Mapping[int, RankEvidence], found: Sequence[RoofPoint], kind: str
) -> list[Roof]:
    """Of the hosts of these ranks, and of the GPUs that have points."""
    precisions = sorted({p.precision for p in found} or {dominant_precision(list(evidence.values()))})
    homes = {rank.host for rank in evidence.values()}
    used = {(p.host, p.device) for p in found}
    every = roofs.roofs(view, *precisions, kind=kind)
    return [r for r in every if r.host in homes and (not r.device or (r.host, r.device) in used)]


def _notes(
    drawn: Sequence[Roof], evidence: Mapping[int, RankEvidence], kind: str, mode: str
) -> Iterable[str]:
    for roof in drawn:
        if not roof.ceilings:
            yield f"{roof.host} has no ceilings: run `roofline-agent calibrate` there while it is idle"
        elif kind == NETWORK and not any(_of_network(line) for line in roof.lines):
            yield f"no network ceiling of {roof.host}: run `roofline-client bench net`"
    yield from doubts.notes(drawn)
    precisions = {dominant_precision([r]) for r in evidence.values() if r.kernels is not None} - {""}
    if len(precisions) > 1:
        yield "ranks compute in different precisions: each is held against the roof of its own"
    if not mode and any(r.kernels is not None for r in evidence.values()):
        yield "no steps were seen: points are of all that was recorded"


def _of_network(line: RoofLine) -> bool:
    return line.kind == "network"
