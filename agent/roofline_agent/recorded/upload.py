"""Sends a recording to the server over the stream that agents use.

Node time of a recording is UNIX time, so that it may be older than this machine's boot. The agent
id follows from the file's content: a file sent again adds nothing.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .. import __version__
from ..calibrate.calibration import Ceiling
from ..errors import Unreachable
from ..machine import Machine
from ..records import Provenance, SourceStatus
from ..uplink.encoding import Greeting, encode
from ..uplink.exporter import Exporter
from ..uplink.spool import Spool
from .batches import Target, batches, identity
from .collector import Collector

if TYPE_CHECKING:
    from roofline.joining import Access

CONNECT_S = 5.0
STALL_S = 60.0  # nothing acknowledged for so long: the server is not taking it
WAITING_BYTES = 32 << 20
INTERVAL_NS = 1_000_000_000
_OPERATIONS = ("read", "copy", "triad")  # of memory, as the wire names them


class Sent(NamedTuple):
    """What became of a recording."""

    batches: int
    refused: int


def upload(
    found: Collector,
    target: Target,
    server: str,
    machine: Machine,
    progress: Callable[[int], None] = lambda batches: None,
    access: Access | None = None,
) -> Sent:
    """Send everything and wait until it is durable. Raises Unreachable.

    progress: called with the number of batches handed over so far. access: of a server that was joined.
    """
    node_minus_monotonic = time.time_ns() - time.monotonic_ns()
    greeting = Greeting(
        identity(found.digest, target),
        uuid.uuid4().hex,
        "recording",
        __version__,
        machine,
        ceilings(found),
        [SourceStatus(found.tool, True, "a recorded file")],
        INTERVAL_NS,
    )
    with tempfile.TemporaryDirectory(prefix="roofline-import-") as directory:
        spool = Spool(Path(directory) / "spool.db", limit_bytes=1 << 40)
        exporter = Exporter(
            server,
            spool,
            lambda: greeting,
            clock=lambda: time.monotonic_ns() + node_minus_monotonic,
            access=access,
        )
        exporter.start()
        try:
            deadline = time.monotonic() + CONNECT_S
            while not exporter.connected:
                if time.monotonic() > deadline:
                    advice = "start `roofline-server` there, or give --server HOST:PORT; --dry-run needs none"
                    raise Unreachable(f"no roofline-server answers at {server}; {advice}")
                time.sleep(0.01)
            count = _feed(found, target, spool, exporter, server, progress)
            _wait_durable(spool, server)
            return Sent(count, spool.dropped + spool.refused)
        finally:
            exporter.stop()
            spool.close()


def _feed(
    found: Collector,
    target: Target,
    spool: Spool,
    exporter: Exporter,
    server: str,
    progress: Callable[[int], None],
) -> int:
    # Numbered from 1 whatever the server has: what it has already is not sent again.
    sequence = 0
    for batch in batches(found, target):
        sequence += 1
        if sequence <= exporter.acked:
            continue
        spool.append(sequence, encode(batch, sequence))
        exporter.push()
        progress(sequence)
        if spool.bytes_waiting > WAITING_BYTES:
            _wait_durable(spool, server, WAITING_BYTES // 2)
    return sequence


def _wait_durable(spool: Spool, server: str, most_bytes: int = 0) -> None:
    """Until no more than so much waits; gives up when nothing moves."""
    least, moved = spool.bytes_waiting, time.monotonic()
    while (waiting := spool.bytes_waiting) > most_bytes:
        if waiting < least:
            least, moved = waiting, time.monotonic()
        if time.monotonic() - moved > STALL_S:
            raise Unreachable(
                f"the server at {server} takes no more; part of the file may be there: send it again"
            )
        time.sleep(0.01)


def ceilings(found: Collector) -> Sequence[Ceiling]:
    return [
        Ceiling(
            c.name,
            c.kind,
            c.level,
            c.precision,
            c.width,
            c.value,
            c.unit,
            0.0,
            c.method,
            found.started_ns or 0,
            device=c.device,
            provenance=int(Provenance.REPORTED),
            operation=next((one for one in _OPERATIONS if c.name.startswith(f"{c.level}.{one}")), ""),
        )
        for c in found.ceilings
    ]
