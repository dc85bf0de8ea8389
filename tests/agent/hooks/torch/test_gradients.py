"""The size of the gradients of a rank that is alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from roofline_agent.hooks.torch.gradients import report_of_lone_rank
from roofline_agent.hooks.torch.recorder import Recorder

from ..doubles import RecordingMarker


class Optimizer:
    """Stands for one of torch's."""

    def __init__(self, *parameters: Any) -> None:
        self.param_groups = [{"params": list(parameters)}]


def parameter(elements: int, size: int = 4, trained: bool = True) -> Any:
    return SimpleNamespace(numel=lambda: elements, element_size=lambda: size, requires_grad=trained)


def torch(distributed: bool) -> Any:
    group = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: distributed)
    return SimpleNamespace(distributed=group)


def test_what_all_optimizers_update_counts_once(marker: RecordingMarker, record: Recorder) -> None:
    shared, frozen = parameter(100), parameter(1000, trained=False)
    kept = [Optimizer(shared, parameter(10, size=2)), Optimizer(shared, frozen)]
    for optimizer in kept:
        record.turns.made(optimizer)
    report_of_lone_rank(record, torch(distributed=False))
    assert (marker.facts["gradient.bytes"], marker.facts["gradient.tensors"]) == (420, 2)


def test_without_an_optimizer_nothing_is_known(marker: RecordingMarker, record: Recorder) -> None:
    report_of_lone_rank(record, torch(distributed=False))
    assert "gradient.bytes" not in marker.facts


def test_ranks_that_exchange_them_report_what_they_exchange(
    marker: RecordingMarker, record: Recorder
) -> None:
    kept = Optimizer(parameter(100))
    record.turns.made(kept)
    report_of_lone_rank(record, torch(distributed=True))
    assert "gradient.bytes" not in marker.facts
