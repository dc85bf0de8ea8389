"""PyTorch: how many ranks work on the same batch, as by tensor and by pipeline parallelism."""

from __future__ import annotations

import functools
from typing import Any

from .. import Marker
from .recorder import recorder


def patch(module: Any, marker: Marker) -> None:
    """module: torch.distributed.tensor.parallel.api, or torch.distributed.pipelining.stage."""
    record = recorder(marker)

    def found(name: str, ranks: Any) -> None:
        if isinstance(ranks, int) and ranks > 1:
            record.fact("setting." + name, ranks)

    if hasattr(module, "parallelize_module"):
        _wrap_parallelize(module, record, found)
    else:
        _wrap_stage(module._PipelineStageBase, record, found)


def _wrap_parallelize(module: Any, record: Any, found: Any) -> None:
    parallelize = module.parallelize_module

    @functools.wraps(parallelize)
    def parallelize_module(*args: Any, **kwargs: Any) -> Any:
        result = parallelize(*args, **kwargs)
        try:
            mesh = kwargs.get("device_mesh", args[1] if len(args) > 1 else None)
            if mesh is not None:
                found("tensor_parallel", mesh.size())
        except Exception:
            record.failed("torch_shared_batch")
        return result

    module.parallelize_module = parallelize_module


def _wrap_stage(owner: Any, record: Any, found: Any) -> None:
    make = owner.__init__

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        try:
            found("pipeline_parallel", getattr(self, "group_size", None))
        except Exception:
            record.failed("torch_shared_batch")

    owner.__init__ = __init__
