"""Turns profiled launches into the agent's kernel calls: assigns them to steps, and gives them times.

ncu reports in which order kernels ran and how long each took by itself, not when. So they are put
into their step window in that order, one after another from its begin, and their notes say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from ..recorded.recording import LEVELS, Launch
from ..records import KernelShape
from ..verbose import TimedCall

MAX_NAME = 256
NOTE = (
    "timed and counted by ncu; placed in order within its step, which itself ran slower; collectives left out"
)
_TEMPLATE = re.compile(r"<[^<>]*>")


class Window(NamedTuple):
    """A profiled step in node time; `closed`: the step came to its end."""

    step: int
    begin_ns: int
    end_ns: int
    closed: bool = True


def parse_windows(text: str, now_ns: int) -> list[Window]:
    """The windows that the hooks wrote: "STEP BEGIN" when a range opens, "STEP BEGIN END" when it closes.

    One that did not close goes up to now_ns. Other lines are skipped.
    """
    found: dict[tuple[int, int], Window] = {}
    for line in text.splitlines():
        words = line.split()
        if not 2 <= len(words) <= 3 or not all(word.isascii() and word.isdigit() for word in words):
            continue
        step, begin, *end = (int(word) for word in words)
        found[step, begin] = Window(step, begin, end[0] if end else now_ns, bool(end))
    return sorted(found.values(), key=lambda window: window.begin_ns)


def share_out(launches: Sequence[Launch], windows: Sequence[Window]) -> list[list[Launch]]:
    """The launches of each window, in order.

    Steps launch equally many kernels as a rule. Where the number does not divide, each window gets a share
    after its duration: replays take most of it, and they are as many as the kernels.
    """
    if not windows:
        return []
    if len(launches) % len(windows) == 0:
        parts = [1] * len(windows)
    else:
        parts = [max(1, window.end_ns - window.begin_ns) for window in windows]
    ends = [round(len(launches) * part / sum(parts)) for part in accumulate(parts)]
    return [list(launches[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]


def place(launches: Sequence[Launch], window: Window, to_epoch_ns: int) -> list[TimedCall]:
    """The launches of one window as calls; to_epoch_ns: UNIX time less node time."""
    durations = [round((launch.time_s or 0.0) * 1e9) for launch in launches]
    total = sum(durations)
    room = window.end_ns - window.begin_ns
    # A replayed step takes longer than its kernels. Should the clocks disagree, they still stay inside it.
    scale = min(1.0, room / total) if total else 1.0
    starts = accumulate([0, *durations[:-1]]) if durations else ()
    return [
        TimedCall(shape(launch), to_epoch_ns + window.begin_ns + int(start * scale), duration)
        for launch, start, duration in zip(launches, starts, durations, strict=True)
    ]


def shape(launch: Launch) -> KernelShape:
    """What was computed. The least traffic it needs is unknown (`bytes`), the measured one is known."""
    counted = {level: round(launch.bytes[level]) for level in LEVELS if launch.bytes.get(level) is not None}
    return KernelShape(
        library="cuda",
        operation=function(launch.name),
        variant=launch.variant,
        precision=launch.precision,
        implementation=launch.name[:MAX_NAME],
        problem=launch.problem,
        flops=None if launch.flops is None else round(launch.flops),
        bytes=None,
        note="; ".join(filter(None, [launch.note, NOTE])),
        dram_bytes=counted.get("dram"),
        l1_bytes=counted.get("l1"),
        l2_bytes=counted.get("l2"),
    )


def function(name: str) -> str:
    """A kernel's name without return type, template arguments and parameters: "void k<float>(int)" is "k"."""
    before = None
    while name != before:
        before, name = name, _TEMPLATE.sub("", name)
    return (name.partition("(")[0].split() or [""])[-1][:MAX_NAME]
