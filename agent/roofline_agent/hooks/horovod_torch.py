"""Horovod under PyTorch: `_DistributedOptimizer.step` is called exactly once per step."""

from __future__ import annotations

from typing import Any

from . import Marker


def patch(module: Any, marker: Marker) -> None:
    """module: horovod.torch.optimizer."""
    owner = module._DistributedOptimizer
    step = owner.step
    count = [0]

    def marked_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = step(self, *args, **kwargs)
        try:
            marker.border(count[0])
            count[0] += 1
        except Exception:
            return result
        return result

    owner.step = marked_step
