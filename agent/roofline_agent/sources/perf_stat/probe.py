"""Asks perf which events it counts here, one by one, because one unknown event fails the whole command.

Answers are kept for the life of this process: doctor, the agent and other sources may ask the same.
"""

from __future__ import annotations

import functools
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...child_process import bare_environment
from ...events import HardwareEvent
from .groups import Group, grouped, spelled
from .output import plain, printed

PROBE_TIMEOUT_S = 5.0  # of one question; perf answers in a few hundredths of a second
MOST_BYTES = 1 << 20
WITNESS = "task-clock"  # a software event: counts whenever the process runs

PER_PROCESS: tuple[str, ...] = ()
PER_SOCKET = ("-a", "--per-socket")


class Tried(NamedTuple):
    """perf's answer to a question. names: how it prints each event that counts, in the order asked."""

    names: tuple[str, ...]
    text: str
    complete: bool  # all that was asked counts
    user_only: bool = False  # user space only, for want of privilege


class Counted(NamedTuple):
    """An event that counts here, and the name perf prints for it."""

    name: str
    event: HardwareEvent


def environment() -> Mapping[str, str]:
    """perf's: numbers in the C locale, nothing from anybody's ~/.perfconfig."""
    return bare_environment(PERF_CONFIG="/dev/null")


@functools.lru_cache(maxsize=1024)
def tried(perf: str, options: tuple[str, ...], events: str, idle_counts: bool = False) -> Tried:
    """Count events for the length of `true`. idle_counts: "not counted" this time is good enough.

    Raises OSError or subprocess.SubprocessError where perf cannot be run or does not answer.
    """
    status, text = _run([perf, "stat", *options, "-x", ";", "-e", events, "--", "true"])
    lines = printed(text) if status == 0 else []
    missing = ("<not supported>",) if idle_counts else ("<not supported>", "<not counted>")
    counts = [name for value, name in lines if value not in missing]
    names = tuple(dict.fromkeys(map(plain, counts)))
    return Tried(names, text, bool(lines) and len(counts) == len(lines), any(plain(n) != n for n in counts))


def _run(command: list[str]) -> tuple[int, str]:
    """(exit status, what it printed); whatever is called perf may print without end, or never."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as child:
        late = threading.Timer(PROBE_TIMEOUT_S, child.kill)
        late.start()
        try:
            assert child.stderr is not None
            printed_bytes = child.stderr.read(MOST_BYTES)
            if len(printed_bytes) == MOST_BYTES:
                child.kill()
        finally:
            over = late.finished.is_set()
            late.cancel()
    if over:
        raise subprocess.TimeoutExpired(command[:2], PROBE_TIMEOUT_S)
    text = printed_bytes.decode(errors="replace")
    if child.returncode < 0 and len(printed_bytes) < MOST_BYTES:
        text = f"perf was ended by a signal ({signal.strsignal(-child.returncode)})\n{text}"
    return child.returncode, text


class Answers(NamedTuple):
    """Answers about several events: which count, and what perf printed about the others."""

    counted: tuple[Counted, ...]
    texts: tuple[str, ...]
    user_only: bool


def ask(
    perf: str, options: tuple[str, ...], events: Sequence[HardwareEvent], hybrid: bool = False
) -> Answers:
    """Which of the events count; none of a metric's where one is missing, as half a sum is a wrong sum.

    hybrid: events of one metric belong to different cores; `true` runs on one of them only, and some CPUs
    have the other kind switched off. Raises as `tried` does.
    """
    counted, texts, user_only = [], [], False
    for event in events:
        answer = tried(perf, options, event.perf, hybrid)
        user_only |= answer.user_only
        if answer.complete and answer.names:
            counted.append(Counted(answer.names[0], event))
        else:
            texts.append(answer.text)
    found = {one.event for one in counted}
    halves = set() if hybrid else {event.metric for event in events if event not in found}
    return Answers(tuple(one for one in counted if one.event.metric not in halves), tuple(texts), user_only)


def groups_that_count(perf: str, events: Sequence[HardwareEvent], counters: int) -> list[Group]:
    """Groups of which perf counts each: smaller ones where this CPU has fewer counters to give.

    A virtual machine may pass on only some, and the NMI watchdog keeps one. Raises as `tried` does.
    """
    for size in range(counters, 1, -1):
        groups = grouped(events, size)
        if all(tried(perf, PER_PROCESS, spelled([group])).complete for group in groups):
            return groups
    return [(event,) for event in events]
