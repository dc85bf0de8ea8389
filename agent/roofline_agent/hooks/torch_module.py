"""PyTorch: when the first module was called with gradients on. Without a DataLoader, step 0 begins there.

The hook on all modules is removed then. torch.compile warns of such hooks, so it removes ours before, and the
first code that dynamo compiles is taken instead.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from . import Marker
from .torch_recorder import recorder

CALLS = 2000  # without gradients: a process that evaluates only

_waiting: Any = []


def patch(module: Any, marker: Marker) -> None:
    """module: torch.nn.modules.module, torch._dynamo.eval_frame or torch._dynamo.convert_frame."""
    if hasattr(module, "register_module_forward_pre_hook"):
        _wait_for_call(module, marker)
    elif hasattr(module, "CatchErrorsWrapper"):
        _wait_for_compiler(module, marker)
    else:
        compiling = module._TorchDynamoContext.__call__

        @functools.wraps(compiling)
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            _stop_waiting()
            return compiling(self, *args, **kwargs)

        module._TorchDynamoContext.__call__ = __call__


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
            return

    _waiting.append(module.register_module_forward_pre_hook(called))


def _stop_waiting() -> None:
    while _waiting:
        _waiting.pop().remove()


def _wait_for_compiler(module: Any, marker: Marker) -> None:
    owner, record = module.CatchErrorsWrapper, recorder(marker)
    compiling = owner.__call__

    @functools.wraps(compiling)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if module.torch.is_grad_enabled():
            record.seen("module", time.monotonic_ns())
            owner.__call__ = compiling
        return compiling(self, *args, **kwargs)

    owner.__call__ = __call__
