"""Activations that are computed a second time are noticed once, in made-up parts of torch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from roofline_agent.hooks.torch import recompute as torch_recompute

from ..doubles import RecordingMarker

FACT = "setting.recompute"


def checkpoints() -> Any:
    class CheckpointFunction:
        @staticmethod
        def forward(ctx: str, one: int) -> int:
            return one

        @staticmethod
        def backward(ctx: str, one: int) -> tuple[str, int]:
            return ctx, one

    class Again:
        def __init__(self, frame: str, group: int = 0) -> None:
            self.frame, self.group = frame, group

    return SimpleNamespace(CheckpointFunction=CheckpointFunction, _recomputation_hook=Again)


def test_a_backward_that_computes_again_says_so_once(marker: RecordingMarker) -> None:
    module = checkpoints()
    original = module.CheckpointFunction.backward
    torch_recompute.patch(module, marker)  # type: ignore[arg-type]
    assert module.CheckpointFunction.forward("ctx", 1) == 1
    assert FACT not in marker.facts
    assert module.CheckpointFunction.backward("ctx", 2) == ("ctx", 2)
    assert module.CheckpointFunction.backward("ctx", one=3) == ("ctx", 3)
    assert marker.facts[FACT] == "torch.utils.checkpoint"
    assert module.CheckpointFunction.backward is original


def test_the_other_way_too(marker: RecordingMarker) -> None:
    module = checkpoints()
    torch_recompute.patch(module, marker)  # type: ignore[arg-type]
    for group in (1, 2):
        made = module._recomputation_hook("frame", group=group)
        assert (made.frame, made.group) == ("frame", group)
        assert marker.facts.pop(FACT, "said before") == ("torch.utils.checkpoint", "said before")[group - 1]


def test_torch_without_them_is_left_alone(marker: RecordingMarker) -> None:
    torch_recompute.patch(SimpleNamespace(), marker)  # type: ignore[arg-type]
    assert FACT not in marker.facts
