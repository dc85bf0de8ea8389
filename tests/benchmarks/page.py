"""How soon the live page of a large job is there and follows a pick of steps, in a real Chromium."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import psutil

from . import server
from .agent import load, marked, marking_rank
from .rich_jobs import LONG, WIDE, Shape, send, served_job
from .site import COMMANDS, Node, Result, connects, free_port, node, wait_until

PAINT_S, BRUSH_S = 1.0, 0.1
ROUNDS = 5
PATIENCE_MS = 180_000

# Picks steps as the mouse does, and waits for the frame that shows it.
PICK = """async (steps) => {
  const begin = performance.now();
  pick({ steps });
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return (performance.now() - begin) / 1000;
}"""
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"
NOW = "performance.now() / 1000"
DRAWN, ANSWERED = "#{} .main-svg", "#verdict:not([aria-busy])"  # the page lets no function be made of a text

NEWEST = "Math.max(...document.getElementById('steps').data.map((one) => one.x.at(-1)))"
FRAME = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
SETTLING, MARKS = 40, 20  # marks, of which the first are not looked at

PAGES, TURNS, BATCHES = 50, 5, 400  # batches of each stream in a turn
STEPPED = Shape(16, 2_000)
# Opens so many streams of events and reads them: of the list of jobs, of a job with steps that is over, and
# of the one without steps whose samples are sent meanwhile.
READER = """
import selectors, socket, sys
port, pages = map(int, sys.argv[1:])
chosen = selectors.DefaultSelector()
for number in range(pages):
    one = socket.create_connection(("127.0.0.1", port))
    path = ("/events/jobs", "/events/job?job=16", "/events/job?job=bench")[number % 3]
    one.sendall(f"GET {path} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n\\r\\n".encode())
    chosen.register(one, selectors.EVENT_READ)
while True:
    for key, _ in chosen.select():
        if not key.fileobj.recv(1 << 20):
            sys.exit("a page was closed")
"""


class Seen(NamedTuple):
    """Seconds since the page was opened, the first time, and since steps were picked, medians."""

    paint: float
    steps: float
    verdict: float
    picked: float
    answered: float


class Turn(NamedTuple):
    """One turn of ingest; cpu_seconds: of the server."""

    seconds: float
    cpu_seconds: float


def large_jobs() -> Iterator[Result]:
    """1,000 ranks x 1,000 steps, and 64 ranks x 10,000 steps."""
    if shutil.which("chromium") is None:
        yield Result("live page", "a Chromium", "not measured", False, "there is no Chromium here")
        return
    for shape in (WIDE, LONG):
        with served_job(shape) as (here, _):
            yield result(shape, looked(here, shape.job))


def result(shape: Shape, seen: Seen) -> Result:
    return Result(
        f"live page, {shape.ranks:,} ranks x {shape.steps:,} steps",
        f"first paint {PAINT_S:g} s, brush {1e3 * BRUSH_S:.0f} ms",
        f"{seen.paint:.2f} s, {1e3 * seen.picked:.0f} ms",
        seen.paint <= PAINT_S and seen.picked <= BRUSH_S,
        f"step times drawn after {seen.steps:.1f} s, the verdict after {seen.verdict:.1f} s; of picked steps "
        f"{seen.answered:.1f} s after the pick; {load()}",
    )


def beside_pages() -> Result:
    """How much slower rows become durable while 50 pages are open, in turns with none."""
    with node() as here, here.server() as process:
        port = free_port()
        with here.running(COMMANDS / "roofline-client", "page", "--listen", f"127.0.0.1:{port}"):
            wait_until(lambda: connects("127.0.0.1", port))
            alone, beside = asyncio.run(_ingest_in_turns(here, port, process))
            held = process.memory_info().rss / 2**20
    share = (
        statistics.median(one.seconds for one in beside) / statistics.median(one.seconds for one in alone) - 1
    )
    turns = ", ".join(f"{a.seconds:.1f}/{b.seconds:.1f}" for a, b in zip(alone, beside, strict=True))
    cpu = [statistics.median(one.cpu_seconds for one in them) for them in (alone, beside)]
    return Result(
        f"ingest beside {PAGES} open pages",
        "5 % slower",
        f"{share:+.1%}",
        share <= 0.05,
        f"seconds alone/beside: {turns}; CPU time of the server, medians: {cpu[0]:.2f} and {cpu[1]:.2f} s; "
        f"it holds {held:.0f} MB; {load()}",
    )


def mark_to_pixel() -> Result:
    """From a mark in a rank to its step in the picture of step times, agent, server and page as they come."""
    if shutil.which("chromium") is None:
        return Result("mark to a pixel, worst", "2 s", "not measured", False, "there is no Chromium here")
    delays: list[float] = []
    with node() as here, here.server(), here.agent(1.0), chromium(here) as (browser, home):
        rank = marking_rank(here)
        tab = browser.new_page(viewport={"width": 1280, "height": 1000})
        for number in range(-SETTLING, MARKS):  # after some seconds batches come every 1.5 s instead of 1
            begin, step = time.monotonic(), number + SETTLING
            marked(rank, step)
            if number < -1:
                time.sleep(1.0)
            elif number == -1:
                wait_until(lambda: _opened_at_all(tab, f"{home}/job?job=7"))
            else:
                while tab.evaluate(NEWEST) < step - 1:  # a mark is the border between two steps
                    time.sleep(0.01)
                tab.evaluate(FRAME)
                delays.append(time.monotonic() - begin)
        rank.kill()
        rank.wait()
    beside = f"median {statistics.median(delays):.2f} s of {len(delays)}; {load()}"
    return Result("mark to a pixel, worst", "2 s", f"{max(delays):.2f} s", max(delays) <= 2, beside)


def _opened_at_all(tab: Any, address: str) -> bool:
    tab.goto(address)
    with contextlib.suppress(Exception):
        tab.locator(DRAWN.format("steps")).first.wait_for(timeout=5_000)
        return bool(tab.evaluate(NEWEST) >= 0)
    return False


async def _ingest_in_turns(here: Node, port: int, process: psutil.Process) -> tuple[list[Turn], list[Turn]]:
    """Turns without and with pages, in one event loop: gRPC stays with the first of a process."""
    messages, alone, beside = server.ingest_messages()[:BATCHES], [], []

    async def turn(agents: str) -> Turn:
        before = process.cpu_times()
        seconds = await server.ingest(here, messages, agents)
        after = process.cpu_times()
        return Turn(seconds, after.user - before.user + after.system - before.system)

    await send(here.address, STEPPED)
    await turn("first")  # everything is warm
    for number in range(TURNS):
        alone.append(await turn(f"alone-{number}"))
        with here.running(sys.executable, "-c", READER, port, PAGES) as pages:
            await asyncio.sleep(3.0)  # all of them are open, and have seen something
            beside.append(await turn(f"beside-{number}"))
            assert pages.status() != psutil.STATUS_ZOMBIE, "a page was closed"
    return alone, beside


@contextlib.contextmanager
def chromium(here: Node) -> Iterator[tuple[Any, str]]:
    """A browser, and the address of a page that asks the node's server."""
    from playwright.sync_api import sync_playwright

    port = free_port()
    with (
        here.running(COMMANDS / "roofline-client", "page", "--listen", f"127.0.0.1:{port}"),
        sync_playwright() as playwright,
    ):
        wait_until(lambda: connects("127.0.0.1", port))
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser, f"http://127.0.0.1:{port}"
        browser.close()


def looked(here: Node, job: str) -> Seen:
    """Open the job's page a few times, and pick steps there a few times."""
    with chromium(here) as (browser, home):
        opened = [_opened(browser, f"{home}/job?job={job}") for _ in range(3)]
        tab = browser.new_page(viewport={"width": 1280, "height": 1000})
        tab.goto(f"{home}/job?job={job}")
        tab.locator(DRAWN.format("late")).first.wait_for(timeout=PATIENCE_MS)
        tab.locator(ANSWERED).wait_for(timeout=PATIENCE_MS)
        picked = [_picked(tab, f"{100 + round_}:{200 + round_}") for round_ in range(ROUNDS)]
    paint = statistics.median(one[0] for one in opened)
    # Later openings see what was found for the first.
    return Seen(paint, *opened[0][1:], *map(statistics.median, zip(*picked, strict=True)))


def _opened(browser: Any, address: str) -> tuple[float, float, float]:
    tab = browser.new_page(viewport={"width": 1280, "height": 1000})
    tab.goto(address)
    tab.locator(DRAWN.format("steps")).first.wait_for(timeout=PATIENCE_MS)
    steps = tab.evaluate(NOW)
    tab.locator(ANSWERED).wait_for(timeout=PATIENCE_MS)
    seen = (tab.evaluate(FIRST_PAINT), steps, tab.evaluate(NOW))
    tab.close()
    return seen


def _picked(tab: Any, steps: str) -> tuple[float, float]:
    begin = tab.evaluate(NOW)
    shown = tab.evaluate(PICK, steps)
    tab.locator(ANSWERED).wait_for(timeout=PATIENCE_MS)
    return shown, tab.evaluate(NOW) - begin
