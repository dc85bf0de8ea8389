"""Forwards a rank's output until it ends, and lets the wrapper do its other work meanwhile."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from .launch import FORWARDED
from .output import OutputStream

TURN_S = 0.2
GRACE_S = 0.05


def forward_output(
    child: subprocess.Popen[bytes], outputs: Sequence[OutputStream], turn: Callable[[], None]
) -> None:
    """Forward output until the streams end, or until the command has ended and all it wrote is forwarded.

    turn: called every TURN_S, and once at the end.
    """
    last = time.monotonic()
    while any(not output.ended for output in outputs):
        _forward_some(outputs)
        if time.monotonic() - last >= TURN_S:
            last = time.monotonic()
            turn()
            if child.poll() is not None and _leave_to_background(outputs):
                break
    turn()


def _forward_some(outputs: Sequence[OutputStream]) -> None:
    """Wait for output, at most a turn, and forward it."""
    now = time.monotonic()
    open_ = [output for output in outputs if not output.ended]
    awake = [output for output in open_ if output.rests_until <= now]
    rests = [output.rests_until - now for output in open_ if output.rests_until > now]
    poller = select.poll()
    for output in awake:
        poller.register(output.source, select.POLLIN)
    ready = {descriptor for descriptor, _ in poller.poll(1000 * min([TURN_S, *rests]))}
    moment = time.monotonic_ns()
    for output in awake:
        output.through_ns = moment
        if output.source in ready:
            output.take()
        else:
            output.release()


def _leave_to_background(outputs: Sequence[OutputStream]) -> bool:
    """The command has ended. If a process it started still holds a stream, a process of ours forwards that in
    the background; True then, False when the streams will end by themselves."""
    held = []
    for output in outputs:
        if output.ended:
            continue
        if output.has_something(GRACE_S):
            output.take()  # the end of the stream, or text of a process that still writes
        if not output.ended:
            held.append(output)
    if held and os.fork() == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        try:
            for output in outputs:
                output.detach()
            while any(not output.ended for output in held):
                _forward_some(held)
        finally:
            os._exit(0)
    return bool(held)
