"""Who takes part in a job: nodes, ranks, since when, in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...errors import UnknownRank
from ...records import Incarnation, Lifetime, rows
from ...sentences.wording import first_of
from ...store.view import JobView, once

ROLE_ORDER = ("chief", "ps", "worker", "horovod", "ddp", "evaluator")
NOT_TRAINING = frozenset({"ps", "evaluator"})
WORLD = "setting.world_size"  # fact: as the framework has it
RUNNING_NS = 15_000_000_000  # a rank that reported nothing for longer is not running


def roles_aside(roles: Iterable[str]) -> frozenset[str]:
    """Of the roles of a job those that train nothing. A chief coordinates where there are parameter servers;
    without any it is the first of the workers (TF_CONFIG of MultiWorkerMirroredStrategy)."""
    return NOT_TRAINING | {"chief"} if "ps" in roles else NOT_TRAINING


@once
def nodes_of(view: JobView) -> set[int]:
    return {who.node for who in view.process_lifetimes}


@once
def processes_of_ranks(view: JobView) -> dict[int, list[Incarnation]]:
    """rank -> its processes; ranks without any are left out."""
    found: dict[int, list[Incarnation]] = {}
    for who in view.process_lifetimes:
        found.setdefault(who.rank, []).append(who)
    return found


@once
def latest_process(view: JobView, number: int) -> Incarnation | None:
    """The process that was this rank last; a recorded file only where there was no process."""
    mine = processes_of_ranks(view).get(number, [])
    if len(mine) < 2:
        return mine[0] if mine else None
    return max(mine, key=lambda who: (who.pid > 0, on_clock(view, who)[1], who))


def world_of(view: JobView, number: int) -> int:
    """How many ranks of its role there are on all nodes, as the rank says; 0: it does not."""
    process = latest_process(view, number)
    reported = view.facts.get(number, {}).get(WORLD, "")
    return (process.world if process else 0) or (int(reported) if reported.isdecimal() else 0)


def host_of(view: JobView, number: int) -> str:
    who = latest_process(view, number)
    return view.machines[who.node].host if who else ""


def role_order(role: str) -> tuple[int, str]:
    return (ROLE_ORDER.index(role) if role in ROLE_ORDER else len(ROLE_ORDER), role)


def name_of(view: JobView, number: int) -> str:
    """ "worker:0"."""
    key = view.ranks[number]
    return f"{key.role}:{key.index}"


def in_order(view: JobView, numbers: Iterable[int]) -> list[int]:
    """Numbers of ranks in the order of roles."""
    return sorted(numbers, key=lambda n: (role_order(view.ranks[n].role), view.ranks[n].index))


def chosen(view: JobView, ranks: Sequence[str]) -> list[int]:
    """Numbers of the ranks of these names, or of all, in the order of roles. Raises UnknownRank."""
    numbers = {name_of(view, number): number for number in view.ranks}
    for name in ranks:
        if name not in numbers:
            some = first_of([name_of(view, number) for number in in_order(view, view.ranks)])
            raise UnknownRank(f"job {view.job} has no rank {name!r}; it has {some}")
    return in_order(view, {numbers[name] for name in ranks} or view.ranks)


@once
def lives(view: JobView) -> dict[Incarnation, tuple[int, int]]:
    """Server time of the first and the last that was received of each process."""
    by_node: dict[int, list[Incarnation]] = {}
    for who in view.process_lifetimes:
        by_node.setdefault(who.node, []).append(who)
    found: dict[Incarnation, tuple[int, int]] = {}
    for node, processes in by_node.items():
        times = [(one.first_ns, one.last_ns) for one in map(view.process_lifetimes.__getitem__, processes)]
        on_server = view.clocks[node].to_server(np.array(times, np.int64).ravel()).reshape(-1, 2)
        found |= {
            who: (first, last) for who, (first, last) in zip(processes, on_server.tolist(), strict=True)
        }
    return found


def on_clock(view: JobView, who: Incarnation) -> tuple[int, int]:
    return lives(view)[who]


@once
def extent(view: JobView) -> tuple[int, int]:
    """Server time from the first to the last that was received of the job."""
    if not view.process_lifetimes:
        steps = view.steps.get("steps", {})
        return (int(steps["begin_ns"].min()), int(steps["end_ns"].max())) if rows(steps) else (0, 0)
    moments = lives(view).values()
    return min(m[0] for m in moments), max(m[1] for m in moments)


def is_running(view: JobView, now_ns: int) -> bool:
    """Whether a rank that has not been seen to end reported something lately."""
    return any(has_lately_reported(view, who, life, now_ns) for who, life in view.process_lifetimes.items())


def has_lately_reported(view: JobView, who: Incarnation, life: Lifetime, now_ns: int) -> bool:
    """Whether this process has not been seen to end, and reported something lately."""
    return not life.exited and now_ns - on_clock(view, who)[1] < RUNNING_NS
