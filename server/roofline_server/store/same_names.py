"""Nodes of a job that have one name, as of cloud images called "ubuntu": each gets one of its own in views of
the job, where all goes by names. And two agents on one node, that report one process: it is taken once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from ..records import RECORDING, Incarnation, NodeKey, rows
from .catalog.clocks import moment
from .catalog.machine_versions import CalledAlike, MachineNote, TwoAgents
from .view import JobView, extents_of

TOGETHER_NS = 10_000_000_000  # a node that was started again does not overlap with itself, but for its clock
MARK = "#"  # no host name has it

Nodes = Callable[[], Mapping[NodeKey, int]]  # all that are known; asked only where a name occurs twice


def plain(host: str) -> str:
    """The name that a node's agent reports."""
    return host.partition(MARK)[0]


def told_apart(view: JobView, nodes: Nodes) -> JobView:
    """The view in which no two nodes of the job that ran at the same time have one name, and no process is
    there twice."""
    mine = {who.node for who in view.process_lifetimes}
    if len(mine) < 2:
        return view
    count = Counter(view.machines[node].host for node in mine)
    several = _several(view)
    asked = {node for node in mine if count[view.machines[node].host] > 1}
    asked |= {who.node for same in several for who in same}
    if not asked:
        return view
    keys = {node: key for key, node in nodes().items() if node in asked and key.boot != RECORDING}
    return _named_apart(_once_each(view, several, keys), keys)


def _several(view: JobView) -> list[list[Incarnation]]:
    """What may be one process, reported by several agents."""
    found: dict[tuple[int, int, int], list[Incarnation]] = {}
    for who in view.process_lifetimes:
        found.setdefault((who.rank, who.pid, who.start_ns), []).append(who)
    return [same for (_, pid, _), same in found.items() if pid and len(same) > 1]


def _once_each(
    view: JobView, several: Sequence[Sequence[Incarnation]], keys: Mapping[int, NodeKey]
) -> JobView:
    """Of a process that two agents of a node report, as the administrator's and a user's own, what the agent
    reports that its marks go to: the other knows no more than what is in /proc."""
    twice = []
    for processes in several:
        of_boot: dict[str, list[Incarnation]] = {}
        for who in processes:
            if who.node in keys and keys[who.node].boot:
                of_boot.setdefault(keys[who.node].boot, []).append(who)
        twice += [same for same in of_boot.values() if len(same) > 1]
    if not twice:
        return view
    reports: Counter[tuple[int, int]] = Counter()
    if rows(view.events):
        reports.update(zip(view.events["rank"].tolist(), view.events["node"].tolist(), strict=True))

    def known(who: Incarnation) -> tuple[bool, int, int]:
        has_status = view.process_lifetimes[who].ending.status is not None
        return has_status, reports[who.rank, who.node], -who.node

    dropped = {who for same in twice for who in same} - {max(same, key=known) for same in twice}
    agents = sorted({tuple(sorted({view.machines[who.node].host for who in same})) for same in twice})
    lifetimes = {who: life for who, life in view.process_lifetimes.items() if who not in dropped}
    gone = {who.node for who in dropped} - {who.node for who in lifetimes}
    return view._replace(
        process_lifetimes=lifetimes,
        watched={node: table for node, table in view.watched.items() if node not in gone},
        parts=[part for part in view.parts if part.node not in gone],
        machine_notes=[*view.machine_notes, *map(TwoAgents, agents)],
    )


def _named_apart(view: JobView, keys: Mapping[int, NodeKey]) -> JobView:
    extents = {
        node: (moment(view.clocks[node], first), moment(view.clocks[node], last))
        for node, (first, last) in extents_of(view.process_lifetimes).items()
        if node in keys
    }
    machines = dict(view.machines)
    notes: list[MachineNote] = []
    of_host: dict[str, list[int]] = {}
    for node in sorted(extents):
        of_host.setdefault(view.machines[node].host, []).append(node)
    for host, same in of_host.items():
        names: dict[int, str] = {}
        for node in same:
            taken = {names[other] for other in names if _are_apart(node, other, keys, extents)}
            names[node] = _first_free(host, taken)
            machines[node] = machines[node]._replace(host=names[node])
        if len(every := sorted(set(names.values()))) > 1:
            notes.append(CalledAlike(host, tuple(every)))
    return view._replace(machines=machines, machine_notes=[*view.machine_notes, *notes]) if notes else view


def _first_free(host: str, taken: Collection[str]) -> str:
    number, name = 1, host
    while name in taken:
        number += 1
        name = f"{host}{MARK}{number}"
    return name


def _are_apart(
    one: int, other: int, keys: Mapping[int, NodeKey], extents: Mapping[int, tuple[int, int]]
) -> bool:
    """Whether these are two machines: both were there at the same time, and are of different boots."""
    if keys[one].boot == keys[other].boot and (keys[one].boot or keys[one].agent == keys[other].agent):
        return False
    (begin, end), (other_begin, other_end) = extents[one], extents[other]
    return min(end, other_end) - max(begin, other_begin) > TOGETHER_NS
