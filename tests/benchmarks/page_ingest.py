"""What open pages cost the server while it takes batches: CPU time a row, in turns with pages that stand
still.

Time a row is that of the machine's other work, too; CPU time is not. Where other work makes a turn longer,
pages ask more in it, so that what is found is rather too much.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from typing import NamedTuple

import psutil

from tests.fakes import free_port

from . import server
from .agent import load
from .page_memory import training
from .rich_jobs import Shape, send
from .site import COMMANDS, Node, Result, connects, node, wait_until
from .turns import interval_of_means, verdict

PAGES, PAIRS, BATCHES = 50, 60, 400  # batches of each stream in a turn
SETTLE_S = 2.0  # after pages go on: what they had missed is asked for at once
LIMIT = 0.05
STEPPED = Shape(16, 2_000)
# Opens so many streams of events and reads them: of the list of jobs, of a job that is over, and of one of
# real ranks that runs.
READER = """
import selectors, socket, sys
port, pages = map(int, sys.argv[1:])
chosen = selectors.DefaultSelector()
for number in range(pages):
    one = socket.create_connection(("127.0.0.1", port))
    path = ("/events/jobs", "/events/job?job=16", "/events/job?job=7")[number % 3]
    one.sendall(f"GET {path} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n\\r\\n".encode())
    chosen.register(one, selectors.EVENT_READ)
while True:
    for key, _ in chosen.select():
        if not key.fileobj.recv(1 << 20):
            sys.exit("a page was closed")
"""


class Turn(NamedTuple):
    """One turn of ingest; cpu_seconds: of the server."""

    seconds: float
    cpu_seconds: float


def beside_pages() -> Result:
    """How much more CPU time a row takes the server while 50 pages are open."""
    port = free_port()
    page = (COMMANDS / "roofline-client", "page", "--listen", f"127.0.0.1:{port}")
    with (
        node() as here,
        here.server() as process,
        here.agent(1.0),
        training(here),
        here.running(*page) as asking,
    ):
        wait_until(lambda: connects("127.0.0.1", port))
        pairs = asyncio.run(_ingest_in_turns(here, port, process, asking))
        held = process.memory_info().rss / 2**20
    found = interval_of_means([(alone.cpu_seconds, beside.cpu_seconds) for alone, beside in pairs])
    longer = interval_of_means([(alone.seconds, beside.seconds) for alone, beside in pairs])
    both = [sum(one.cpu_seconds for one in turns) for turns in zip(*pairs, strict=True)]
    core = (both[1] - both[0]) / sum(beside.seconds for _, beside in pairs)
    rows = server.INGEST_STREAMS * BATCHES * server.ROWS
    each = [seconds / len(pairs) / rows for seconds in both]
    return Result(
        f"CPU time of the server a row, beside {PAGES} open pages",
        f"{LIMIT:.0%} more",
        str(found),
        found.high <= LIMIT,
        f"{verdict(found, LIMIT)}; {1e6 * each[0]:.2f} and {1e6 * each[1]:.2f} us a row, "
        f"{core:.1%} of a core for pages; {PAIRS} pairs of turns of {rows:,} rows; "
        f"time {longer}; the server holds {held:.0f} MB; {load()}",
    )


@contextlib.contextmanager
def _standing(process: psutil.Process) -> Iterator[None]:
    process.suspend()
    try:
        yield
    finally:
        process.resume()


async def _ingest_in_turns(
    here: Node, port: int, process: psutil.Process, asking: psutil.Process
) -> list[tuple[Turn, Turn]]:
    """Turns without and with pages, first the one and then the other first, in one event loop: gRPC stays
    with the first of a process."""
    messages, pairs = server.ingest_messages()[:BATCHES], []

    async def turn(agents: str) -> Turn:
        await asyncio.sleep(SETTLE_S)
        before = process.cpu_times()
        seconds = await server.ingest(here, messages, agents)
        after = process.cpu_times()
        return Turn(seconds, after.user - before.user + after.system - before.system)

    await send(here.address, STEPPED)
    await turn("first")  # everything is warm
    with here.running(sys.executable, "-c", READER, port, PAGES) as pages:
        await asyncio.sleep(3 * SETTLE_S)  # all of them are open, and have seen something
        for number in range(PAIRS):
            if number % 2:
                beside = await turn(f"beside-{number}")
            with _standing(asking):
                alone = await turn(f"alone-{number}")
            if not number % 2:
                beside = await turn(f"beside-{number}")
            pairs.append((alone, beside))
            assert pages.status() != psutil.STATUS_ZOMBIE, "a page was closed"
    return pairs
