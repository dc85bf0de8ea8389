"""Recurrent layers: the matrix products of vanilla RNN, LSTM, GRU and their kin, forward and backward."""

from __future__ import annotations

import re
from typing import NamedTuple

from .primitive import UNKNOWN, Primitive, PrimitiveWork
from .sizes import sizes
from .traffic import traffic

_CELL = re.compile(r"alg:(vanilla|lbr)_(lstm|gru|augru|rnn)")
_GATES = {"lstm": 4, "gru": 3, "augru": 3, "rnn": 1}
_WITHOUT_STATES = "traffic without cell states and workspace, which the line does not show"


class _Layers(NamedTuple):
    """Sizes as oneDNN names them: layers, time, batch, channels of state, of input, hidden and of output."""

    l: int  # noqa: E741
    t: int
    mb: int
    sic: int
    slc: int
    dhc: int
    dic: int
    directions: int
    gates: int
    biases: int
    is_concatenated: bool


def rnn(primitive: Primitive) -> PrimitiveWork:
    """2 x gates x hidden x (input + state) a row, layer, step and direction; backward does twice as much.

    Gates: 4 in LSTM, 3 in GRU and AUGRU, 1 in a vanilla RNN. A projection adds 2 x hidden x output. The
    weights are one tensor for all layers and directions, so these have the same size. Activations, gates'
    products and the attention of AUGRU are not counted.
    """
    layers = _layers(primitive)
    if layers is None:
        return UNKNOWN
    per_row = layers.gates * layers.dhc * (layers.slc + layers.sic)
    if any("proj" in tensor.role for tensor in primitive.tensors):
        per_row += layers.dhc * layers.dic
    rows = layers.l * layers.t * layers.mb * layers.directions
    passes = 2 if primitive.variant.startswith("backward") else 1
    moved = _traffic(primitive, layers)
    note = "matrix products only" + ("" if moved is None else f"; {_WITHOUT_STATES}")
    return PrimitiveWork(2 * passes * rows * per_row, moved, note)


def _layers(primitive: Primitive) -> _Layers | None:
    found = sizes(primitive.problem)
    cell = _CELL.search(primitive.options)
    hidden = found.get("dhc", found.get("dic"))  # dic was the hidden size before projections came
    if not found.keys() >= {"l", "t", "mb", "sic", "slc"} or not cell or not hidden:
        return None
    gates = _GATES[cell[2]]
    both = "bidirectional" in primitive.options
    return _Layers(
        l=found["l"],
        t=found["t"],
        mb=found["mb"],
        sic=found["sic"],
        slc=found["slc"],
        dhc=hidden,
        dic=found.get("dic", hidden),
        directions=2 if both else 1,
        gates=gates,
        biases=gates + (cell[1] == "lbr"),  # the linear-before-reset cell has one more
        is_concatenated=both and "sum" not in primitive.options.partition("direction:")[2].partition(" ")[0],
    )


def _traffic(primitive: Primitive, layers: _Layers) -> int | None:
    """Bytes of every printed tensor once; None where weights or gradients are not printed."""
    roles = {tensor.role for tensor in primitive.tensors}
    is_backward = primitive.variant.startswith("backward")
    if not roles >= {"src_layer", "wei_layer", "wei_iter", "dst_layer"}:
        return None
    if is_backward and "diff_wei_iter" not in roles:
        return None
    stacked = layers.l * layers.directions
    elements = {
        "src_layer": layers.t * layers.mb * layers.slc,
        "src_iter": stacked * layers.mb * layers.sic,
        "wei_layer": stacked * layers.slc * layers.gates * layers.dhc,
        "wei_iter": stacked * layers.sic * layers.gates * layers.dhc,
        "wei_peephole": stacked * 3 * layers.dhc,
        "wei_proj": stacked * layers.dhc * layers.dic,
        "bias": stacked * layers.biases * layers.dhc,
        "dst_layer": layers.t * layers.mb * layers.dic * (2 if layers.is_concatenated else 1),
        "dst_iter": stacked * layers.mb * layers.dic,
    }
    return traffic(primitive, {role: elements.get(role.removeprefix("diff_"), 0) for role in roles})
