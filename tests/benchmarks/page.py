"""How soon the live page of a large job is there and follows a pick of steps, in a real Chromium."""

from __future__ import annotations

import contextlib
import random
import shutil
import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.fakes import free_port

from .agent import load, marked, marking_rank
from .rich_jobs import LONG, WIDE, Shape, served_job
from .site import COMMANDS, Node, Result, connects, node, wait_until

PAINT_S, BRUSH_S = 1.0, 0.1
ROUNDS = 5
PATIENCE_MS = 180_000

# Picks steps as the form does, and waits for the frame that shows it.
PICK = """async (steps) => {
  const begin = performance.now();
  pick({ steps });
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return (performance.now() - begin) / 1000;
}"""
# Waits, once the mouse is up, for the frame that shows what was picked.
RELEASE = """() => {
  const before = location.search;
  let begin;
  window.addEventListener("pointerup", () => { begin = performance.now(); }, { capture: true, once: true });
  window.seen = new Promise((done) => {
    const look = () => {
      if (location.search === before) requestAnimationFrame(look);
      else requestAnimationFrame(() => requestAnimationFrame(() => done((performance.now() - begin) / 1000)));
    };
    look();
  });
}"""
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"
NOW = "performance.now() / 1000"
DRAWN, ANSWERED = "#{} .main-svg", "#verdict:not([aria-busy])"  # the page lets no function be made of a text

NEWEST = "Math.max(...document.getElementById('steps').data.map((one) => one.x.at(-1)))"
FRAME = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
SETTLING, MARKS = 40, 40  # marks, of which the first are not looked at
APART_S = 1.5  # at most, and at random: as long as a batch


class Seen(NamedTuple):
    """Seconds since the page was opened, the first time, and since the mouse that picks steps is up; medians
    of several times."""

    paint: float
    steps: float
    verdict: float
    again: float  # the verdict, when the page is opened once more
    picked: float
    answered: float


def wide_job() -> Result:
    """1,000 ranks x 1,000 steps."""
    return _large_job(WIDE)


def long_job() -> Result:
    """64 ranks x 10,000 steps."""
    return _large_job(LONG)


def _large_job(shape: Shape) -> Result:
    if shutil.which("chromium") is None:
        return Result("live page", "a Chromium", "not measured", False, "there is no Chromium here")
    with served_job(shape) as (here, server):
        seen = looked(here, shape.job)
        held = server.memory_info().rss / 2**20
    return result(shape, seen, held)


def result(shape: Shape, seen: Seen, held: float) -> Result:
    """held: MB of the server."""
    return Result(
        f"live page, {shape.ranks:,} ranks x {shape.steps:,} steps",
        f"first paint {PAINT_S:g} s, brush {1e3 * BRUSH_S:.0f} ms",
        f"{seen.paint:.2f} s, {1e3 * seen.picked:.0f} ms",
        seen.paint <= PAINT_S and seen.picked <= BRUSH_S,
        f"step times drawn after {seen.steps:.1f} s, the verdict after {seen.verdict:.1f} s, opened again "
        f"{seen.again:.1f} s; of picked steps {seen.answered:.1f} s after the pick; "
        f"the server holds {held:.0f} MB; {load()}",
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
            if number > 0:  # else each would follow on what the page has just shown
                time.sleep(random.uniform(0, APART_S))
            begin, step = time.monotonic(), number + SETTLING
            marked(rank, step)
            if number < -1:
                time.sleep(1.0)
            elif number == -1:
                wait_until(lambda: _opened_at_all(tab, f"{home}/job?job=7"))
            else:
                while tab.evaluate(NEWEST) < step:
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
        picked = [_picked(tab, 0.1 + 0.1 * round_) for round_ in range(ROUNDS)]
    paint = statistics.median(one[0] for one in opened)
    again = statistics.median(one[2] for one in opened[1:])  # these see what was found for the first
    return Seen(paint, *opened[0][1:], again, *map(statistics.median, zip(*picked, strict=True)))


def _opened(browser: Any, address: str) -> tuple[float, float, float]:
    tab = browser.new_page(viewport={"width": 1280, "height": 1000})
    tab.goto(address)
    tab.locator(DRAWN.format("steps")).first.wait_for(timeout=PATIENCE_MS)
    steps = tab.evaluate(NOW)
    tab.locator(ANSWERED).wait_for(timeout=PATIENCE_MS)
    seen = (tab.evaluate(FIRST_PAINT), steps, tab.evaluate(NOW))
    tab.close()
    return seen


def _picked(tab: Any, from_: float) -> tuple[float, float]:
    """Drag over a tenth of the steps. from_: where it begins, of the picture's width."""
    place = tab.locator("#steps .nsewdrag").first
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    x, y = box["x"] + from_ * box["width"], box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 0.1 * box["width"], y + 10, steps=5)
    tab.evaluate(RELEASE)
    begin = time.monotonic()
    tab.mouse.up()
    shown = tab.evaluate("window.seen")
    tab.locator(ANSWERED).wait_for(timeout=PATIENCE_MS)
    return shown, time.monotonic() - begin
