"""PyTorch: the backward pass, and the moment in it from which a rank only waits for other ranks.

The engine runs its final callbacks in the order they were queued. Ours is queued by the first node that runs,
so before those of DDP and FSDP: it fires when all gradients of this rank are there and the waiting begins.
Finding that node in each graph takes as long as everything else; so once a parameter of DDP has been seen to
get its gradient in a pass, its hook, which stays, queues the callback instead.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from typing import Any, List

from .. import Marker
from .calm import PASSED
from .gradients import report_of_lone_rank
from .phases import BACKWARDS, FORWARDS, GRADIENTS_READY, LEAVES
from .recorder import MOST_EVENTS, Recorder, recorder

IN_BACKWARD = -1  # the key (Recorder.updated) of all optimizers that step inside a backward

_now, _thread = time.monotonic_ns, threading.get_ident


def patch(module: Any, marker: Marker) -> None:
    """module: torch.autograd."""
    run, record = module.backward, recorder(marker)
    passes = _BackwardPasses(record, module)
    begin, end, clock, thread = passes.begin, passes.end, _now, _thread
    other = record.training_thread.other

    @functools.wraps(run)
    def backward(*args: Any, **kwargs: Any) -> Any:
        log = record.calm
        if log is None or record.in_backward or thread() != record.thread:
            if not begin(args, kwargs):
                try:
                    return run(*args, **kwargs)
                finally:
                    if other.thread == thread():
                        other.passed(clock())
            try:
                record.in_backward = True
                return run(*args, **kwargs)
            finally:
                record.in_backward = False
                end(args[0] if args else kwargs.get("tensors"))
        now = clock()
        log((BACKWARDS, now))
        watches = record.waits
        if watches:
            passes.watch(args, kwargs)
        if record.sampled:
            record.spent += clock() - now
        try:
            record.in_backward = True
            return run(*args, **kwargs)
        finally:
            # First: a signal's handler may raise in any of the calls that follow.
            record.in_backward = False
            # Behind a backward nearly nothing is in the caches.
            log = record.calm
            if log is None:  # something in it was unusual
                end(args[0] if args else kwargs.get("tensors"))
            else:
                now = clock()
                if watches:
                    now = record.waited(now) if record.waiting else now
                    passes.unwatch()
                log((PASSED, now))
                if record.sampled:
                    record.spent += clock() - now

    record.backward_code = backward.__code__  # type: ignore[attr-defined]
    module.backward = backward


class _BackwardPasses:
    """Outermost backward passes of the training thread."""

    __slots__ = ("_hooks", "_module", "_queued", "_record", "_stays", "_trusts", "_watches")

    def __init__(self, record: Recorder, module: Any) -> None:
        self._record = record
        self._module = module
        self._watches = self._queued = False
        self._hooks: List[Any] = []
        self._stays = False  # the hook that stays ran in the last pass that was watched
        self._trusts = True  # it has never been missing where it was relied on
        record.gradient_came = self._gradient_came

    def begin(self, args: Any, kwargs: Any) -> bool:
        """Whether this is an outermost pass of the training thread; end() must follow then."""
        record = self._record
        if record.in_backward and record.is_in_backward(sys._getframe(2)):
            return False
        if record.started and _thread() != record.thread and not self._takes_over():
            return False
        if record.calm is not None:
            record.disturb()
        now = _now()
        try:
            if not record.started:
                record.begun(now)
                _report_settings(record, sys.modules.get("torch"))
            elif record.between.since is not None:
                record.trains_again()
            if record.moves:
                record.training_thread.goes_on()
            if record.by_hand is not None:
                record.by_hand.begins()
            record.batches.backward()
            record.event(BACKWARDS)
            record.at(now)
            if len(record.times) > MOST_EVENTS:
                record.settle()
        except Exception:
            record.failed("torch_autograd")
            return False
        if record.waits:
            self.watch(args, kwargs)
        if record.sampled:
            record.spent += _now() - now
        return True

    def _takes_over(self) -> bool:
        try:
            return self._record.training_thread.is_replaced(_now())
        except Exception:
            self._record.failed("torch_autograd")
            return False

    def end(self, roots: Any = None) -> None:
        record = self._record
        try:
            self.unwatch()
            now = _now()
            if record.waiting:
                now = record.waited(now)
            record.event(LEAVES)
            record.at(now)
            if record.batches.waiting():  # fetched ahead: the next forward follows at once
                record.note(FORWARDS, now)
            if record.updated_in_backward:
                record.updated_in_backward = False
                record.updating(IN_BACKWARD)
                record.updated(IN_BACKWARD, now)
            elif record.by_hand is not None:
                record.by_hand.ended(now, roots)
            if record.sampled:
                record.spent += _now() - now
        except Exception:
            record.failed("torch_autograd")
            record.abandon()

    def watch(self, args: Any, kwargs: Any) -> None:
        """Have it noted when all gradients of the pass that begins are there: its end is waiting."""
        try:
            self._record.waits -= 1
            self._watches, self._queued = True, False
            if self._stays:
                return
            compiled = sys.modules.get("torch._dynamo.compiled_autograd")
            if getattr(compiled, "compiled_autograd_enabled", False):
                return  # it would trace our hook into its graph
            roots = args[0] if args else kwargs["tensors"]
            for root in roots if isinstance(roots, (list, tuple)) else (roots,):
                node = getattr(root, "grad_fn", None)
                if node is not None:
                    self._hooks.append(node.register_prehook(self._first_node_runs))
        except Exception:
            self._record.failed("torch_autograd")

    def unwatch(self) -> None:
        if not self._watches:
            return
        self._watches = False
        if self._stays and not self._queued:
            self._stays = self._trusts = False
        if self._hooks:
            for hook in self._hooks:
                hook.remove()
            self._hooks = []

    def _gradient_came(self, parameter: Any) -> None:
        """A parameter of DDP has its gradient: one of the first, as it is one of the last layers'."""
        if self._watches:
            self._stays = self._trusts
            self._first_node_runs(None)

    def _first_node_runs(self, gradients: Any) -> None:
        if self._queued:
            return
        self._queued = True
        try:
            self._module.Variable._execution_engine.queue_callback(self._gradients_ready)
        except Exception:
            self._record.failed("torch_autograd")

    def _gradients_ready(self) -> None:
        record = self._record
        try:
            if not record.in_backward or not record.in_training_thread():
                return
            now = _now()
            if record.calm is not None:
                if record.account.on:
                    record.waiting, now = True, record.waits_from(now)
                record.calm((GRADIENTS_READY, now))
            else:
                record.gradients_ready(now)
            if record.sampled:
                record.spent += _now() - now
        except Exception:
            record.failed("torch_autograd")


def _report_settings(record: Recorder, torch: Any) -> None:
    try:
        record.fact("setting.torch_version", torch.__version__)
        record.fact("setting.intra_op_threads", torch.get_num_threads())
        on_gpu = torch.cuda.is_initialized()
        record.fact("setting.device", "cuda" if on_gpu else "cpu")
        if on_gpu:
            record.computes_elsewhere()
        report_of_lone_rank(record, torch)
    except Exception:
        record.failed("torch_autograd")
