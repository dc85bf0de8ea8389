"""All fuzz targets by name."""

from __future__ import annotations

from collections.abc import Callable

from .files import Joining, Recorded
from .http import Http
from .ingest import Ingest, Questions, Stored
from .marks import Marks
from .running import Target

TARGETS: dict[str, Callable[[], Target]] = {
    "ingest": Ingest,  # one message of an agent, decoded
    "stored": Stored,  # some batches, stored and asked about
    "marks": Marks,  # packets of training processes
    "recorded": Recorded,  # files of other tools
    "questions": Questions,  # of clients
    "http": Http,  # requests for health, spans by OTLP
    "joining": Joining,  # tokens, and the file of servers
}
