"""A long run at a steady rate with faults at random times; exact sums and slopes at its end."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

from .check import Tally, check
from .places import RUNNING, cells
from .proxy import Mode, Proxy
from .rounds import made_senders
from .shim import ALWAYS, Rule
from .site import Site, StillNot, sending, until
from .statistics import Slope, quantile, slope

BATCH_S = 0.25  # a sender makes a batch every so often
SEAL_S = 2.0
SAMPLE_S = 0.5
WARM_S = 20.0  # after a start, until memory counts: buffers fill
SPELL_S = (0.2, 3.0)


class MemorySample(NamedTuple):
    """Of the server. start: how often it had been started."""

    at: float
    bytes: int
    start: int


class SoakResult(NamedTuple):
    """What a soak has shown; latencies in s, per hour where they are slopes."""

    seconds: float
    rows_per_second: float
    faults: dict[str, int]
    restarts: int
    tally: Tally
    forgotten: int
    tracebacks: int
    peak_bytes: int
    memory_per_hour: Slope | None  # MB; None: too short
    latency_median: float
    latency_p95: float
    latency_max: float
    latency_per_hour: Slope | None  # of those outside faults

    @property
    def is_good(self) -> bool:
        return self.tally.is_exact and not self.forgotten and not self.tracebacks


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
        self._starts = 0

    async def run(self, every_s: float, report: Callable[[str], None]) -> SoakResult:
        """Faults come every so often on average; 0: none. Raises StillNot, grpc.RpcError."""
        began = time.monotonic()
        try:
            async with self._proxy.running():
                await self._start()
                async with sending(self._senders, BATCH_S) as stop_making:
                    watching = asyncio.create_task(self._watch(report, began))
                    await self._break_now_and_then(began, every_s)
                    watching.cancel()
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
        return self._result(seconds, tally)

    async def _start(self) -> None:
        await self._site.start()
        self._starts += 1

    async def _watch(self, report: Callable[[str], None], began: float) -> None:
        """Memory of the server now and then, and a line a minute."""
        minute = 0
        while True:
            try:
                used = psutil.Process(self._site.server.pid).memory_info().rss
                self._memory.append(MemorySample(time.monotonic(), used, self._starts))
            except psutil.Error:
                pass  # it is not there just now
            if int((time.monotonic() - began) / 60) > minute and self._memory:
                minute += 1
                rows = sum(sender.acked * sender.rows for sender in self._senders)
                faults, used = sum(self._faults.values()), self._memory[-1].bytes / 1e6
                report(f"{minute} min: {rows:,} rows acknowledged, {faults} faults, {used:.0f} MB")
            await asyncio.sleep(SAMPLE_S)

    async def _break_now_and_then(self, began: float, every_s: float) -> None:
        end = began + self._seconds
        while time.monotonic() < end:
            pause = self._chance.expovariate(1 / every_s) if every_s else self._seconds
            await asyncio.sleep(min(pause, max(0.0, end - time.monotonic())))
            if time.monotonic() < end:
                begin = time.monotonic()
                name = await self._break_once()
                self._faults[name] = self._faults.get(name, 0) + 1
                self._spells.append((begin, time.monotonic()))

    async def _break_once(self) -> str:
        """Have one fault and its end; its name."""
        spell = self._chance.uniform(*SPELL_S)
        kind = self._chance.choice(("disk", "disk", "network", "reset", "kill"))
        if kind == "disk" and self._site.control is not None:
            return await self._break_disk(spell)
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

    async def _break_disk(self, spell: float) -> str:
        site, control = self._site, self._site.control
        assert control is not None
        # Power cuts need a journal of all writes, which would grow for hours.
        running = [one for one in cells() if one.place.when == RUNNING and not one.fault.cuts_power]
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
        spent = [one.seconds for one in calm]
        return SoakResult(
            seconds,
            tally.acked / seconds,
            self._faults,
            self._starts - 2,  # the first, and the one before all is counted
            tally,
            sum(sender.forgotten for sender in self._senders),
            self._site.tracebacks,
            max(one.bytes for one in self._memory),
            _per_hour(self._settled_memory()),
            quantile(spent, 0.5),
            quantile(spent, 0.95),
            max(spent),
            _per_hour(sorted((one.at, one.seconds) for one in calm)),
        )

    def _in_fault(self, begin: float, end: float) -> bool:
        """Whether a fault, or the second after it, falls into this time."""
        return any(first < end and begin < last + 1 for first, last in self._spells)

    def _settled_memory(self) -> list[tuple[float, float]]:
        """Of the longest time without a restart, less its beginning: when, and MB."""
        runs: dict[int, list[MemorySample]] = {}
        for one in self._memory:
            runs.setdefault(one.start, []).append(one)
        longest = max(runs.values(), key=len)
        return [(one.at, one.bytes / 1e6) for one in longest if one.at > longest[0].at + WARM_S]


def _per_hour(points: list[tuple[float, float]]) -> Slope | None:
    if len(points) < 20:
        return None
    return Slope(*(3600 * part for part in slope([p[0] for p in points], [p[1] for p in points])))


def described(result: SoakResult) -> list[str]:
    """Lines of Markdown."""
    tally = result.tally
    faults = ", ".join(f"{name} x {count}" for name, count in sorted(result.faults.items()))
    memory, latency = result.memory_per_hour, result.latency_per_hour
    return [
        f"- {result.seconds / 60:.1f} min at {result.rows_per_second:,.0f} rows/s: {tally.acked:,} rows "
        f"acknowledged, {tally.lost} lost, {tally.doubled} doubled, {tally.unknown} never sent; "
        f"{tally.steps:,} steps, {tally.steps_lost} lost, "
        f"{tally.steps_doubled + tally.steps_unknown} too many; {result.tracebacks} tracebacks.",
        f"- Faults: {sum(result.faults.values())} ({faults or 'none'}); the server was started again "
        f"{result.restarts} times.",
        f"- Memory of the server: at most {result.peak_bytes / 1e6:.0f} MB; MB per hour of the longest time "
        f"without a restart, 95 % interval: {memory or 'too short to tell'}.",
        f"- Latency of an ack outside faults: median {result.latency_median * 1e3:.0f} ms, p95 "
        f"{result.latency_p95 * 1e3:.0f} ms, at most {result.latency_max * 1e3:.0f} ms; ms per hour: "
        f"{Slope(*(1e3 * part for part in latency)) if latency else 'too short to tell'}.",
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
