"""TensorFlow parameter servers: workers and servers, whose processes only join a server, can be traced, and
their kernels are recorded for some of the time.

Their steps begin and end in the chief, so no border of a step is ever seen here: a thread checks whether a
trace was requested, and whether kernels are.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any, Optional

from .. import Marker
from ..kernel_switch import TimedSwitch

LOOK_S = 0.25
NO_LAYERS = "a parameter server has no layers; what workers receive of it is in their traces"

_watched = [False]


def patch(module: Any, marker: Marker) -> None:
    """module: tensorflow.python.training.server_lib."""
    join = module.Server.join

    @functools.wraps(join)
    def joins(self: Any) -> Any:
        if not _watched[0]:
            _watched[0] = True
            serves = getattr(getattr(self, "server_def", None), "job_name", "") == "ps"
            watching = threading.Thread(
                target=_watch, args=(marker, serves), name="roofline-trace", daemon=True
            )
            watching.start()
        return join(self)

    module.Server.join = joins


def _watch(marker: Marker, serves: bool) -> None:
    tracing, kernels = marker.tracing, marker.timed_switch()
    tracing.framework = "tensorflow"
    while not tracing.has_borders:
        if tracing.is_due and serves:
            tracing.refuse(NO_LAYERS)
        elif tracing.is_due:
            tracing.record_time()
        kernels = _with_kernels(marker, kernels)
        time.sleep(LOOK_S)
    if kernels is not None:
        kernels.stop()


def _with_kernels(marker: Marker, kernels: Optional[TimedSwitch]) -> Optional[TimedSwitch]:
    """Record kernels while they are wanted; None: from now on there is nothing to do for that."""
    try:
        if kernels is not None:
            kernels.look()
            return None if kernels.is_over else kernels
    except Exception:
        marker.failed("tf_server")
    return None
