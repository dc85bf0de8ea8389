"""DeepSpeed: an update is a call of `DeepSpeedEngine._take_model_step`, also of pipelines and of updates that
are left out for an overflow.

Of ZeRO its own optimizers step torch's for each group of parameters, or part of one, and gather the weights
afterwards: torch's hooks alone would find the border in the midst of it.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import Marker
from . import between_calls
from .recorder import recorder


def patch(module: Any, marker: Marker) -> None:
    """module: deepspeed.runtime.engine."""
    between_calls.patch(module, marker)
    owner, record = module.DeepSpeedEngine, recorder(marker)
    take = owner._take_model_step

    @functools.wraps(take)
    def _take_model_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        updates = record.updates
        if updates is None:
            return take(self, *args, **kwargs)
        updates.begin_wrapped(self)
        try:
            result = take(self, *args, **kwargs)
        except BaseException:
            updates.failed()
            raise
        updates.end(self)
        return result

    owner._take_model_step = _take_model_step
