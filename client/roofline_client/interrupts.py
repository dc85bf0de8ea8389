"""Ctrl-C: a command ends at the first, without a traceback or half a file, and at a second at any price."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from typing import Any, NoReturn

EXIT_CODE = 130  # 128 + SIGINT, as shells have it
AGAIN_S = 0.01

_came = False


def end_at_once() -> None:
    """While the program is loaded: nothing has begun that would have to be cleaned up."""
    _handle(lambda *_: os._exit(EXIT_CODE))


def raise_once() -> None:
    """From here on Ctrl-C is a KeyboardInterrupt that arrives; a second one ends the process."""
    if _handle(_interrupt):
        signal.signal(signal.SIGALRM, _raise)
        sys.unraisablehook = _unraisable


def came() -> bool:
    """Whether Ctrl-C was pressed."""
    return _came


def leave() -> NoReturn:
    """End the process now: gRPC may wait at Python's end for a call that was broken off."""
    gc.collect()  # a file whose block never began is removed with the generator that holds it
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(EXIT_CODE)


def _handle(handler: Any) -> bool:
    """Have SIGINT handled, unless it is ignored, as in a shell's background job, or the caller's own."""
    ours = (signal.default_int_handler, *_ours)
    if signal.getsignal(signal.SIGINT) not in ours:
        return False
    try:
        signal.signal(signal.SIGINT, handler)
    except ValueError:  # not the main thread
        return False
    _ours.append(handler)
    return True


_ours: list[Any] = []


def _interrupt(number: int, frame: object) -> NoReturn:
    global _came
    if _came:
        os._exit(EXIT_CODE)
    _came = True
    _raise(number, frame)


def _raise(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _unraisable(what: Any) -> None:
    """Python drops what a __del__ or a callback raises, also what a signal has raised in it."""
    if issubclass(what.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
    else:
        sys.__unraisablehook__(what)
