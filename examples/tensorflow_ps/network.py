"""The network of this example as plain records, and how many FLOPs one training step of it takes.

Standard library only: the count here is made from the shapes alone, so it can be compared with what a
profiler measured.
"""

from __future__ import annotations

from typing import NamedTuple


class Convolution(NamedTuple):
    """A square convolution with stride 1 and padding "same", then bias, ReLU and max pooling."""

    inputs: int
    outputs: int
    size: int
    """Height and width of the input, and (padding "same") of the output before pooling."""
    kernel: int
    pool: int
    """Edge and stride of the pooling window that follows."""


class Dense(NamedTuple):
    """A fully connected layer with bias; all but the last are followed by ReLU."""

    inputs: int
    outputs: int


class Network(NamedTuple):
    """Convolutions, then dense layers on the flattened result."""

    convolutions: tuple[Convolution, ...]
    dense: tuple[Dense, ...]


IMAGE_SIZE = 32
CHANNELS = 3
CLASSES = 10

NETWORK = Network(
    convolutions=(
        Convolution(inputs=CHANNELS, outputs=32, size=IMAGE_SIZE, kernel=3, pool=2),
        Convolution(inputs=32, outputs=128, size=16, kernel=3, pool=2),
        Convolution(inputs=128, outputs=160, size=8, kernel=3, pool=2),
    ),
    dense=(
        Dense(inputs=4 * 4 * 160, outputs=256),
        Dense(inputs=256, outputs=CLASSES),
    ),
)


def flops_per_step(batch: int, network: Network = NETWORK) -> int:
    """FLOPs of all convolutions and matrix products in one training step of one worker.

    Each layer runs forward, then computes the gradient of its weights and of its input, and each of
    the three takes the same number of FLOPs. The first layer's input is the image, which needs no
    gradient. Biases, pooling, activations, the loss and the optimizer are not counted.
    """
    layers: list[Convolution | Dense] = [*network.convolutions, *network.dense]
    first = forward_flops(layers[0], batch)
    return 2 * first + sum(3 * forward_flops(layer, batch) for layer in layers[1:])


def forward_flops(layer: Convolution | Dense, batch: int) -> int:
    """FLOPs of one layer's forward pass; a multiply-add counts as two."""
    if isinstance(layer, Dense):
        return 2 * batch * layer.inputs * layer.outputs
    positions = layer.size * layer.size
    return 2 * batch * layer.outputs * layer.inputs * positions * layer.kernel * layer.kernel


def parameter_count(network: Network = NETWORK) -> int:
    """Weights and biases: what a worker reads from the parameter servers in every step."""
    convolutions = sum(c.outputs * (c.inputs * c.kernel * c.kernel + 1) for c in network.convolutions)
    return convolutions + sum(d.outputs * (d.inputs + 1) for d in network.dense)
