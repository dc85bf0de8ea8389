"""One 2D convolution, forward and backward: the micro-kernel of the time-based roofline (Wang et al. 2020).

    python examples/kernels/conv2d.py --batch 16 --size 56 --channels 64 --filters 64

Nothing in here knows of roofline.
"""

from __future__ import annotations

import argparse

import torch
from steps import parser, prepare, run
from torch import nn


def output_size(options: argparse.Namespace) -> int:
    """Pixels along a side of the output; the input is padded by half of the kernel."""
    return (options.size + 2 * (options.kernel // 2) - options.kernel) // options.stride + 1


def flops(options: argparse.Namespace) -> int:
    """Of a step: forward, gradient of the weights and gradient of the input do the same multiply-adds each:
    batch x filters x channels x kernel^2 x output^2, two FLOPs each. Additions of the bias are left out."""
    weights = options.filters * options.channels * options.kernel**2
    return 3 * 2 * options.batch * weights * output_size(options) ** 2


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--size", type=int, default=56, help="pixels along a side of the input")
    options.add_argument("--channels", type=int, default=64, help="of the input")
    options.add_argument("--filters", type=int, default=64, help="channels of the output")
    options.add_argument("--kernel", type=int, default=3, help="pixels along a side of a filter")
    options.add_argument("--stride", type=int, default=1)
    asked = options.parse_args()
    prepare(asked)
    layer = nn.Conv2d(
        asked.channels, asked.filters, asked.kernel, stride=asked.stride, padding=asked.kernel // 2
    )
    images = torch.randn(asked.batch, asked.channels, asked.size, asked.size)
    run("conv2d", layer, images, flops(asked), asked)


if __name__ == "__main__":
    main()
