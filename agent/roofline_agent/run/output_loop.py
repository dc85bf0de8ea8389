"""Moves a rank's output until it ends, and gives others a turn now and then meanwhile."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from .launch import FORWARDED
from .output import Output

TURN_S = 0.2
GRACE_S = 0.05


def pump(child: subprocess.Popen[bytes], outputs: Sequence[Output], turn: Callable[[], None]) -> None:
    """Move output until the streams end, or the command has ended and what it wrote is through.

    turn: called every TURN_S, and once at the end.
    """
    last = time.monotonic()
    while any(not output.ended for output in outputs):
        _move(outputs)
        if time.monotonic() - last >= TURN_S:
            last = time.monotonic()
            turn()
            if child.poll() is not None and _leave_to_background(outputs):
                break
    turn()


def _move(outputs: Sequence[Output]) -> None:
    """Wait for something to come, at most a turn, and pass it on."""
    now = time.monotonic()
    listening = [output for output in outputs if not output.ended]
    awake = [output for output in listening if output.rests_until <= now]
    rests = [output.rests_until - now for output in listening if output.rests_until > now]
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


def _leave_to_background(outputs: Sequence[Output]) -> bool:
    """The command has ended. If something it started still holds a stream of it, a process of its own passes
    that on; True when that is so, False when the streams will end by themselves."""
    held = [output for output in outputs if not output.ended and _is_held(output)]
    if held and os.fork() == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        try:
            for output in outputs:
                output.detach()
            while any(not output.ended for output in held):
                _move(held)
        finally:
            os._exit(0)
    return bool(held)


def _is_held(output: Output) -> bool:
    if not output.has_something(GRACE_S):
        return True
    # Something is there: the end of the stream, or text of somebody who still writes.
    output.take()
    return not output.ended
