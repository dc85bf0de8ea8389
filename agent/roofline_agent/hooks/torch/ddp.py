"""PyTorch DistributedDataParallel: where its forward begins, what it reduces, and when the engine did it.

The buckets go to the process group in C++, where their single times cannot be read. But DDP can take the
times of its first bucket's start and of its last one's end; it has those of the step before, as UNIX time.
"""

from __future__ import annotations

import functools
import os
import time
import weakref
from typing import Any, Mapping, Optional, Tuple

from .. import Marker
from ..signals import raise_again
from .gradients import report_gradients
from .module import at_compile, leave_to_python
from .phases import FORWARDS
from .recorder import Recorder, recorder

SHARE = 2000  # asking DDP for its times (some 25 us) may take one part in so many of the time between
ALWAYS = 16  # of the first steps it is asked whatever that takes


def patch(module: Any, marker: Marker) -> None:
    """module: torch.nn.parallel.distributed."""
    owner, record = module.DistributedDataParallel, recorder(marker)
    init = owner.__init__

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        try:
            _report_settings(self, record)
            _watch_a_gradient(self.module, record)
            times = _ReductionTimes(self, record)
            if times.switch_on():
                record.at_border(times)
        except Exception:
            record.failed("torch_ddp")

    owner.__init__ = __init__
    _wrap_forward(owner, record, module.torch)
    if not hasattr(owner, "_sync_buffers"):
        return
    # The other ranks wait here for rank 0's buffers (of batch normalisation), before their forward.
    sync = owner._sync_buffers

    @functools.wraps(sync)
    def _sync_buffers(self: Any, *args: Any, **kwargs: Any) -> Any:
        begin = record.waits_from(time.monotonic_ns())
        result = sync(self, *args, **kwargs)
        try:
            if record.in_training_thread():
                record.blocked(begin, time.monotonic_ns())
        except Exception:
            record.failed("torch_ddp")
        return result

    owner._sync_buffers = _sync_buffers


def _watch_a_gradient(model: Any, record: Recorder) -> None:
    """The last parameter is mostly the first that has its gradient. What is compiled must not have our hook
    in it."""
    trained = [p for p in model.parameters() if p.requires_grad]
    register = getattr(trained[-1], "register_post_accumulate_grad_hook", None) if trained else None
    if register is not None and record.gradient_came is not None:
        at_compile.append(register(record.gradient_came).remove)


def _report_settings(model: Any, record: Recorder) -> None:
    report_gradients(record, model.module.parameters())
    record.fact("setting.bucket_cap_mb", "%g" % (model.bucket_bytes_cap / 2**20))
    for name in ("find_unused_parameters", "gradient_as_bucket_view", "static_graph", "broadcast_buffers"):
        if getattr(model, name, None) is not None:
            record.fact("setting.ddp_" + name, str(getattr(model, name)).lower())


def _wrap_forward(owner: Any, record: Recorder, torch: Any) -> None:
    forward, clock, has_gradients = owner.forward, time.monotonic_ns, torch.is_grad_enabled

    @functools.wraps(forward)
    def marked(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        begins(self, inputs, kwargs)
        return forward(self, *inputs, **kwargs)

    def begins(model: Any, inputs: Any, kwargs: Any) -> None:
        try:
            if has_gradients() and record.in_training_thread():
                now = clock()
                if record.calm is not None and record.batches.queues:
                    record.calm((FORWARDS, now))
                else:
                    record.seen("wrapped", now)
                    record.forward(now)
                    record.batches.passed_arguments(inputs, kwargs)
                if model.require_backward_grad_sync:
                    record.waits += 1
                if record.sampled:
                    record.spent += clock() - now
        except Exception:
            record.failed("torch_ddp")

    leave_to_python(torch, marked)
    owner.forward = marked


class _ReductionTimes:
    """Asks one DDP module, at borders, for the times of its last reduction but one."""

    def __init__(self, model: Any, record: Recorder) -> None:
        self._model: Any = weakref.ref(model)
        self._record = record
        self._last = 0
        self._not_before = self._asked = 0
        self._cost = 1 << 62

    def switch_on(self) -> bool:
        """Have DDP take its times in every step; False where they would be useless, or printed."""
        model = self._model()
        if os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper() != "OFF":
            return False
        if any(p.device.type != "cpu" for p in model.module.parameters()):
            return False  # the times are those of the launches, not of the GPU
        model._set_ddp_runtime_logging_sample_rate(1)
        return True

    @property
    def may_wait(self) -> bool:
        """Whether it is enough to ask now and then."""
        return self._asked >= ALWAYS

    def __call__(self, now: int) -> None:
        model = self._model()
        if model is None or now < self._not_before:
            return
        try:
            span = reduced(model._get_ddp_logging_data(), time.time_ns() - time.monotonic_ns())
            if span is not None and self._last < span[0] <= span[1] <= now:
                begin, end, size, count = span
                self._last = begin
                self._record.collective("asked.allreduce", begin, begin, size, count)
                self._record.collective("engine.allreduce", begin, end, size, count)
        except Exception:
            raise_again()
            self._not_before = 1 << 62  # this DDP has none: ask no more
            return
        self._cost = min(self._cost, time.monotonic_ns() - now)
        self._asked += 1
        if self._asked >= ALWAYS:
            self._not_before = now + SHARE * self._cost


def reduced(data: Mapping[str, Any], epoch_ns: int) -> Optional[Tuple[int, int, int, int]]:
    """Begin, end (monotonic ns), bytes and number of the buckets in DDP's logging data.

    epoch_ns: UNIX time when the monotonic clock was 0. None when no times were taken.
    """
    begin, end = data.get("backward_comm_time_start", 0), data.get("backward_comm_time_end", 0)
    sizes = data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes", "")
    buckets = [int(size) for size in str(sizes).split(",") if size.strip()]
    if not (begin and end and buckets):
        return None
    return begin - epoch_ns, end - epoch_ns, sum(buckets), int(data.get("num_buckets_reduced", len(buckets)))
