"""DDP's hook: sizes, forwards, and the times that DDP takes itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from roofline_agent.hooks.torch import ddp as torch_ddp
from roofline_agent.hooks.torch.recorder import Recorder

from ..doubles import RecordingMarker, ddp_module, parameter, tensor, use


def test_ddps_times_become_one_reduction() -> None:
    data = {"rebuilt_bucket_sizes": "100, 300", "bucket_sizes": "400", "num_buckets_reduced": 2}
    times = {"backward_comm_time_start": 1_000_500, "backward_comm_time_end": 1_000_900}
    assert torch_ddp.reduced({**data, **times}, 1_000_000) == (500, 900, 400, 2)
    assert torch_ddp.reduced(data, 0) is None
    assert torch_ddp.reduced(times, 0) is None


def test_ddp_reports_what_it_reduces_and_waits_only_when_it_will(
    record: Recorder, marker: RecordingMarker
) -> None:
    module = ddp_module()
    torch_ddp.patch(module, marker)  # type: ignore[arg-type]
    model = module.DistributedDataParallel(SimpleNamespace(parameters=lambda: [parameter(10), parameter(5)]))
    assert (marker.facts["gradient.bytes"], marker.facts["gradient.tensors"]) == (60, 2)
    assert marker.facts["setting.bucket_cap_mb"] == "25"
    assert model.rate == 1
    assert model.forward(tensor(6)) == (tensor(6),)
    assert record.waits == 1
    model.require_backward_grad_sync = False
    model.forward(tensor(6))
    assert record.waits == 1
    assert use(record.batches) == 6


def test_ddp_on_a_gpu_or_debugged_is_not_asked_for_times(
    marker: RecordingMarker, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ddp_module()
    torch_ddp.patch(module, marker)  # type: ignore[arg-type]
    model = module.DistributedDataParallel(SimpleNamespace(parameters=lambda: [parameter(10, "cuda")]))
    assert not hasattr(model, "rate")
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    model = module.DistributedDataParallel(SimpleNamespace(parameters=lambda: [parameter(10)]))
    assert not hasattr(model, "rate")
