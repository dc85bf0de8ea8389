"""PyTorch: when the first module was called with gradients on, and when models go into eval mode and back.

Without a DataLoader, step 0 begins with that call. Between two steps `model.eval()` begins an evaluation.
The hook on all modules is removed then. torch.compile warns of such hooks, so it removes ours before, and the
first code that dynamo compiles is taken instead. It refuses code that calls a function of ours, so once
anything is compiled modes are followed no more.
"""

from __future__ import annotations

import functools
import time
from typing import Any, Callable, List

from .. import Marker
from ..signals import raise_again
from .recorder import Recorder, recorder

CALLS = 2000  # without gradients: a process that evaluates only

_waiting: Any = []
at_compile: List[Callable[[], None]] = []  # called before code is compiled
compiles = [False]  # whether any was


def patch(module: Any, marker: Marker) -> None:
    """module: torch.nn.modules.module, or trace_rules, eval_frame or convert_frame of torch._dynamo."""
    if hasattr(module, "register_module_forward_pre_hook"):
        _wait_for_call(module, marker)
        _follow_modes(module, recorder(marker))
    elif hasattr(module, "SKIP_DIRS"):
        # Hooks that compiled code calls, as an optimizer's, run as they are.
        for package in (__name__.rsplit(".", 2)[0], "roofline_step"):
            module.add(package)
    elif hasattr(module, "CatchErrorsWrapper"):
        _wait_for_compiler(module, marker)
        if hasattr(module, "fullgraph_capture"):  # torch.export's way in
            _give_way_before(module, "fullgraph_capture")
    else:
        _give_way_before(module._TorchDynamoContext, "__call__")


def _give_way_before(place: Any, name: str) -> None:
    """Have no hook of ours in what this function compiles."""
    compiling = getattr(place, name)

    @functools.wraps(compiling)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        _compiles()
        return compiling(*args, **kwargs)

    setattr(place, name, compiled)


def _wait_for_call(module: Any, marker: Marker) -> None:
    record, calls = recorder(marker), [0]

    def called(*_: Any) -> None:
        try:
            calls[0] += 1
            if module.torch.is_grad_enabled():
                record.seen("module", time.monotonic_ns())
            elif calls[0] < CALLS:
                return
            _stop_waiting()
        except Exception:
            record.failed("torch_module")

    _waiting.append(module.register_module_forward_pre_hook(called))


def _stop_waiting() -> None:
    while _waiting:
        _waiting.pop().remove()


def _compiles() -> None:
    _stop_waiting()
    _call_at_compile()


def _call_at_compile() -> None:
    compiles[0] = True
    for call in at_compile[:]:  # some remove themselves
        call()


def _wait_for_compiler(module: Any, marker: Marker) -> None:
    owner, record = module.CatchErrorsWrapper, recorder(marker)
    compiling = owner.__call__

    @functools.wraps(compiling)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if module.torch.is_grad_enabled():
            record.seen("module", time.monotonic_ns())
            owner.__call__ = compiling
        _call_at_compile()
        return compiling(self, *args, **kwargs)

    owner.__call__ = __call__


def _follow_modes(module: Any, record: Recorder) -> None:
    owner, inside = module.Module, [False]
    train = owner.train

    @functools.wraps(train)
    def followed(self: Any, mode: bool = True) -> Any:
        if inside[0]:  # it calls itself for each part of the model
            return train(self, mode)
        inside[0] = True
        try:
            return train(self, mode)
        finally:
            inside[0] = False
            _mode_changed(record, mode)

    def stop() -> None:
        if owner.train is followed:
            owner.train = train

    owner.train = followed
    at_compile.append(stop)


def _mode_changed(record: Recorder, mode: bool) -> None:
    try:
        between = record.between
        if not record.in_training_thread():
            return
        if mode:
            if between.since is not None:
                record.evaluated(time.monotonic_ns())
        elif between.since is None and record.in_head():
            between.since = time.monotonic_ns()
    except Exception:
        record.failed("torch_module")


def leave_to_python(torch: Any, function: Any) -> None:
    """Have torch.compile run this function's own frame as it is; what it calls is compiled as ever."""
    try:
        torch._C._dynamo.eval_frame.skip_code(function.__code__)
    except Exception:
        raise_again()  # else a torch without it, which compiles the function with the rest
