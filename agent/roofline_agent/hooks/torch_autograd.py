"""PyTorch: the backward pass, and the moment in it from which a rank only waits for the others.

The engine runs its final callbacks in the order they were queued. Ours is queued by the first node that runs,
so before those of DDP and FSDP: it fires when all gradients of this rank are there and the waiting begins.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any, List

from . import Marker
from .torch_recorder import BACKWARD, COMMUNICATE, Recorder, recorder


def patch(module: Any, marker: Marker) -> None:
    """module: torch.autograd."""
    run = module.backward
    passes = _Passes(recorder(marker), module)

    @functools.wraps(run)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if not passes.begin(args, kwargs):
            return run(*args, **kwargs)
        try:
            return run(*args, **kwargs)
        finally:
            passes.end()

    module.backward = backward


class _Passes:
    """Outermost backward passes of the training thread."""

    def __init__(self, record: Recorder, module: Any) -> None:
        self._record = record
        self._module = module
        self._running = False
        self._queued = False
        self._hooks: List[Any] = []

    def begin(self, args: Any, kwargs: Any) -> bool:
        """Whether this is such a pass, which end() ends then."""
        record = self._record
        if self._running or (record.started and not record.here()):
            return False
        now = time.monotonic_ns()
        self._running = True
        try:
            if not record.started:
                record.begun(now)
                _settings(record, sys.modules.get("torch"))
            record.batches.backward()
            record.enter(BACKWARD, now)
        except Exception:
            self._running = False
            return False
        if record.waits:
            self._watch(args, kwargs)
        return True

    def end(self) -> None:
        try:
            if self._hooks:
                for hook in self._hooks:
                    hook.remove()
                self._hooks = []
            now = time.monotonic_ns()
            self._record.leave(now)
            if self._record.batches.waiting():  # fetched ahead: the next forward follows at once
                self._record.forward(now)
        except Exception:
            self._record.abandon()
        self._running = False

    def _watch(self, args: Any, kwargs: Any) -> None:
        try:
            self._record.waits -= 1
            self._queued = False
            if _compiled_autograd():
                return
            roots = args[0] if args else kwargs["tensors"]
            for root in roots if isinstance(roots, (list, tuple)) else (roots,):
                node = getattr(root, "grad_fn", None)
                if node is not None:
                    self._hooks.append(node.register_prehook(self._first_node))
        except Exception:
            return

    def _first_node(self, gradients: Any) -> None:
        if self._queued:
            return
        self._queued = True
        try:
            self._module.Variable._execution_engine.queue_callback(self._arrived)
        except Exception:
            return

    def _arrived(self) -> None:
        record = self._record
        try:
            if self._running and record.here():
                record.turn(BACKWARD, COMMUNICATE, time.monotonic_ns())
        except Exception:
            return


def _compiled_autograd() -> bool:
    # It would trace our hook into its graph.
    module = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(module, "compiled_autograd_enabled", False))


def _settings(record: Recorder, torch: Any) -> None:
    try:
        record.fact("setting.torch_version", torch.__version__)
        record.fact("setting.intra_op_threads", torch.get_num_threads())
    except Exception:
        return
