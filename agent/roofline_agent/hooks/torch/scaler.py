"""PyTorch: a GradScaler leaves out the update of an optimizer whose gradients overflowed.

The iteration did all its work but that, so it is a step, as with optimizers that look for overflows.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from .. import Marker
from .recorder import recorder


def patch(module: Any, marker: Marker) -> None:
    """module: torch.amp.grad_scaler."""
    owner, record = module.GradScaler, recorder(marker)
    step = owner.step

    @functools.wraps(step)
    def scaled_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        updates = record.updates
        before = record.updates_begun
        result = step(self, optimizer, *args, **kwargs)
        try:
            if updates is not None and record.updates_begun == before:
                updates.skipped(optimizer, time.monotonic_ns())
        except Exception:
            record.failed("torch_scaler")
        return result

    owner.step = scaled_step
