"""The ranks that make one point of a roofline: a single rank, or those of one role on one host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from roofline.answers.values import Scope, Value

from ...model.evidence import RankEvidence
from ...model.roofline import network
from ...model.roofline.points import Named
from ...model.roofline.roofs import Limits
from ...model.roofline.summary import placing, summarize
from ...sentences import rooflines as texts
from ...store.view import JobView
from ..ceilings.contention import contention
from ..ceilings.limits import computing, of_ranks
from ..ceilings.places import places
from ..ranks.members import role_order
from .placement import Peers


class PointGroup(NamedTuple):
    """Ranks that are one point: one rank, or those of a role on one host."""

    who: Named
    ranks: dict[int, RankEvidence]
    limits: Sequence[Limits]
    values: Mapping[str, Value]
    sharing: int  # ranks of the job that compute in the same places
    mates: int  # ranks of the job on the same host
    layout: network.Layout  # how those lie on nodes with whom it takes part in collectives
    local: network.LocalShare  # of its TCP bytes
    among_ranks: network.LocalShare  # the same, with what it exchanged with others than ranks

    @property
    def evidence(self) -> list[RankEvidence]:
        return list(self.ranks.values())

    @property
    def parts(self) -> float:
        """It has one of so many equal parts of the places where it computes."""
        return max(1.0, self.sharing / max(1, len(self.ranks)))

    @property
    def scope(self) -> Scope:
        return Scope.ROLE if self.who.kind == "role" else Scope.PROCESS


# The values of some ranks that compute in these places.
Values = Callable[[Sequence[RankEvidence], Sequence[Limits], Scope], Mapping[str, Value]]


def summarized(ranks: Sequence[RankEvidence], limits: Sequence[Limits], scope: Scope) -> Mapping[str, Value]:
    """All that is known."""
    return summarize(ranks, limits, scope).values


def placing_of(ranks: Sequence[RankEvidence], limits: Sequence[Limits], scope: Scope) -> Mapping[str, Value]:
    """What tells where they lie under a roof."""
    return placing(ranks, scope)


def groups_of(
    view: JobView,
    evidence: Mapping[int, RankEvidence],
    every: Mapping[int, RankEvidence],
    points: str,
    values: Values,
) -> list[PointGroup]:
    """evidence: of the ranks asked for; every: of all ranks of the job; points: "role", "rank"."""
    everywhere = places(view, every)
    on_host = Counter(theirs[0].host for theirs in everywhere.values())
    ranks_at, peers = contention(view, every), Peers(view)
    scope = Scope.ROLE if points == "role" else Scope.PROCESS
    found = []
    for who, ranks in _members(evidence, points):
        limits = of_ranks(view, ranks)
        if len(limits) > 1:
            who = who._replace(label=texts.mean_of_gpus(who.label, len(limits)))
        mine = [place for number in computing(ranks) for place in everywhere[number]]
        found.append(
            PointGroup(
                who,
                ranks,
                limits,
                values=values(list(ranks.values()), limits, scope),
                sharing=max(ranks_at[place.host, place.device] for place in mine),
                mates=on_host[who.host],
                layout=peers.layout(ranks),
                local=peers.local(ranks),
                among_ranks=peers.among_ranks(ranks),
            )
        )
    return found


def _members(
    evidence: Mapping[int, RankEvidence], points: str
) -> list[tuple[Named, dict[int, RankEvidence]]]:
    """Each rank alone; or those of a role on one host: only what one node did compares with its roof."""
    if points == "rank":
        return [(Named(r.key, "rank", r.role, r.key, r.host), {n: r}) for n, r in evidence.items()]
    grouped: dict[tuple[str, str], dict[int, RankEvidence]] = {}
    for number, rank in evidence.items():
        grouped.setdefault((rank.role, rank.host), {})[number] = rank
    roles = [role for role, _ in grouped]
    found = []
    for role, host in sorted(grouped, key=lambda key: (role_order(key[0]), key[1])):
        label = texts.role_on(role, host) if roles.count(role) > 1 else role
        found.append((Named(label, "role", role, "", host), grouped[role, host]))
    return found
