"""One round: a server under load, a fault, the server again, and everything compared with what was sent."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import grpc

from .agents import JOB, Node
from .check import Tally, check, count_steps, with_steps
from .places import RUNNING, STARTING, Cell
from .sender import Sender
from .shim import ALWAYS, EINTR, KILL_AFTER, SHORT, SLOW, Rule
from .site import Site, StillNot, sending, until

SENDERS = 3
REACH_S = 30.0  # until a fault point is reached
AGENT_S = 60.0  # an agent may need half a minute to see that nothing comes any more
SPELL_S = 1.0  # that a fault lasts which is not over after some calls
CANNOT_START = 6


class Outcome(NamedTuple):
    """What became of one round."""

    group: str  # "disk", "network", "clock"
    place: str
    fault: str
    seed: int
    fired: int  # calls that the fault concerned, or 1
    tally: Tally | None  # None: the server did not come back, or does not answer
    forgotten: int  # batches that were acknowledged and that a server did not know later
    tracebacks: int
    exit_code: int | None  # at the SIGTERM at the end
    seconds: float
    problem: str = ""  # anything else that went wrong

    @property
    def is_reached(self) -> bool:
        return self.fired > 0

    @property
    def is_good(self) -> bool:
        exact = self.tally is not None and self.tally.is_exact and not self.forgotten
        return exact and not self.tracebacks and self.exit_code == 0 and not self.problem


class Round(NamedTuple):
    """What takes part in one."""

    site: Site
    senders: Sequence[Sender]
    chance: random.Random
    node: Node | None = None  # a real agent with a training


Breaking = Callable[[Round], Awaitable[int]]


async def run_round(
    group: str, names: tuple[str, str], seed: int, taking_part: Round, breaking: Breaking
) -> Outcome:
    """A round of any kind. names: of place and fault. breaking: does what is to be survived, and leaves a
    server that runs; gives how often the fault happened."""
    site, senders, _, node = taking_part
    began, problem = time.monotonic(), ""
    fired: list[int] = []
    tally: Tally | None = None
    exit_code: int | None = None
    try:
        steps = await _survive(taking_part, breaking, fired)
        # What counts is what is on the disk.
        await site.kill()
        await site.start()
        tally = await asyncio.to_thread(check, site.address, senders)
        if node is not None:
            tally = await asyncio.to_thread(with_steps, tally, site.address, JOB, steps)
        exit_code = await site.stop()
    except StillNot as error:
        problem = str(error)
    except grpc.RpcError as error:
        problem = f"a question failed: {error.details() if isinstance(error, grpc.Call) else error}"
    finally:
        site.clean_up()
        if node is not None:
            node.clean_up()
    refused = [reason for sender in senders for reason in sender.refused]
    logs = site.log() + (node.log() if node else "")
    return Outcome(
        group,
        *names,
        seed,
        sum(fired),
        tally,
        sum(sender.forgotten for sender in senders),
        logs.count("Traceback (most recent call last)"),
        exit_code,
        time.monotonic() - began,
        problem or (f"refused: {refused[0]}" if refused else ""),
    )


async def _survive(taking_part: Round, breaking: Breaking, fired: list[int]) -> int:
    """Load, the fault, and load again until all is acknowledged; how many steps the training marked."""
    site, senders, _, node = taking_part
    await site.start()
    async with sending(senders) as stop_making:
        if node is not None:
            await node.start_agent()
            node.start_training()
            await _steps_seen(site, 1)
        await until(lambda: all(sender.acked > 2 for sender in senders), "the first batches are taken")
        fired.append(await breaking(taking_part))
        before = [sender.sequence for sender in senders]
        await until(
            lambda: all(s.acked > b for s, b in zip(senders, before, strict=True)),
            "batches are taken again after the fault",
        )
        stop_making()
        await until(lambda: not any(sender.waiting for sender in senders), "all batches are acknowledged")
        if node is None:
            return 0
        marked = await node.end_training()
        await _steps_seen(site, marked - node.may_lack)
        await node.stop_agent()
        return marked if not node.may_lack else await asyncio.to_thread(count_steps, site.address, JOB)


async def _steps_seen(site: Site, count: int) -> None:
    """Until the server knows so many steps of the training. Raises StillNot."""
    deadline, known = time.monotonic() + AGENT_S, 0
    while (known := await asyncio.to_thread(count_steps, site.address, JOB)) < count:
        if time.monotonic() > deadline:
            raise StillNot(f"after {AGENT_S:.0f} s the server knows {known} of {count} steps of the agent")
        await asyncio.sleep(0.2)


async def disk_round(cell: Cell, seed: int, folder: Path, library: Path) -> Outcome:
    """One cell of the matrix of the disk."""
    chance = random.Random(f"{seed} {cell.name}")
    # The server itself is to be killed: with much on its way, as on a busy machine, another process seals.
    forks = cell.fault.kills and cell.place.when == RUNNING
    site = Site(
        folder, library, power=chance if cell.fault.cuts_power else None, forks=forks, seals_apart=False
    )
    taking_part = Round(site, made_senders(lambda: site.address), chance)
    return await run_round(
        "disk", (cell.place.name, cell.fault.name), seed, taking_part, lambda one: break_disk(one, cell)
    )


def made_senders(address: Callable[[], str]) -> list[Sender]:
    return [Sender(number, address) for number in range(SENDERS)]


async def break_disk(taking_part: Round, cell: Cell) -> int:
    """Have the fault happen, and the server run again without it; how many calls it concerned."""
    site, _, chance, _ = taking_part
    assert site.control is not None
    place, fault = cell
    # Errors come once, a few times, or for some while; but what a program just tries again must end.
    most = 1 if fault.kills else chance.choice((1, 3, 6 if fault in (SHORT, EINTR, SLOW) else ALWAYS))
    rule = Rule(place.call, place.pattern, fault, chance.randint(0, place.skip), most)
    if place.when == RUNNING:
        site.control.arm(rule)
        await _reached(site)
        if not fault.kills:
            await _spell(site, most)
    elif place.when == STARTING:
        # A sealing is cut off in its midst, for files that the next start has to tidy.
        site.control.arm(Rule("rename", "*/segments/*.tmp", KILL_AFTER, chance.randint(1, 6), 1))
        await site.ended("the sealing is cut off")
        site.control.arm(rule)
        site.spawn()
        await until(lambda: site.is_dead or site.has_started(), "the server has started or ended")
        site.control.clear()
    else:
        site.control.arm(rule)
        await site.stop()
    fired = site.control.fired()
    site.control.clear()
    if fault.kills and fired:
        code = await site.ended("the fault ends the server")
        if code != -9:
            raise StillNot(f"SIGKILL has ended the server: {code}")
    if site.is_dead:
        _check_exit(site, cell)
        await site.start()
    return fired


async def _reached(site: Site) -> None:
    control = site.control
    assert control is not None
    try:
        await until(lambda: control.fired() or site.is_dead, "", REACH_S)
    except StillNot:
        return  # the outcome says that it did not happen


async def _spell(site: Site, most: int) -> None:
    """Until the fault has happened as often as it should, or long enough."""
    control = site.control
    assert control is not None
    try:
        await until(lambda: control.fired() >= most or site.is_dead, "", SPELL_S)
    except StillNot:
        return


def _check_exit(site: Site, cell: Cell) -> None:
    """Raises StillNot for a server that has ended by itself where it should not have."""
    code = site.server.returncode
    if cell.fault.kills or (cell.place.when == STARTING and code == CANNOT_START):
        return
    if cell.place.when == RUNNING or code not in (0, 1):
        raise StillNot(f"the server survives {cell.name}: it ended with {code}")
