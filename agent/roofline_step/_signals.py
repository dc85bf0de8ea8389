"""What a signal's handler raises (a time limit, a preemption, a DataLoader whose worker died) is meant for
the training, also if the signal came while our code ran: nothing of ours may swallow it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import List


def raise_again() -> None:
    """For an `except` that swallows errors: raise the exception again if a signal's handler raised it."""
    trace = sys.exc_info()[2]
    while trace is not None:
        if _is_handler(trace.tb_frame):
            raise
        trace = trace.tb_next


def _is_handler(frame: FrameType) -> bool:
    """Whether it was called as a handler is: with the number of a signal and the frame that was interrupted.
    Those that are installed now may not have it any more."""
    interrupted, code = frame.f_back, frame.f_code
    if interrupted is None:
        return False
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 1]  # the last: of *args
    arguments: List[object] = []
    for name in names:
        value = frame.f_locals.get(name)
        arguments += value if type(value) is tuple else (value,)
    pairs = zip(arguments, arguments[1:])  # noqa: B905, RUF007 - Python 3.8
    return any(isinstance(number, int) and value is interrupted for number, value in pairs)
