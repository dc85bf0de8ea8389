"""PyTorch: how large the gradients of a step are, which is what several ranks would exchange."""

from __future__ import annotations

from typing import Any, Iterable

from .recorder import Recorder


def report_gradients(record: Recorder, parameters: Iterable[Any]) -> None:
    """Report the size of the gradients of these; a sharded parameter counts the elements of the whole."""
    trained = [p for p in parameters if p.requires_grad]
    record.fact("gradient.bytes", sum(p.numel() * p.element_size() for p in trained))
    record.fact("gradient.tensors", len(trained))


def report_of_lone_rank(record: Recorder, torch: Any) -> None:
    """Report the size of all gradients where nobody else reports them, as no other rank has a part in
    them."""
    distributed = torch.distributed
    parameters = record.turns.parameters()
    if parameters and not (distributed.is_available() and distributed.is_initialized()):
        report_gradients(record, parameters)
