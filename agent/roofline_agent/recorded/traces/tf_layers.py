"""Which layer of the model an operation of TensorFlow belongs to, by its name.

Names begin with the scopes they were made in: "model/conv1/BiasAdd" is of "model/conv1", and so is
"gradient_tape/model/conv1/Conv2D/Conv2DBackpropInput", the gradient of "model/conv1/Conv2D". An optimizer's
scope is the one in which variables are updated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .layers import OPTIMIZER

_GRADIENTS = "gradient_tape"
_CALLS = ("StatefulPartitionedCall", "PartitionedCall")  # of functions within functions
_UPDATES = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter")
_ADDED = re.compile(r"/_\d+$")  # to the names of operations that hand a tensor to another device
# Made in the scope of the operation that needs the variable, or where tensors go to another device.
_NOT_COMPUTED = ("ReadVariableOp", "Identity", "NoOp", "_Send", "_Recv")


class TensorFlowLayers:
    """The layers of the operations of one trace."""

    def __init__(self, operations: Iterable[tuple[str, str]]) -> None:
        """operations: name and type of each."""
        self._scopes: set[tuple[str, ...]] = set()
        self._optimizers: set[str] = set()
        self._found: dict[str, str] = {}
        for name, kind in set(operations):
            scope, is_gradient = _scope(name)
            if not scope or is_gradient:
                continue
            if kind.startswith(_UPDATES) and (len(scope) == 1 or not kind.startswith("Assign")):
                self._optimizers.add(scope[0])
            if kind not in _NOT_COMPUTED:
                self._scopes.add(scope)

    def of(self, name: str) -> str:
        """ "" for an operation that belongs to no layer."""
        if name not in self._found:
            self._found[name] = self._look_for(name)
        return self._found[name]

    def _look_for(self, name: str) -> str:
        scope, _ = _scope(name)
        if scope and scope[0] in self._optimizers:
            return OPTIMIZER
        while scope and scope not in self._scopes:
            scope = scope[:-1]
        return "/".join(scope)


def _scope(name: str) -> tuple[tuple[str, ...], bool]:
    """The scopes that an operation was made in, and whether it is of a gradient."""
    parts = _ADDED.sub("", name).split("/")[:-1]
    is_gradient = _GRADIENTS in parts
    return tuple(part for part in parts if part != _GRADIENTS and part not in _CALLS), is_gradient
