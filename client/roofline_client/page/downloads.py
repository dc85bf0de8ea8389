"""What a visitor takes away as a file: the same that the command line writes."""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..api import Client
from ..errors import UsageError
from ..results.page import document
from ..step_range import parse_steps
from ..tables import reports, screen
from ..trace import write_trace


class Download(NamedTuple):
    """A file of a job, of the steps that are picked."""

    make: Callable[[Client, Mapping[str, str]], bytes]
    media_type: str


def _html(client: Client, given: Mapping[str, str]) -> bytes:
    job = _job(given)
    report = client.report(job, *parse_steps(given.get("steps", "")))
    return document(f"Job {job}", screen.in_full(report)).encode()


def _csv(client: Client, given: Mapping[str, str]) -> bytes:
    return reports.as_csv(client.report(_job(given), *parse_steps(given.get("steps", "")))).encode()


def _timeline(client: Client, given: Mapping[str, str]) -> bytes:
    """Of Perfetto, which unpacks it."""
    packed = io.BytesIO()
    with gzip.open(packed, "wt", compresslevel=3) as out:
        chunks = client.timeline(_job(given), (), *parse_steps(given.get("steps", "")))
        write_trace(chunks, out)
    return packed.getvalue()


def _job(given: Mapping[str, str]) -> str:
    """Raises UsageError."""
    if not given.get("job"):
        raise UsageError("job is missing")
    return given["job"]


ALL = {
    "report.html": Download(_html, "text/html"),
    "report.csv": Download(_csv, "text/csv"),
    "timeline.json.gz": Download(_timeline, "application/gzip"),
}


def file_name(name: str, given: Mapping[str, str]) -> str:
    """As "report-job-42.html"; nothing in it but letters, digits, "-" and "."."""
    kind, _, ending = name.partition(".")
    return f"{kind}-job-{re.sub('[^A-Za-z0-9]+', '-', given.get('job', ''))[:60]}.{ending}"
