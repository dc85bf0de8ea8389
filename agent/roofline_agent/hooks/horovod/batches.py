"""Horovod under PyTorch, in a loop of tensors without a DataLoader: the examples of a step are the first
dimension of what its first module is called with.

The hook on all modules is set at the border of a step and removed at the first call after it, so that only
that one call pays for it. torch.compile warns of such hooks: from the first code that is compiled on, the
size seen last is taken.
"""

from __future__ import annotations

import sys
from typing import Any, Hashable, Optional, Tuple

from ..signals import raise_again
from ..torch import module as torch_module
from ..torch.batch_sizes import examples_in_call, shapes_in
from ..torch.recorder import Recorder

MODULES = "torch.nn.modules.module"
CALLS = 2000  # without gradients, as of an evaluation, after which the size seen last is taken


class PassedSizes:
    """Batch sizes of one process: of what the first module of a step is called with."""

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._hook: Any = None
        self._off = False
        self._calls = 0  # since the hook was set
        self._last: Optional[Tuple[Optional[int], Hashable]] = None
        torch_module.at_compile.append(self.stop)

    def next_step(self) -> None:
        """A step begins."""
        modules = sys.modules.get(MODULES)
        if self._record.batches.has_loaders() or modules is None:
            self._remove()
        elif self._off:
            self._pass()
        elif self._hook is None:
            self._calls = 0
            self._hook = modules.register_module_forward_pre_hook(self._called)

    def stop(self) -> None:
        """Code is compiled now."""
        self._off = True
        self._remove()

    def _called(self, _: Any, arguments: Any) -> None:
        try:
            self._calls += 1
            if sys.modules["torch"].is_grad_enabled():
                self._last = examples_in_call(arguments), shapes_in(arguments)
            elif self._calls < CALLS:
                return
            self._remove()
            self._pass()
        except Exception:
            raise_again()  # else the number of examples is unknown then

    def _pass(self) -> None:
        if self._last is not None:
            self._record.batches.passed(*self._last)

    def _remove(self) -> None:
        hook, self._hook = self._hook, None
        if hook is not None:
            hook.remove()
