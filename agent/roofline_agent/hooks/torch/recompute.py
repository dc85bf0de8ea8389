"""PyTorch: whether a backward computes activations a second time (torch.utils.checkpoint; from torch 2.1 on
both of its ways). FLOPs that were executed are then more than those of the model.

Said once, at the first time; then the functions are as they were. What is compiled computes a second time
without calling them.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import Marker

# Called when activations are computed again, not when they are thrown away: that, evaluations may do too.
CALLS = (("CheckpointFunction", "backward"), ("_recomputation_hook", "__init__"))
FACT, HOW = "setting.recompute", "torch.utils.checkpoint"


def patch(module: Any, marker: Marker) -> None:
    """module: torch.utils.checkpoint."""
    for owner, name in CALLS:
        place = getattr(module, owner, None)
        if place is not None and name in vars(place):
            _notice(place, name, marker)


def _notice(place: Any, name: str, marker: Marker) -> None:
    original, call = vars(place)[name], getattr(place, name)

    @functools.wraps(call)
    def noticed(*args: Any, **kwargs: Any) -> Any:
        try:
            setattr(place, name, original)
            marker.fact(FACT, HOW)
        except Exception:
            marker.failed("torch_recompute")
        return call(*args, **kwargs)

    setattr(place, name, staticmethod(noticed) if isinstance(original, staticmethod) else noticed)
