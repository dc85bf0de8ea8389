"""Output of known tools that nothing here reads, and what of the same tool can be imported in its place."""

from __future__ import annotations

import re
from typing import NamedTuple

_QUERY = (
    "what `nvidia-smi --query-gpu=timestamp,index,utilization.gpu,power.draw,clocks.sm --format=csv -l 1` "
    "prints can be imported"
)


class Neighbour(NamedTuple):
    """A sign of it in the beginning of a file; what it is and what to do, said behind the file's name."""

    sign: re.Pattern[str]
    advice: str


NEIGHBOURS: tuple[Neighbour, ...] = (
    Neighbour(
        re.compile(
            r"^[^\n]{1,40}?[ \t]\d+(?:/\d+)?[ \t]+(?:\[\d+\][ \t]+)?"  # command, process, CPU
            r"\d+\.\d{6,9}:[ \t]+(?:\d+[ \t]+)?\S+:\s",  # time, period, event
            re.M,
        ),
        "it has samples of `perf record`, as `perf script` prints them, which are no counts of a run: count "
        "the events with `perf stat`",
    ),
    Neighbour(
        re.compile(r"\A#[ \t]*(?:(?:Date|Time)[ \t,]+)*gpu[ \t,]"),
        f"it is of `nvidia-smi dmon` or `pmon`, which is not read; {_QUERY}",
    ),
    Neighbour(
        re.compile(r"^\| NVIDIA-SMI \d|^=+NVSMI LOG=+|\A(?:pid|process_name|gpu_\w+), ", re.M),
        f"it is of `nvidia-smi`, but no table of its `--query-gpu`; {_QUERY}",
    ),
    Neighbour(
        re.compile(
            r"\A(?:\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, |[^\n]*, [\d.]+ (?:%|MiB|W|MHz)(?:, |$))", re.M
        ),
        "it looks like a table of `nvidia-smi` without the names of its columns: leave out `noheader`",
    ),
    Neighbour(
        re.compile(r"^[ \t]*(?:Time ?\(%\)[ \t]+Total Time|Start \(\w+\)[ \t]+Duration \(\w+\)[ \t])", re.M),
        "it has tables of `nsys stats` for people: add `--format csv`",
    ),
    Neighbour(
        re.compile(r"^\"#\",(?:\"[^\"\n]*\",)*\"Source\",", re.M),
        "it is the source page of ncu, by line of code: kernels are on `--page raw`",
    ),
    Neighbour(
        re.compile(r"\"args\":\s*\{\s*\"name\":\s*\"/(?:device|host):\w"),
        "it is a trace of the profiler of TensorFlow and JAX for viewers: import the .xplane.pb beside it",
    ),
)


def advice_for(head: str) -> str:
    """ "" where it is unknown, too."""
    beginning = head.lstrip()
    return next((one.advice for one in NEIGHBOURS if one.sign.search(beginning)), "")
