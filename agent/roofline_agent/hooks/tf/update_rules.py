"""TensorFlow: the FLOPs and bytes of one update of a variable, by the rule of its optimizer.

Counted per element as TensorFlow's fused kernels do it (tensorflow/core/kernels/training_ops.cc); a square
root and a division count as one FLOP each. Weight decay, clipping and averaging are left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional


class Rule(NamedTuple):
    """What an update costs for each element: FLOPs; slots: what the optimizer keeps of it, each as large as
    the element."""

    name: str
    flops: int
    slots: int

    def bytes_of(self, size: int) -> int:
        """Least bytes of an update of so many: gradient read, variable and slots read and written."""
        return (3 + 2 * self.slots) * size


SGD = Rule("SGD", 2, 0)  # var -= rate * grad
MOMENTUM = Rule("SGD with momentum", 4, 1)  # slot = slot * momentum + grad; var -= rate * slot
NESTEROV = Rule(
    "SGD with Nesterov momentum", 7, 1
)  # the same, and var -= grad * rate + slot * momentum * rate
ADAGRAD = Rule("Adagrad", 6, 1)  # slot += grad^2; var -= rate * grad / sqrt(slot)
RMSPROP = Rule(
    "RMSprop", 9, 1
)  # slot += (grad^2 - slot) * (1 - rho); var -= rate * grad / sqrt(slot + epsilon)
ADAM = Rule("Adam", 12, 2)  # two moving averages (3 and 4), then var -= m * rate / (sqrt(v) + epsilon)
OTHERS = {"Adagrad": ADAGRAD, "RMSprop": RMSPROP, "Adam": ADAM, "AdamW": ADAM}
EXTRAS = ("centered", "amsgrad")  # options with slots of their own


def rule_of(optimizer: Any) -> Optional[Rule]:
    """The rule of an optimizer of Keras 2 or 3; None where it is another. Nothing is read from a device."""
    name = type(optimizer).__name__
    if any(getattr(optimizer, extra, False) is True for extra in EXTRAS):
        return None
    # The older optimizers say in `_momentum` whether there is any; of the others it is the number itself.
    momentum = getattr(optimizer, "_momentum", None)
    if momentum is None:
        momentum = getattr(optimizer, "momentum", 0.0)
    if name == "SGD":
        if not momentum:
            return SGD
        return NESTEROV if getattr(optimizer, "nesterov", False) else MOMENTUM
    return None if name == "RMSprop" and momentum else OTHERS.get(name)
