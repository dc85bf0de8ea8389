"""Which ranks work on the same batch, by made-up modules of torch.distributed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks.torch import shared_batch

from ..doubles import RecordingMarker


class Mesh:
    def __init__(self, ranks: int) -> None:
        self.ranks = ranks

    def size(self) -> int:
        return self.ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_of_a_tensor_parallel_model(marker: RecordingMarker, ranks: int) -> None:
    def parallelize_module(model: Any, device_mesh: Any = None, parallelize_plan: Any = None) -> Any:
        return model, parallelize_plan

    module = SimpleNamespace(parallelize_module=parallelize_module)
    shared_batch.patch(module, marker)  # type: ignore[arg-type]
    assert module.parallelize_module("m", Mesh(ranks), "plan") == ("m", "plan")
    assert marker.facts.get("setting.tensor_parallel") == (2 if ranks == 2 else None)
    assert module.parallelize_module("m", parallelize_plan="plan") == ("m", "plan")
    assert module.parallelize_module("m", "no mesh") == ("m", None)


def test_ranks_of_a_pipeline(marker: RecordingMarker) -> None:
    class Base:
        def __init__(self, stage: int, group: int) -> None:
            self.stage, self.group_size = stage, group

    class Stage(Base):
        pass

    shared_batch.patch(SimpleNamespace(_PipelineStageBase=Base), marker)  # type: ignore[arg-type]
    assert Stage(3, group=4).stage == 3
    assert marker.facts["setting.pipeline_parallel"] == 4
