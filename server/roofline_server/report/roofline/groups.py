"""Whose points a roofline has: ranks, or what is of one role on one host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from roofline.answers.values import Scope, Value

from ...model import network
from ...model.evidence import RankEvidence
from ...model.points import Named
from ...model.roofline import Limits
from ...model.summary import summarize
from ...store.view import JobView
from ..ceilings import roofs
from ..ranks.contention import crowd
from ..ranks.members import role_order
from .placement import Peers


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


def groups_of(
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
