"""PyTorch: replays of a CUDA graph that contains the update of an optimizer are steps.

Of a replay only the launch is seen: its phases and collectives are not, and the border stands where the
launch returned. Graphs of a forward or a backward alone need nothing: the training calls its optimizer.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

from .. import Marker
from .by_hand import SEEN_BY
from .phases import WORKS
from .recorder import Recorder, recorder


def patch(module: Any, marker: Marker) -> None:
    """module: torch.cuda.graphs."""
    owner, record = module.CUDAGraph, recorder(marker)
    _wrap_capture(owner, record)
    replay = owner.replay

    @functools.wraps(replay)
    def replay_seen(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self not in record.graphs:
            return replay(self, *args, **kwargs)
        try:
            _replays(record, id(self))
        except Exception:
            record.failed("torch_graphs")
        result = replay(self, *args, **kwargs)
        try:
            record.updated(id(self), time.monotonic_ns())
        except Exception:
            record.failed("torch_graphs")
        return result

    owner.replay = replay_seen


def _replays(record: Recorder, key: int) -> None:
    now = time.monotonic_ns()
    if not record.started:
        record.begun(now)
    if threading.get_ident() == record.thread:
        record.note(WORKS, now)
    record.updating(key)


def _wrap_capture(owner: Any, record: Recorder) -> None:
    begin, end = owner.capture_begin, owner.capture_end

    @functools.wraps(begin)
    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if record.calm is not None:  # hooks of calm steps do not ask whether an update is captured
                record.disturb()
        except Exception:
            record.failed("torch_graphs")
        result = begin(self, *args, **kwargs)
        record.capturing = self
        return result

    @functools.wraps(end)
    def capture_end(self: Any, *args: Any, **kwargs: Any) -> Any:
        record.capturing = None
        result = end(self, *args, **kwargs)
        if self in record.graphs:
            try:
                record.fact(SEEN_BY, "replays of CUDA graphs")
            except Exception:
                record.failed("torch_graphs")
        return result

    owner.capture_begin, owner.capture_end = capture_begin, capture_end
