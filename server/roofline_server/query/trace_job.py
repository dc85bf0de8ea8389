"""Has ranks of a running job traced: asks the agents of their nodes, and passes on what becomes of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from functools import partial
from typing import Any, NamedTuple

import grpc
import numpy as np
from roofline.texts import listed
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import models_pb2

from ..ingest.commands import Agents, Link
from ..records import Table, rows
from ..report.evidence.tables import by_rank
from ..report.ranks.members import has_lately_reported, name_of
from ..store.view import JobView

MOST_STEPS = 20  # as agents take them
MOST_S = 960.0  # an agent gives up before
LATELY = 100  # steps
QUIET_S = 5.0  # longest between two events: a client gives a silent server up
OLD = "does not know the command"  # the reason of agents that are older than this


class CannotTrace(Exception):
    """Why nothing is traced, and with which status the call ends."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class TracedRank(NamedTuple):
    """A rank that runs. node: which one; host: its name; pid, start_ns: of its process; step_us: how long its
    steps lasted lately, or those of the others where it has none; 0: not known."""

    name: str
    node: int
    host: str
    pid: int
    start_ns: int
    step_us: int = 0


def running_ranks(view: JobView, now_ns: int) -> list[TracedRank]:
    """The ranks of a job that run now, in their order."""
    steps = view.steps.get("steps", {})
    mine = {rank: tables["steps"] for rank, tables in by_rank({"steps": steps}).items()}
    of_others = _step_us(steps)
    return [
        TracedRank(
            name_of(view, who.rank),
            who.node,
            view.machines[who.node].host,
            who.pid,
            who.start_ns,
            _step_us(mine[who.rank]) if who.rank in mine else of_others,
        )
        for who, life in sorted(view.process_lifetimes.items(), key=lambda item: view.ranks[item[0].rank])
        if who.pid and who.node not in view.recordings and has_lately_reported(view, who, life, now_ns)
    ]


def _step_us(steps: Table) -> int:
    if not rows(steps):
        return 0
    lasted = steps["end_ns"][-LATELY:] - steps["begin_ns"][-LATELY:]
    return max(1, int(np.median(lasted) / 1000))


def chosen(ranks: Collection[TracedRank], names: Collection[str], job: str) -> list[TracedRank]:
    """The ranks of these names; all where none is given. Raises CannotTrace."""
    if not ranks:
        raise CannotTrace(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"job {job} is over and cannot be traced. Trace the next one: `roofline-agent run --trace "
            "100-102`.",
        )
    unknown = sorted(set(names) - {rank.name for rank in ranks})
    if unknown:
        running = listed([rank.name for rank in ranks])
        raise CannotTrace(
            grpc.StatusCode.NOT_FOUND,
            f"job {job} has no rank {listed(unknown)} that runs; these do: {running}",
        )
    return [rank for rank in ranks if not names or rank.name in names]


async def trace(agents: Agents, ranks: Collection[TracedRank], steps: int) -> AsyncGenerator[Any, None]:
    """Events for the client, until all ranks are done. A client that leaves ends nothing."""
    if not 1 <= steps <= MOST_STEPS:
        raise CannotTrace(grpc.StatusCode.INVALID_ARGUMENT, f"{steps} steps: must be 1 to {MOST_STEPS}")
    answers: asyncio.Queue[tuple[TracedRank, Any | None]] = asyncio.Queue()
    links = {link.received.node: link for link in agents.links()}
    given: list[tuple[Link, int]] = []
    waiting = set(ranks)
    try:
        for rank in ranks:
            link = links.get(rank.node)
            if link is None:
                waiting.discard(rank)
                yield _result(rank, False, f"the agent of host {rank.host} is not connected")
                continue
            order = pb.TraceSteps(pid=rank.pid, start_ns=rank.start_ns, steps=steps, step_us=rank.step_us)
            number = link.command(partial(_put, answers, rank), trace_steps=order)
            given.append((link, number))
        until = asyncio.get_running_loop().time() + MOST_S
        while waiting:
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                break
            try:
                rank, answer = await asyncio.wait_for(answers.get(), min(left, QUIET_S))
            except (TimeoutError, asyncio.TimeoutError):
                names = listed(sorted(rank.name for rank in waiting))
                yield models_pb2.TraceJobEvent(progress=f"waiting for {names}")
                continue
            if answer is not None and answer.progress and not answer.done:
                yield models_pb2.TraceJobEvent(progress=f"{rank.name}: {answer.progress}")
            elif rank in waiting:
                waiting.discard(rank)
                yield _ended(rank, answer)
        for rank in sorted(waiting):
            yield _result(rank, False, f"the agent of host {rank.host} did not answer within {MOST_S:.0f} s")
    finally:
        for link, number in given:
            link.forget(number)


def _put(answers: asyncio.Queue[tuple[TracedRank, Any | None]], rank: TracedRank, answer: Any | None) -> None:
    answers.put_nowait((rank, answer))


def _ended(rank: TracedRank, answer: Any | None) -> Any:
    if answer is None:
        return _result(rank, False, f"the agent of host {rank.host} has gone; look at its log")
    if answer.done:
        return _result(rank, True, answer.progress)
    if OLD in answer.reason:
        return _result(rank, False, f"the agent of host {rank.host} is too old for it; update it")
    return _result(rank, False, answer.reason or "its agent gave no reason")


def _result(rank: TracedRank, recorded: bool, text: str) -> Any:
    result = models_pb2.RankTrace(rank=rank.name, recorded=recorded, text=text)
    return models_pb2.TraceJobEvent(result=result)
