"""The network that all trainings here share, and what one step of it takes, counted from the shapes alone.

Standard library only: the counts can be compared with what a profiler measured.
"""

from __future__ import annotations

from itertools import pairwise

IMAGE, CHANNELS, CLASSES = 32, 3, 10
CONVOLUTIONS = ((3, 32), (32, 64))  # channels in and out, 3x3 each
POOLED = 4  # average pooling in front of the dense layers
DENSE = (4096, 256, *[256] * 8, CLASSES)


def weights() -> list[int]:
    """Elements of every tensor that is trained, each layer's weight followed by its bias."""
    sizes = []
    for inputs, outputs in CONVOLUTIONS:
        sizes += [9 * inputs * outputs, outputs]
    for inputs, outputs in pairwise(DENSE):
        sizes += [inputs * outputs, outputs]
    return sizes


def gradient_bytes() -> int:
    """What a step reduces: every gradient in float32."""
    return 4 * sum(weights())


def flops_per_step(batch: int) -> int:
    """2 x multiply-adds of forward, gradient of the weights and gradient of the input; images have none."""
    pixels = IMAGE * IMAGE
    total = 0
    for layer, (inputs, outputs) in enumerate(CONVOLUTIONS):
        total += 2 * batch * pixels * 9 * inputs * outputs * (2 if layer == 0 else 3)
    for inputs, outputs in pairwise(DENSE):
        total += 2 * batch * inputs * outputs * 3
    return total
