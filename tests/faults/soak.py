"""A long run at a steady rate with faults at random times; exact sums and slopes at its end.

Of the server's memory its *own pages* count: what is in mapped files the kernel drops when it needs room, and
how much of them is there says which code has run until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import grpc
import psutil
from roofline.v1 import query_pb2, query_pb2_grpc

from .check import Tally, check
from .places import RUNNING, cells
from .proxy import Mode, Proxy
from .rounds import made_senders
from .sender import CHANNEL_OPTIONS, job_of
from .shim import ALWAYS, Rule
from .site import Site, StillNot, sending, until
from .statistics import Slope, quantile, slope, slope_beside

BATCH_S = 0.25  # a sender makes a batch every so often
SEAL_S = 2.0
SAMPLE_S = 0.5
WARM_S = 180.0  # after a start, until memory counts: buffers and caches fill
BLOCK_S = 30.0  # of which the medians are taken: slopes are of these
FEWEST = 20  # blocks of which a slope is told
RESTARTS = 0.3  # of the time, at its beginning, has faults that end the server; then one process lives on
SPELL_S = (0.2, 3.0)
LAST = 20  # acks of each sender in a line of progress
READ_S, ANSWER_S = 30.0, 5.0  # the beginning of an export is read so often; so long it may take


class Memory(NamedTuple):
    """Of one process, bytes. own: pages of no file, in memory or swapped out."""

    all: int
    own: int


def memory_of(pid: int) -> Memory:
    """As proc_pid_status(5) has it. Raises OSError where there is no such process, KeyError of a zombie."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    kilobytes = {words[0]: int(words[1]) for words in lines if words[2:] == ["kB"]}
    own = kilobytes["RssAnon:"] + kilobytes["VmSwap:"]
    return Memory(1024 * kilobytes["VmRSS:"], 1024 * own)


class MemorySample(NamedTuple):
    """Of the server. start: how often it had been started."""

    at: float
    memory: Memory
    start: int


class Block(NamedTuple):
    """Medians of BLOCK_S. elsewhere: cores that other programs of this machine took."""

    at: float
    value: float
    elsewhere: float


class SoakResult(NamedTuple):
    """What a soak has shown; latencies in s, per hour where they are slopes."""

    seconds: float
    rows_per_second: float
    faults: dict[str, int]
    restarts: int
    tally: Tally
    forgotten: int
    tracebacks: int
    reads: int  # beginnings of an export
    peak: Memory  # the largest of each
    memory_minutes: float  # of the process whose memory is told
    own_per_hour: Slope | None  # MB of its own pages; None: too short
    memory_per_hour: Slope | None  # of all
    latency_median: float
    latency_p95: float
    latency_max: float
    latency_per_hour: Slope | None  # of those outside faults, with what other programs took held
    elsewhere: float  # cores that other programs took, median
    problem: str = ""

    @property
    def is_good(self) -> bool:
        return self.tally.is_exact and not self.forgotten and not self.tracebacks and not self.problem


class Soak:
    """One soak in a folder."""

    def __init__(
        self, folder: Path, library: Path | None, seconds: float, rows_per_second: float, seed: int
    ) -> None:
        self._site = Site(folder, library, SEAL_S)
        self._proxy = Proxy(lambda: self._site.address)
        self._seconds, self._chance = seconds, random.Random(seed)
        self._senders = made_senders(lambda: self._proxy.address)
        rows = max(1, round(rows_per_second * BATCH_S / len(self._senders)))
        for sender in self._senders:
            sender.rows = rows
        self._faults: dict[str, int] = {}
        self._spells: list[tuple[float, float]] = []  # when faults were
        self._memory: list[MemorySample] = []
        self._elsewhere: list[tuple[float, float]] = []
        self._starts = self._reads = 0
        self._is_breaking = False

    async def run(self, every_s: float, report: Callable[[str], None]) -> SoakResult:
        """Faults come every so often on average; 0: none. Raises StillNot, grpc.RpcError."""
        began = time.monotonic()
        try:
            async with self._proxy.running():
                await self._start()
                async with sending(self._senders, BATCH_S) as stop_making:
                    watching = [
                        asyncio.create_task(self._watch(report, began)),
                        asyncio.create_task(self._read_now_and_then()),
                    ]
                    await self._break_now_and_then(began, every_s)
                    for task in watching:
                        task.cancel()
                    stop_making()
                    waiting = "all batches are acknowledged"
                    await until(lambda: not any(s.waiting for s in self._senders), waiting)
                seconds = time.monotonic() - began
                await self._site.kill()
                await self._start()
                tally = await asyncio.to_thread(check, self._site.address, self._senders)
                await self._site.stop()
        finally:
            self._site.clean_up()
            for text in self._site.traced():
                report(text)
        return self._result(seconds, tally)

    async def _start(self) -> None:
        await self._site.start()
        self._starts += 1

    async def _watch(self, report: Callable[[str], None], began: float) -> None:
        """Memory of the server now and then, and a line a minute."""
        minute, load = 0, OtherLoad()
        while True:
            if time.monotonic() - load.since > BLOCK_S / 3:
                own = [os.getpid()] if self._site.is_dead else [os.getpid(), self._site.server.pid]
                self._elsewhere.append((time.monotonic(), load.cores(own)))
            with contextlib.suppress(OSError, KeyError):  # it is not there just now
                found = memory_of(self._site.server.pid)
                self._memory.append(MemorySample(time.monotonic(), found, self._starts))
            if int((time.monotonic() - began) / 60) > minute and self._memory:
                minute += 1
                rows = sum(sender.acked * sender.rows for sender in self._senders)
                faults, used = sum(self._faults.values()), self._memory[-1].memory
                last = [one.seconds for s in self._senders for one in s.latencies[-LAST:]]
                report(
                    f"{minute} of {self._seconds / 60:.0f} min: {rows:,} rows acknowledged, {faults} faults, "
                    f"{used.all / 1e6:.0f} MB, {used.own / 1e6:.0f} of them its own, last acks after "
                    f"{quantile(last or [0.0], 0.5) * 1e3:.0f} ms, "
                    f"{self._elsewhere[-1][1] if self._elsewhere else 0:.1f} cores taken by others"
                )
            await asyncio.sleep(SAMPLE_S)

    async def _read_now_and_then(self) -> None:
        """What questions leave behind counts too; and what reads Parquet is loaded from the beginning on."""
        while True:
            await asyncio.sleep(READ_S)
            if not self._is_breaking:
                with contextlib.suppress(grpc.RpcError, asyncio.TimeoutError):
                    await asyncio.wait_for(self._read(), ANSWER_S)
                    self._reads += 1

    async def _read(self) -> None:
        async with grpc.aio.insecure_channel(self._site.address, options=CHANNEL_OPTIONS) as channel:
            chunks = query_pb2_grpc.QueryStub(channel).Export(query_pb2.ExportRequest(job=job_of(0)))
            await chunks.read()  # ranks
            await chunks.read()  # rows of the first segment
            chunks.cancel()

    async def _break_now_and_then(self, began: float, every_s: float) -> None:
        end = began + self._seconds
        while time.monotonic() < end:
            pause = self._chance.expovariate(1 / every_s) if every_s else self._seconds
            await asyncio.sleep(min(pause, max(0.0, end - time.monotonic())))
            if time.monotonic() < end:
                begin, self._is_breaking = time.monotonic(), True
                name = await self._break_once(begin - began < RESTARTS * self._seconds)
                self._is_breaking = False
                self._faults[name] = self._faults.get(name, 0) + 1
                self._spells.append((begin, time.monotonic()))

    async def _break_once(self, kills: bool) -> str:
        """Have one fault and its end; its name. kills: it may end the server."""
        spell = self._chance.uniform(*SPELL_S)
        kind = self._chance.choice(("disk", "disk", "network", "reset", "kill" if kills else "network"))
        if kind == "disk" and self._site.control is not None:
            return await self._break_disk(spell, kills)
        if kind == "network":
            self._proxy.mode = self._chance.choice((Mode.PARTITION, Mode.DELAY, Mode.TRICKLE, Mode.REFUSE))
            name = f"network: {self._proxy.mode.value}"
            await asyncio.sleep(spell)
            self._proxy.mode = Mode.PASS
            return name
        if kind == "reset":
            self._proxy.reset()
            return "network: reset"
        await self._site.kill()
        await self._start()
        return "kill -9"

    async def _break_disk(self, spell: float, kills: bool) -> str:
        site, control = self._site, self._site.control
        assert control is not None
        # Power cuts need a journal of all writes, which would grow for hours.
        running = [one for one in cells() if one.place.when == RUNNING and not one.fault.cuts_power]
        running = [one for one in running if kills or not one.fault.kills]
        cell = self._chance.choice(running)
        most = 1 if cell.fault.kills else self._chance.choice((1, 3, ALWAYS if cell.fault.error else 6))
        control.arm(Rule(cell.place.call, cell.place.pattern, cell.fault, 0, most))
        with contextlib.suppress(StillNot):  # it goes on, or the place was not reached
            await until(lambda: site.is_dead, "", spell)
        happened = control.fired()
        control.clear()
        if site.is_dead:
            if not cell.fault.kills:
                raise StillNot(f"the server survives {cell.name}: it ended with {site.server.returncode}")
            await self._start()
        return cell.name if happened else "fault point not reached"

    def _result(self, seconds: float, tally: Tally) -> SoakResult:
        latencies = [one for sender in self._senders for one in sender.latencies]
        calm = [one for one in latencies if not self._in_fault(one.at - one.seconds, one.at)]
        spent, memory = [one.seconds for one in calm], self._settled_memory()
        times = self._blocks([(one.at, one.seconds) for one in calm if one.at > latencies[0].at + WARM_S])
        elsewhere = [cores for _, cores in self._elsewhere] or [0.0]
        return SoakResult(
            seconds,
            tally.acked / seconds,
            self._faults,
            self._starts - 2,  # the first, and the one before all is counted
            tally,
            sum(sender.forgotten for sender in self._senders),
            self._site.tracebacks,
            self._reads,
            Memory(*(max(kind) for kind in zip(*(one.memory for one in self._memory), strict=True))),
            (memory[-1].at - memory[0].at) / 60 if memory else 0.0,
            per_hour(self._blocks([(one.at, one.memory.own / 1e6) for one in memory])),
            per_hour(self._blocks([(one.at, one.memory.all / 1e6) for one in memory])),
            quantile(spent, 0.5),
            quantile(spent, 0.95),
            max(spent),
            per_hour(times, beside_others=True),
            quantile(elsewhere, 0.5),
        )

    def _in_fault(self, begin: float, end: float) -> bool:
        """Whether a fault, or the second after it, falls into this time."""
        return any(first < end and begin < last + 1 for first, last in self._spells)

    def _settled_memory(self) -> list[MemorySample]:
        """Of the longest time without a restart, less its beginning."""
        runs: dict[int, list[MemorySample]] = {}
        for one in self._memory:
            runs.setdefault(one.start, []).append(one)
        longest = max(runs.values(), key=len)
        return [one for one in longest if one.at > longest[0].at + WARM_S]

    def _blocks(self, points: Sequence[tuple[float, float]]) -> list[Block]:
        """Medians, with what other programs took meanwhile."""
        values: dict[int, list[float]] = {}
        others: dict[int, list[float]] = {}
        for at, value in points:
            values.setdefault(int(at / BLOCK_S), []).append(value)
        for at, cores in self._elsewhere:
            others.setdefault(int(at / BLOCK_S), []).append(cores)
        return [
            Block(number * BLOCK_S, quantile(some, 0.5), quantile(others[number], 0.5))
            for number, some in sorted(values.items())
            if number in others
        ]


class OtherLoad:
    """CPU that programs take which are no part of a soak."""

    def __init__(self) -> None:
        self.since = time.monotonic()
        self._busy, self._own = _busy_s(), dict[int, float]()

    def cores(self, own: Sequence[int]) -> float:
        """Since the last call."""
        now, busy, mine = time.monotonic(), _busy_s(), {}
        for pid in own:
            with contextlib.suppress(psutil.Error):
                times = psutil.Process(pid).cpu_times()
                mine[pid] = times.user + times.system
        spent = sum(used - self._own.get(pid, 0.0) for pid, used in mine.items())
        taken = max(0.0, busy - self._busy - spent) / (now - self.since)
        self.since, self._busy, self._own = now, busy, mine
        return taken


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def per_hour(blocks: Sequence[Block], beside_others: bool = False) -> Slope | None:
    """Slope of medians; beside_others: with what other programs took held."""
    if len(blocks) < FEWEST:
        return None
    at, values = [one.at for one in blocks], [one.value for one in blocks]
    found = (
        slope_beside(at, values, [one.elsewhere for one in blocks]) if beside_others else slope(at, values)
    )
    return Slope(*(3600 * part for part in found))


def soak_json(result: SoakResult) -> str:
    return json.dumps({**result._asdict(), "tally": result.tally._asdict(), "good": result.is_good}, indent=1)


def soak_of(text: str) -> SoakResult:
    row = json.loads(text)
    row.pop("good")
    for name in ("own_per_hour", "memory_per_hour", "latency_per_hour"):
        row[name] = Slope(*row[name]) if row[name] else None
    row["peak"] = Memory(*row["peak"])
    return SoakResult(**{**row, "tally": Tally(**row["tally"])})


def described(result: SoakResult) -> list[str]:
    """Lines of Markdown."""
    tally = result.tally
    faults = ", ".join(f"{name} x {count}" for name, count in sorted(result.faults.items()))
    own, memory, latency = result.own_per_hour, result.memory_per_hour, result.latency_per_hour
    return [
        f"- {result.seconds / 60:.1f} min at {result.rows_per_second:,.0f} rows/s: {tally.acked:,} rows "
        f"acknowledged, {tally.lost} lost, {tally.doubled} doubled, {tally.unknown} never sent; "
        f"{tally.steps:,} steps, {tally.steps_lost} lost, "
        f"{tally.steps_doubled + tally.steps_unknown} too many; {result.tracebacks} tracebacks.",
        f"- Faults: {sum(result.faults.values())} ({faults or 'none'}); the server was started again "
        f"{result.restarts} times. The beginning of an export was read {result.reads} times.",
        f"- Memory of the server: own pages at most {result.peak.own / 1e6:.0f} MB, with those of files "
        f"{result.peak.all / 1e6:.0f} MB. MB per hour of the longest life of a process less its first "
        f"{WARM_S / 60:.0f} min ({result.memory_minutes:.0f} min), 95 % interval: own pages "
        f"{own or 'too short to tell'}; with those of files {memory or 'too short to tell'}.",
        f"- Latency of an ack outside faults: median {result.latency_median * 1e3:.0f} ms, p95 "
        f"{result.latency_p95 * 1e3:.0f} ms, at most {result.latency_max * 1e3:.0f} ms; ms per hour: "
        f"{Slope(*(1e3 * part for part in latency)) if latency else 'too short to tell'}. Other programs "
        f"took {result.elsewhere:.1f} cores meanwhile (median), which is held in the slope.",
    ]


def run_soak(
    folder: Path,
    library: Path | None,
    seconds: float,
    rows_per_second: float,
    every_s: float,
    seed: int,
    report: Callable[[str], None],
) -> SoakResult:
    """Raises StillNot, grpc.RpcError."""
    return asyncio.run(Soak(folder, library, seconds, rows_per_second, seed).run(every_s, report))
