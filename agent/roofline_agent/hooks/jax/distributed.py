"""JAX: which rank this process is, from what it gives to jax.distributed.initialize."""

from __future__ import annotations

import functools
from typing import Any

from .. import Marker


def patch(module: Any, marker: Marker) -> None:
    """module: jax._src.distributed."""
    initialise = module.State.initialize

    @functools.wraps(initialise)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = initialise(self, *args, **kwargs)
        try:
            marker.variables(
                JAX_PROCESS_ID=self.process_id,
                JAX_NUM_PROCESSES=self.num_processes,
                JAX_COORDINATOR_ADDRESS=self.coordinator_address or "",
            )
        except Exception:
            marker.failed("jax_distributed")
        return found

    module.State.initialize = initialize
