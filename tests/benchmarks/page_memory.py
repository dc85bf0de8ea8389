"""Whether server, page and browser need ever more memory while somebody looks at a job."""

from __future__ import annotations

import contextlib
import math
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import psutil

from .agent import load
from .page import ANSWERED, DRAWN, PATIENCE_MS, PICK, chromium
from .rich_jobs import WIDE, served_job
from .site import Node, Result, node

RANKS = 4
SAMPLE_S = 10.0
WARM = 1 / 3  # of the time, in which caches fill
HOURS = 2.0  # to which the slope is extrapolated
FLAT = 0.10  # of the memory: what may be added in that time
Z = 1.96  # of an interval of 95 %

WITHOUT_CHROMIUM = Result("memory of the live page", "a Chromium", "not measured", False, "no Chromium here")
NEWEST = "Math.max(0, ...document.getElementById('steps').data.map((one) => (one.x ?? []).at(-1) ?? 0))"

# A rank of some twenty steps a second.
TRAINING = """
import itertools, random, time
import roofline_step
for k in itertools.count():
    with roofline_step.step(k, examples=32):
        time.sleep(0.05 * random.uniform(0.9, 1.1))
"""


class Slope(NamedTuple):
    """Of a memory over time, byte/s: the median of the slopes between all pairs, and its interval of 95 %
    (Sen 1968, Estimates of the regression coefficient based on Kendall's tau, section 3)."""

    middle: float
    low: float
    high: float


def while_looked_at(minutes: float) -> Iterator[Result]:
    """A job runs, its page is open in a browser, steps are picked each minute."""
    if shutil.which("chromium") is None:
        yield WITHOUT_CHROMIUM
        return
    with (
        node() as here,
        here.server() as server,
        here.agent(1.0),
        training(here),
        chromium(here) as (browser, home),
    ):
        found, newest = watched(server, browser, f"{home}/job?job=7", 60 * minutes)
        for what, samples in found.items():
            yield result(f"{what}, a running job", samples, minutes)
    yield Result("newest step in the page's picture", "over 100", f"{newest:,.0f}", newest > 100, load())


def of_large_job(minutes: float) -> Iterator[Result]:
    """The same on a job of 1,000 ranks x 1,000 steps that is over."""
    if shutil.which("chromium") is None:
        yield WITHOUT_CHROMIUM
        return
    with served_job(WIDE) as (here, server), chromium(here) as (browser, home):
        found, _ = watched(server, browser, f"{home}/job?job={WIDE.job}", 60 * minutes)
        for what, samples in found.items():
            yield result(f"{what}, {WIDE.ranks:,} ranks x {WIDE.steps:,} steps", samples, minutes)


@contextlib.contextmanager
def training(here: Node, program: str = TRAINING) -> Iterator[None]:
    """Ranks that step until the block is left."""
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        for index in range(RANKS):
            named = {"ROOFLINE_JOB": "7", "ROOFLINE_RANK": str(index), "ROOFLINE_ROLE": "worker"}
            ranks.append(here.start(sys.executable, "-c", program, **named))
        yield
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def watched(
    server: psutil.Process, browser: Any, address: str, seconds: float
) -> tuple[dict[str, list[tuple[float, float]]], float]:
    """Moments (s) and bytes of each process, the browser's heap after its garbage is collected; and the
    newest step that the page's picture has at the end."""
    tab = browser.new_page(viewport={"width": 1280, "height": 1000})
    opened(tab, address)
    heap = tab.context.new_cdp_session(tab)
    heap.send("Performance.enable")
    page = next(one for one in psutil.Process().children() if "page" in one.cmdline()[1:4])
    found: dict[str, list[tuple[float, float]]] = {"server": [], "page": [], "browser's heap": []}
    begin, pick = time.monotonic(), 0
    while (now := time.monotonic() - begin) < seconds:
        found["server"].append((now, server.memory_info().rss))
        found["page"].append((now, page.memory_info().rss))
        heap.send("HeapProfiler.collectGarbage")
        metrics = {one["name"]: one["value"] for one in heap.send("Performance.getMetrics")["metrics"]}
        found["browser's heap"].append((now, metrics["JSHeapUsedSize"]))
        if now // 30 > pick:  # some steps for half a minute, then all again
            pick = int(now // 30)
            tab.evaluate(PICK, picked(pick))
        tab.wait_for_timeout(1e3 * max(0.0, begin + now + SAMPLE_S - time.monotonic()))
    return found, float(tab.evaluate(NEWEST))


def picked(turn: int) -> str:
    """As the page's form takes them: a hundred steps of the first thousand, or all."""
    first = 10 * turn % 900
    return f"{first}:{first + 100}" if turn % 2 else ""


def opened(tab: Any, address: str) -> None:
    """A job's page, as soon as the server knows the job."""
    deadline = time.monotonic() + 60
    while True:
        tab.goto(address)
        try:
            tab.locator(DRAWN.format("steps")).first.wait_for(timeout=5_000)
            break
        except Exception:
            if time.monotonic() > deadline:
                raise
    tab.locator(ANSWERED).wait_for(timeout=PATIENCE_MS)


def result(what: str, samples: Sequence[tuple[float, float]], minutes: float) -> Result:
    begin = WARM * samples[-1][0]
    late = by_minute([(when, size) for when, size in samples if when >= begin])
    now = late[-1][1]
    added = [HOURS * 3600 * one / 2**20 for one in slope(late)]
    return Result(
        f"memory of the live page: {what}",
        f"+{FLAT:.0%} in {HOURS:g} h",
        f"{now / 2**20:.0f} MB, {added[0]:+.1f} MB in {HOURS:g} h",
        added[2] <= FLAT * now / 2**20,
        f"95 % of {added[1]:+.1f} to {added[2]:+.1f} MB, from {minutes:g} min, of which the first third "
        f"is left out; at first {samples[0][1] / 2**20:.0f} MB, "
        f"at most {max(size for _, size in samples) / 2**20:.0f} MB; {load()}",
    )


def by_minute(samples: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Medians, so that neighbours hardly depend on each other."""
    minutes: dict[int, list[tuple[float, float]]] = {}
    for when, size in samples:
        minutes.setdefault(int(when // 60), []).append((when, size))
    columns = [list(zip(*some, strict=True)) for some in minutes.values()]
    return [(statistics.median(when), statistics.median(size)) for when, size in columns]


def slope(points: Sequence[tuple[float, float]]) -> Slope:
    """Raises ValueError for fewer than three points."""
    count = len(points)
    if count < 3:
        raise ValueError("of less than three minutes there is no slope")
    pairs = sorted((y1 - y0) / (x1 - x0) for at, (x0, y0) in enumerate(points) for x1, y1 in points[at + 1 :])
    spread = Z * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, math.floor((len(pairs) - spread) / 2))
    high = min(len(pairs) - 1, math.ceil((len(pairs) + spread) / 2))
    return Slope(statistics.median(pairs), pairs[low], pairs[high])
