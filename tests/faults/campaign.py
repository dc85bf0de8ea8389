"""Campaigns of kills: one data directory, a process killed again and again, senders that go on meanwhile.

What is drawn follows from the seed, the point and the number of the kill. What was acknowledged is held
against what the server has every VERIFY_EVERY kills and at the end, by the same questions and the same sums
as a round.
"""

from __future__ import annotations

import asyncio
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from .check import Tally, check
from .places import PLACES, Place
from .rounds import REACH_S, made_senders
from .sender import Sender
from .shim import KILL_AFTER, KILL_BEFORE, TORN, Control, Fault, Rule
from .site import Site, StillNot, sending, until

PAUSE_S = 0.05  # between two batches of a sender
SEAL_S = 0.1
VERIFY_EVERY = (10, 20)  # kills
KILLED = -9

# As those of the matrix; of merging also what is made of raw data.
MERGED = f"*/segments/*/{'?' * 12}-{'?' * 12}.tmp"
MERGING = (
    Place("merging, open", "open", MERGED, skip=2),
    Place("merging, write", "write", MERGED, skip=30),
    Place("merging, fsync", "sync", MERGED, skip=2),
    Place("merging, rename", "rename", MERGED, skip=2),
    Place("merging, removal", "unlink", "*/segments/*.parquet", skip=24),
)


APART = "sealing apart"


def _named(*beginnings: str) -> tuple[Place, ...]:
    return tuple(place for place in PLACES if place.name.startswith(beginnings))


POINTS: dict[str, tuple[Place, ...]] = {
    "inbox": _named("inbox append", "inbox checkpoint"),
    "catalog": _named("catalog commit"),
    "sealing": _named("sealing"),
    "merging": MERGING,
    # What is killed there is the process that seals; the server is killed a moment later, or goes on.
    APART: _named("sealing"),
}
FAULTS: dict[str, tuple[Fault, ...]] = {
    "write": (KILL_BEFORE, KILL_AFTER, TORN),
    "sync": (KILL_BEFORE, KILL_AFTER),
    "rename": (KILL_BEFORE, KILL_AFTER),
    "unlink": (KILL_BEFORE, KILL_AFTER),
    "mkdir": (KILL_BEFORE, KILL_AFTER),
    "open": (KILL_BEFORE,),
}


class CampaignResult(NamedTuple):
    """What became of one. killed: how often at each place, as "place: fault"."""

    point: str
    seed: int
    power: bool  # each kill was a power cut
    kills: int
    killed: dict[str, int]
    missed: int  # rules that were armed for nothing: the call did not come
    apart: int  # repairs after which copies lie in quarantine/
    starts: int  # of a server
    checks: int
    tally: Tally | None  # the last; all before it were exact
    forgotten: int
    tracebacks: int
    seconds: float
    cpu_seconds: float  # of all processes of the campaign
    problem: str

    @property
    def is_good(self) -> bool:
        exact = self.tally is not None and self.tally.is_exact and not self.forgotten
        return exact and not self.tracebacks and not self.apart and not self.problem


class Campaign:
    """One point, one data directory."""

    def __init__(
        self, point: str, folder: Path, library: Path, seed: int, power: bool = False, forks: bool = True
    ) -> None:
        """power: each kill is a power cut. forks: see Site."""
        self.point, self.seed = point, seed
        self.chance = random.Random(f"{seed} {point}")
        self._power = random.Random(f"{seed} {point} power") if power else None
        # A kill of what seals apart would leave the server alive.
        self.site = Site(folder, library, SEAL_S, self._power, forks, point == APART)
        self.senders = made_senders(lambda: self.site.address)
        self.killed: dict[str, int] = {}
        self.missed = self.apart = self.starts = 0
        self._checks = self._verify_at = 0
        self._tally: Tally | None = None
        self._is_making = True

    @property
    def kills(self) -> int:
        return sum(self.killed.values())

    @property
    def control(self) -> Control:
        assert self.site.control is not None
        return self.site.control

    async def run(self, kills: int, seconds: float, report: Callable[[str], None]) -> CampaignResult:
        """Until so many kills, or so long."""
        began, cpu = time.monotonic(), cpu_seconds()
        problem = ""
        try:
            await self._start()
            async with sending(self.senders, PAUSE_S, lambda: self._is_making):
                taken = "the first batches are taken"
                await until(lambda: all(one.acked > 2 for one in self.senders), taken)
                self._verify_at = self.chance.randint(*VERIFY_EVERY)
                while self.kills < kills and time.monotonic() - began < seconds and self.is_exact:
                    await self.break_once()
                    if self.kills >= self._verify_at:
                        await self._verify(report, began)
                await self._verify(report, began)
            problem = await self.end()
        except StillNot as error:
            problem = f"after kill {self.kills}: {error}"
        except grpc.RpcError as error:
            problem = f"a question failed: {error.details() if isinstance(error, grpc.Call) else error}"
        finally:
            self.site.clean_up()
        refused = [reason for sender in self.senders for reason in sender.refused]
        return CampaignResult(
            self.point,
            self.seed,
            self._power is not None,
            self.kills,
            self.killed,
            self.missed,
            self.apart,
            self.starts,
            self._checks,
            self._tally,
            sum(sender.forgotten for sender in self.senders),
            self.site.tracebacks,
            time.monotonic() - began,
            cpu_seconds() - cpu,
            problem or (f"refused: {refused[0]}" if refused else ""),
        )

    @property
    def is_exact(self) -> bool:
        return self._tally is None or self._tally.is_exact

    async def break_once(self) -> None:
        """Kill a process at one call, and leave a server that runs, or none."""
        raise NotImplementedError

    async def end(self) -> str:
        """After the last verification, with a server that runs: how it ends; what went wrong."""
        code = await self.site.stop()
        return f"SIGTERM ended the server with {code}" if code else ""

    def count(self, place: str, fault: Fault) -> None:
        name = f"{place}: {fault.name}"
        self.killed[name] = self.killed.get(name, 0) + 1

    async def _start(self) -> None:
        self.starts += 1
        await self.site.start()

    async def _verify(self, report: Callable[[str], None], began: float) -> None:
        """Everything that was acknowledged is on the disk, once. Leaves a server that runs."""
        self.control.clear()
        if self.site.is_dead:
            await self._start()
        self._is_making = False
        await until(lambda: not any(one.waiting for one in self.senders), "all batches are acknowledged")
        await self.site.kill()
        await self._start()
        self._tally = await asyncio.to_thread(check, self.site.address, self.senders)
        self._checks += 1
        self._verify_at = self.kills + self.chance.randint(*VERIFY_EVERY)
        self._is_making = True
        tally = self._tally
        report(
            f"{self.point}, {(time.monotonic() - began) / 60:.1f} min: {self.kills} kills, {tally.acked:,} "
            f"rows and {tally.steps:,} steps, {tally.lost + tally.steps_lost} lost, "
            f"{tally.doubled + tally.steps_doubled} doubled, {tally.unknown + tally.steps_unknown} never sent"
        )


class Kills(Campaign):
    """Of the server, at the places of one point."""

    async def break_once(self) -> None:
        place = self.chance.choice(POINTS[self.point])
        fault = self.chance.choice(FAULTS[place.call])
        rule = Rule(place.call, place.pattern, fault, self.chance.randint(0, place.skip), 1)
        # Sometimes from the start on, where the server takes up what the last one left; else once it works.
        if self.chance.random() < 0.5:
            self.control.arm(rule)
        if self.site.is_dead:
            self.starts += 1
            self.site.spawn()
        await until(lambda: self.site.has_started() or self.site.is_dead, "the server has started or ended")
        if not self.control.is_armed:
            before = [one.acked for one in self.senders]
            await until(lambda: any_more(self.senders, before), "batches are taken again after the kill")
            self.control.arm(rule)
        try:
            await until(lambda: self.control.fired() or self.site.is_dead, "", REACH_S)
        except StillNot:
            self.missed += 1
            self.control.clear()
            return
        if self.point == APART:
            await self._after_sealing()
            self.count(place.name, fault)
            return
        code = await self.site.ended("the fault ends the server")
        self.control.clear()
        if code != KILLED or not self.control.fired():
            raise StillNot(f"SIGKILL at {place.name} has ended the server: {code}; {self.site.last_line()}")
        self.count(place.name, fault)

    async def _after_sealing(self) -> None:
        """The process that seals was killed: the server is killed too, or goes on."""
        self.control.clear()
        if self.site.is_dead:
            raise StillNot(f"the server outlives what seals for it; {self.site.last_line()}")
        if self.chance.random() < 0.5:
            await self.site.kill()
            return
        before = [one.acked for one in self.senders]
        await until(lambda: any_more(self.senders, before), "batches are taken after the sealing was killed")


def any_more(senders: list[Sender], before: list[int]) -> bool:
    return any(one.acked > acked for one, acked in zip(senders, before, strict=True))


def cpu_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    who: Any
    spent = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        spent += used.ru_utime + used.ru_stime
    return spent
