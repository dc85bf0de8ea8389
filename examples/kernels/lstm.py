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
    layer, two FLOPs each; backward, twice as many. The input of a further layer is as wide as the state."""
    inputs = features(options) + (options.layers - 1) * options.hidden
    products = options.length * options.batch * GATES * options.hidden
    return 3 * 2 * products * (inputs + options.layers * options.hidden)


def features(options: argparse.Namespace) -> int:
    return options.features or options.hidden


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--length", type=int, default=32, help="of a sequence")
    options.add_argument("--hidden", type=int, default=256, help="width of the state")
    options.add_argument("--features", type=int, default=0, help="width of the input; 0: as of the state")
    options.add_argument("--layers", type=int, default=1)
    asked = options.parse_args()
    prepare(asked)
    layer = nn.LSTM(features(asked), asked.hidden, asked.layers)
    sequences = torch.randn(asked.length, asked.batch, features(asked))
    run("lstm", layer, sequences, flops(asked), asked)


if __name__ == "__main__":
    main()
