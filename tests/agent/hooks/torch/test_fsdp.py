"""FSDP's hook on a made-up module."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks.torch import fsdp as torch_fsdp
from roofline_agent.hooks.torch.recorder import Recorder

from ..doubles import RecordingMarker, grad_is, parameter, tensor


@pytest.mark.parametrize("private", [{"_is_root": None}, {}], ids=["as it is", "renamed"])
def test_fully_sharded_forward_goes_on_when_a_private_name_is_gone(
    marker: RecordingMarker, record: Recorder, private: dict[str, Any]
) -> None:
    class FSDPState:
        def __init__(self) -> None:
            vars(self).update(private)

        def _pre_forward(self, module: Any, args: Any, kwargs: Any) -> Any:
            if private:
                self._is_root = True
            return args

    class FullyShardedDataParallel(FSDPState):
        _all_handles = ()

        def forward(self, *args: Any) -> Any:
            return self._pre_forward(self, args, {})

    model = SimpleNamespace(parameters=lambda: [parameter(10)])
    state = SimpleNamespace(FSDPState=FSDPState, torch=grad_is(True))
    whole = SimpleNamespace(FullyShardedDataParallel=FullyShardedDataParallel, torch=grad_is(True))
    torch_fsdp.patch(state, marker)  # type: ignore[arg-type]
    assert FSDPState()._pre_forward(model, (tensor(6),), {}) == (tensor(6),)
    assert marker.facts.get("gradient.bytes") == (40 if private else None)
    torch_fsdp.patch(whole, marker)  # type: ignore[arg-type]
    assert FullyShardedDataParallel().forward(tensor(6)) == (tensor(6),)
