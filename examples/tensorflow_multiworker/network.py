"""The network of this example by its sizes, and how many FLOPs one training step of it takes.

Standard library only: the count is made from the shapes alone, so it can be compared with what a profiler
measured.
"""

from __future__ import annotations

IMAGE_SIZE = 32
CHANNELS = 3
CLASSES = 10
KERNEL = 3
# Filters of each convolution: stride 1, padding "same", ReLU, then 2x2 max pooling.
CONVOLUTIONS = (32, 64, 128)
# Units of each dense layer; all but the last are followed by ReLU.
DENSE = (256, CLASSES)


def flops_per_step(batch: int) -> int:
    """FLOPs of all convolutions and matrix products in one training step of one worker.

    Each layer runs forward, then computes the gradient of its weights and of its input; the first layer's
    input is the image, which needs none. A multiply-add counts as two.
    """
    first, *others = [2 * batch * positions * weights for positions, weights, _ in layers()]
    return 2 * first + 3 * sum(others)


def parameter_count() -> int:
    """Weights and biases: what the workers add up in every step."""
    return sum(weights + biases for _, weights, biases in layers())


def layers() -> list[tuple[int, int, int]]:
    """(positions in which its weights are used, weights, biases) of each layer."""
    found, size, inputs = [], IMAGE_SIZE, CHANNELS
    for filters in CONVOLUTIONS:
        found.append((size * size, KERNEL * KERNEL * inputs * filters, filters))
        size, inputs = size // 2, filters
    inputs *= size * size
    for units in DENSE:
        found.append((1, inputs * units, units))
        inputs = units
    return found
