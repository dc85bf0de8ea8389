"""Forwards a rank's output until it ends, and lets the wrapper do its other work meanwhile."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence

from .launch import FORWARDED
from .output import QUIET_S, OutputStream

TURN_S = 0.2
EARLY_S = 5.0  # so long turns are always as short: the agent must meet a command while it is alive
GRACE_S = 0.05
REST_READS = 32  # more than a terminal's buffer or a pipe holds


def forward_output(
    child: subprocess.Popen[bytes],
    outputs: Sequence[OutputStream],
    turn: Callable[[], float],
    turn_s: float = TURN_S,
) -> None:
    """Forward output until the command has ended and all it wrote is forwarded. It may have closed its
    streams long before that; where its end cannot be awaited, this is over with the streams.

    turn: called every turn_s while output comes, at first every TURN_S, as the command ends, and once at the
    end; it returns after how many seconds it is to be called where none comes.
    """
    with _end_of(child) as end:
        calm_from = time.monotonic() + EARLY_S
        turned, due = 0.0, time.monotonic() + TURN_S
        while any(not output.ended for output in outputs) or (end is not None and child.poll() is None):
            ended = _forward_some(outputs, due, end)
            now, came = time.monotonic(), max((output.came for output in outputs), default=0.0)
            if came > turned:
                due = min(due, came + turn_s)
            if ended or now >= due:
                turned, quiet_s = now, turn()
                # Without a descriptor of its end it is asked in each turn whether it has ended.
                due = now + (TURN_S if now < calm_from or end is None else quiet_s)
                if child.poll() is not None and _leave_to_background(outputs):
                    break
    turn()


@contextlib.contextmanager
def _end_of(child: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """A descriptor that is readable once the command has ended; None where there can be none."""
    try:
        found = os.pidfd_open(child.pid)
    except OSError:  # an older kernel, or it has ended and was waited for
        yield None
        return
    try:
        yield found
    finally:
        os.close(found)


def _forward_some(outputs: Sequence[OutputStream], due: float, end: int | None = None) -> bool:
    """Wait for output, at most until `due` (monotonic s), and forward it; whether `end` is readable."""
    now = time.monotonic()
    open_ = [output for output in outputs if not output.ended]
    awake = [output for output in open_ if output.rests_until <= now]
    rests = [output.rests_until - now for output in open_ if output.rests_until > now]
    undecided = [QUIET_S for output in awake if not output.settled]
    poller = select.poll()
    for output in awake:
        poller.register(output.source, select.POLLIN)
    if end is not None:
        poller.register(end, select.POLLIN)
    seconds = max(0.0, min([due - now, *rests, *undecided]))
    ready = {descriptor for descriptor, _ in poller.poll(1000 * seconds)}
    moment = time.monotonic_ns()
    for output in awake:
        output.through_ns = moment
        if output.source in ready:
            output.take()
        else:
            output.release()
    return end in ready


def _leave_to_background(outputs: Sequence[OutputStream]) -> bool:
    """The command has ended. If a process it started still holds a stream, a process of ours forwards that in
    the background; True then, False when the streams will end by themselves."""
    held = []
    for output in outputs:
        if output.ended:
            continue
        for _ in range(REST_READS if output.has_given_up else 1):
            if not output.ended and output.has_something(GRACE_S):
                output.take()  # the end of the stream, or text of a process that still writes
        if not output.ended:
            held.append(output)
    if held and os.fork() == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        try:
            for output in outputs:
                output.detach()
            while any(not output.ended for output in held):
                _forward_some(held, time.monotonic() + TURN_S)
        finally:
            os._exit(0)
    return bool(held)
