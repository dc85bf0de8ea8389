"""Operations of TensorFlow on the CPU as launches: with their layers, and FLOPs where their shapes tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...by_shape.tensorflow_operators import TensorFlowOperation, TensorFlowWork, inputs_of
from ..recording import Launch
from .operators import BY_SHAPES
from .tf_layers import TensorFlowLayers
from .xplane_host import RECEIVE, SEND, HostOperation

LIBRARY = "tensorflow"
WAITING = "waiting"  # variant of what is no work: a tensor is received, input or other ranks are waited for
RECEIVED, SENT, INPUT, COLLECTIVE = "RecvTensor", "SendTensor", "input", "collective"
CONTROL = "ControlEdges"  # in the name of what only says that something was done: here, updates of variables
UPDATED = "updates on servers"


def launches_of(operations: Sequence[HostOperation]) -> Iterator[Launch]:
    """What was computed or sent. A tensor that goes to another process belongs to no layer of the model."""
    layers = TensorFlowLayers((one.name, one.kind) for one in operations)
    shaped = [
        TensorFlowOperation(one.name, one.kind, layers.of(one.name), inputs_of(one.shapes))
        for one in operations
    ]
    work = TensorFlowWork(list(dict.fromkeys(shaped)))
    for one, known in zip(operations, shaped, strict=True):
        launch = _launch(one, f"({SENT})" if one.peer else known.layer)
        found = work.of(known)
        if found is not None:
            moved = {} if found.bytes is None else {"minimum": found.bytes}
            launch = launch._replace(
                flops=found.flops, bytes=moved, precision=found.precision, note=BY_SHAPES
            )
        yield launch


def waits_of(waits: Iterable[HostOperation]) -> Iterator[Launch]:
    """What was waited for: a tensor of another process, input, other ranks."""
    # A tensor of this process itself was received at once, or from another device of it.
    return (_wait(one) for one in waits if one.peer or one.kind != RECEIVE)


def _wait(one: HostOperation) -> Launch:
    if one.kind.startswith("Iterator"):
        what = INPUT
    elif one.kind.startswith("Collective"):
        what = COLLECTIVE
    else:
        what = UPDATED if CONTROL in one.name else RECEIVED
    return _launch(one, f"({what})")._replace(variant=WAITING)


def _launch(one: HostOperation, layer: str) -> Launch:
    name = {RECEIVE: RECEIVED, SEND: SENT}.get(one.kind, one.kind)
    way = "to" if one.kind == SEND else "from"
    problem = f"{one.name} {way} {one.peer}" if one.peer else one.name
    return Launch(
        name, max(0.0, one.time_s), start_s=one.begin_s, library=LIBRARY, problem=problem, layer=layer
    )
