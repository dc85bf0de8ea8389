"""Horovod under PyTorch: `_DistributedOptimizer.step` is called exactly once per step.

In `synchronize` the rank waits for the gradients of all others, whether `step` calls it or the training does
(to clip gradients). The Adasum optimizer waits in the middle of its step: its phases are not known.
"""

from __future__ import annotations

import functools
import time
from typing import Any, Callable, Optional

from .. import Marker
from ..signals import raise_again
from ..torch.recorder import Recorder, recorder
from .batches import PassedSizes

_now = time.monotonic_ns


def patch(module: Any, marker: Marker) -> None:
    """module: horovod.torch.optimizer."""
    record = recorder(marker)
    sizes = PassedSizes(record)
    _patch_init(module._DistributedOptimizer, record, sizes)
    _patch_step(module._DistributedOptimizer, record, sizes)
    synchronize: Optional[Callable[..., Any]] = getattr(module._DistributedOptimizer, "synchronize", None)
    if synchronize is not None:
        wait = synchronize

        def timed_synchronize(self: Any, *args: Any, **kwargs: Any) -> Any:
            begin = record.waits_from(_now())
            result = wait(self, *args, **kwargs)
            try:
                if record.in_training_thread():
                    record.blocked(begin, _now())
            except Exception:
                record.failed("horovod_torch")
            return result

        module._DistributedOptimizer.synchronize = timed_synchronize
    adasum = getattr(module, "_DistributedAdasumOptimizer", None)
    if adasum is not None:
        _patch_init(adasum, record, sizes)
        _patch_step(adasum, record, sizes)


def _patch_init(owner: Any, record: Recorder, sizes: PassedSizes) -> None:
    # Imported is not used: only when such an optimizer is made do torch's own hooks leave the steps to it.
    init = vars(owner).get("__init__")
    if init is None:
        return

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        record.by_horovod = True
        _try(sizes.next_step)

    owner.__init__ = __init__


def _patch_step(owner: Any, record: Recorder, sizes: PassedSizes) -> None:
    step = owner.step

    def marked_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        record.by_horovod = True  # one that was copied or unpickled was not made here
        try:
            record.updating(id(self))
        except Exception:
            record.failed("horovod_torch")
        try:
            result = step(self, *args, **kwargs)
        except BaseException:
            record.abandon()
            raise
        try:
            now = _now()
            record.updated(id(self), record.account.read(now) if record.account.on else now)
        except Exception:
            record.failed("horovod_torch")
        _try(sizes.next_step)
        return result

    owner.step = marked_step


def _try(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception:
        raise_again()  # else the number of examples is unknown then, and the step counts all the same
