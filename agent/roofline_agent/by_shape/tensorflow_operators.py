"""FLOPs and least traffic of TensorFlow's operations, by the shapes of their inputs in a profile.

A profile has no attributes: strides, padding and transpositions are not in it. They follow from the other
operations of the same layer in a training step, whose inputs are these operations' outputs: the gradient of
a convolution's weights has the gradient of its output as an input. Where they do not follow, nothing is
counted.
Inputs are those of tensorflow/core/ops/{math,nn}_ops.cc and of the fused kinds that Grappler and oneDNN put
in their place, which add inputs behind these.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from .types import element_type
from .work import OperatorWork

_INPUT = re.compile(r"(\w+)\[([\d,]*)\]")
_VARIANT = re.compile(r"^_?(?:Mkl)?(?:Native)?(?:Fused)?|WithBias$")
_MATMUL = "MatMul"
_GRADIENT = re.compile(r"gradient_tape/|(?:^|/)gradients(?:_\d+)?/.*_grad/")  # of a tape; of tf.gradients
_FORWARD = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")
_OF_INPUT, _OF_WEIGHTS = re.compile(r"BackpropInput(?:V2)?$"), re.compile(r"BackpropFilter(?:V2)?$")


class TypedShape(NamedTuple):
    kind: str  # "float"
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.shape)


class TensorFlowOperation(NamedTuple):
    """name: "gradient_tape/conv1/Conv2D/Conv2DBackpropFilter"; kind: its type; layer: of `traces.tf_layers`.
    inputs: in order."""

    name: str
    kind: str
    layer: str
    inputs: tuple[TypedShape, ...]


# By layer and shape of the input of a convolution; None: of several that differ.
_OfConvolutions = dict[tuple[str, tuple[int, ...]], "TypedShape | None"]


def _note(known: _OfConvolutions, one: TensorFlowOperation, tensor: TypedShape) -> None:
    key = one.layer, one.inputs[0].shape
    known[key] = tensor if known.get(key, tensor) == tensor else None


def inputs_of(text: str) -> tuple[TypedShape, ...]:
    """The inputs of "(float[32,256];float[256,10])"; () where it is not understood."""
    found = [_INPUT.fullmatch(part) for part in text.strip("()").split(";")]
    if not text or not all(found):
        return ()
    return tuple(TypedShape(m[1], tuple(int(n) for n in m[2].split(",") if n)) for m in found if m)


def plain_kind(kind: str) -> str:
    """The type without what a rewritten graph adds: "_MklNativeFusedConv2D" is a Conv2D."""
    return _VARIANT.sub("", kind)


class TensorFlowWork:
    """The work of the operations of one profile."""

    def __init__(self, operations: Sequence[TensorFlowOperation]) -> None:
        self._names = {one.name for one in operations}
        self._outputs: _OfConvolutions = {}
        self._weights: _OfConvolutions = {}
        for one in operations:
            kind = plain_kind(one.kind)
            if _OF_WEIGHTS.search(kind) and len(one.inputs) > 2:
                _note(self._outputs, one, one.inputs[2])
            elif kind in _FORWARD and len(one.inputs) > 1:
                _note(self._weights, one, one.inputs[1])

    def of(self, one: TensorFlowOperation) -> OperatorWork | None:
        """None where there is no formula, or the shapes do not say enough."""
        kind = plain_kind(one.kind)
        tensors = self._convolution(kind, one) or (self._product(one) if kind == _MATMUL else None)
        if tensors is None:
            return None
        flops, moved = tensors
        element = element_type(moved[0].kind)
        if element is None:
            return None
        size = float(element.size * sum(one.elements for one in moved))
        return OperatorWork(flops * element.flops, size, element.precision, 1, "")

    def _convolution(
        self, kind: str, one: TensorFlowOperation
    ) -> tuple[float, tuple[TypedShape, TypedShape, TypedShape]] | None:
        """FLOPs; input, weights and output. 2 x outputs x weights of one output channel, in all three
        directions: each output needs that many multiply-adds."""
        given: tuple[TypedShape | None, TypedShape | None, TypedShape | None]
        if kind in _FORWARD and len(one.inputs) > 1:
            image, weights = one.inputs[:2]
            given = image, weights, self._outputs.get((one.layer, image.shape))
        elif _OF_WEIGHTS.search(kind) and len(one.inputs) > 2:
            image = one.inputs[0]
            given = image, self._weights.get((one.layer, image.shape)), one.inputs[2]
        elif _OF_INPUT.search(kind) and len(one.inputs) > 2:
            given = self._image_of(one), one.inputs[1], one.inputs[2]
        else:
            return None
        image_, weights_, output = given
        if image_ is None or weights_ is None or output is None or not weights_.shape:
            return None
        each = weights_.elements / weights_.shape[-1]
        if kind.startswith("Depthwise"):
            each = weights_.elements / prod(weights_.shape[-2:])
        return 2.0 * output.elements * each, (image_, weights_, output)

    def _image_of(self, one: TensorFlowOperation) -> TypedShape | None:
        """The input of the convolution of which this is the gradient."""
        mine = {image: output for (layer, image), output in self._outputs.items() if layer == one.layer}
        found = [image for image, output in mine.items() if output == one.inputs[2]]
        if None in mine.values():
            return None
        return TypedShape(one.inputs[2].kind, found[0]) if len(found) == 1 else None

    def _product(
        self, one: TensorFlowOperation
    ) -> tuple[float, tuple[TypedShape, TypedShape, TypedShape]] | None:
        """FLOPs; both factors and the product."""
        if len(one.inputs) < 2 or any(len(factor.shape) != 2 for factor in one.inputs[:2]):
            return None
        a, b = one.inputs[:2]
        inner = self._inner(one.name, a.shape, b.shape)
        if not inner:
            return None
        product = TypedShape(a.kind, (a.elements // inner, b.elements // inner))
        return 2.0 * a.elements * b.elements / inner, (a, b, product)

    def _inner(self, name: str, a: tuple[int, ...], b: tuple[int, ...]) -> int:
        """The dimension that is summed over; 0: it cannot be told.

        Forward it is the second of a. Of the gradients that of the input, dY x W', sums over the second of
        both, that of the weights, X' x dY, over the first of both; TensorFlow appends "_1" to the name of
        the latter where it makes both.
        """
        of_weights, of_input = a[0] == b[0], a[1] == b[1]
        if not _GRADIENT.search(name):
            if a[1] == b[0]:
                return a[1]
            # X x W' or, by a gradient of another name, X' x dY of a layer as wide as its input.
            return a[1] if of_input and not of_weights else 0
        if of_weights and of_input:
            of_weights = f"{name}_1" not in self._names
        return a[0] if of_weights else a[1] if of_input else 0
