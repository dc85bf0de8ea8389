"""PyTorch FSDP, both kinds: where the outermost forward begins and what is reduced in a step.

Its collectives go through the functions of torch.distributed, where collectives.py sees them.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from .. import Marker
from .gradients import report_gradients
from .module import leave_to_python
from .recorder import Recorder, recorder


def patch(module: Any, marker: Marker) -> None:
    """module: torch.distributed.fsdp.fully_sharded_data_parallel, or ._fully_shard._fsdp_state."""
    record = recorder(marker)
    if hasattr(module, "FSDPState"):
        _wrap_state(module.FSDPState, record, module.torch)
    else:
        _wrap_module(module.FullyShardedDataParallel, record, module.torch)


def _wrap_state(owner: Any, record: Recorder, torch: Any) -> None:
    # `fully_shard` gives a module's hooks this method; the root is the one called first.
    before = owner._pre_forward

    @functools.wraps(before)
    def _pre_forward(self: Any, module: Any, args: Any, kwargs: Any) -> Any:
        root = _is_root(self)
        if root is not False:
            _forward_begins(record, torch, args, kwargs)
        result = before(self, module, args, kwargs)
        if root is None and _is_root(self):
            try:
                report_gradients(record, module.parameters())
            except Exception:
                record.failed("torch_fsdp")
                return result
        return result

    leave_to_python(torch, _pre_forward)
    owner._pre_forward = _pre_forward


def _wrap_module(owner: Any, record: Recorder, torch: Any) -> None:
    forward, depth = owner.forward, [0]

    @functools.wraps(forward)
    def marked(self: Any, *args: Any, **kwargs: Any) -> Any:
        first = _is_root(self) is None and depth[0] == 0
        if depth[0] == 0:
            _forward_begins(record, torch, args, kwargs)
        depth[0] += 1
        try:
            return forward(self, *args, **kwargs)
        finally:
            depth[0] -= 1
            if first:
                _report_flat_gradients(record, self)

    leave_to_python(torch, marked)
    owner.forward = marked


def _forward_begins(record: Recorder, torch: Any, args: Any, kwargs: Any) -> None:
    try:
        if torch.is_grad_enabled() and record.in_training_thread():
            now = time.monotonic_ns()
            record.seen("wrapped", now)
            record.forward(now)
            record.batches.passed_arguments(args, kwargs)
    except Exception:
        record.failed("torch_fsdp")


def _is_root(state: Any) -> Any:
    # None before the first forward. Private, so another torch may not have it: then nothing is reported.
    return getattr(state, "_is_root", False)


def _report_flat_gradients(record: Recorder, model: Any) -> None:
    try:
        flat = [h.flat_param for h in model._all_handles if h.flat_param.requires_grad]
        sizes = [p._unpadded_unsharded_size.numel() * p.element_size() for p in flat]
        record.fact("gradient.bytes", sum(sizes))
        record.fact("gradient.tensors", sum(len(p._param_infos) for p in flat))
    except Exception:
        record.failed("torch_fsdp")
