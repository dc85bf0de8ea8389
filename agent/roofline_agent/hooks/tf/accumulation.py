"""Optimizers of Keras 3 with `gradient_accumulation_steps`: an update is made of several gradients."""

from __future__ import annotations

from typing import Any


class Accumulation:
    """The updates of one optimizer."""

    def __init__(self, optimizer: Any, gradients: int = 0) -> None:
        """gradients: that it has got before."""
        inner = getattr(optimizer, "inner_optimizer", None) or optimizer  # of one that scales the loss
        self.each = int(getattr(inner, "gradient_accumulation_steps", None) or 1)
        self._gradients = gradients

    def updates(self, gradients: int) -> int:
        """How many updates the optimizer has made of so many more gradients."""
        before = self._gradients
        self._gradients += gradients
        return self._gradients // self.each - before // self.each
