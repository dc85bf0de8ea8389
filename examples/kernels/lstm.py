"""An LSTM layer, forward and backward: many small products, the other micro-kernel of the time-based roofline
(Wang et al. 2020).

    python examples/kernels/lstm.py --batch 16 --length 32 --hidden 256

Nothing in here knows of roofline.
"""

from __future__ import annotations

import argparse

import torch
from steps import parser, prepare, run
from torch import nn

GATES = 4


def flops(options: argparse.Namespace) -> int:
    """Of a step, matrix products only: length x batch x gates x hidden x (input + hidden) multiply-adds a
    layer, two FLOPs each; backward, twice as many. The input is as wide as the state."""
    products = options.length * options.batch * GATES * options.hidden * 2 * options.hidden
    return 3 * 2 * options.layers * products


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--length", type=int, default=32, help="of a sequence")
    options.add_argument("--hidden", type=int, default=256, help="width of the state and of the input")
    options.add_argument("--layers", type=int, default=1)
    asked = options.parse_args()
    prepare(asked)
    layer = nn.LSTM(asked.hidden, asked.hidden, asked.layers)
    sequences = torch.randn(asked.length, asked.batch, asked.hidden)
    run("lstm", layer, sequences, flops(asked), asked)


if __name__ == "__main__":
    main()
