"""What the kernels here have in common: options, the loop of steps, and what is said at the end."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time

import torch
from torch import nn

PRECISIONS = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
}


def parser(description: str) -> argparse.ArgumentParser:
    """The options that every kernel has."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--batch", type=int, default=16, help="examples of a step")
    options.add_argument("--steps", type=int, default=20, help="forward and backward passes")
    options.add_argument("--precision", choices=PRECISIONS, default="f32", help="of weights and inputs")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--threads", type=int, help="of one operation on the CPU; default: torch's own")
    return options


def prepare(options: argparse.Namespace) -> None:
    """The same numbers in every run."""
    torch.manual_seed(0)
    if options.threads:
        torch.set_num_threads(options.threads)


def run(kind: str, layer: nn.Module, inputs: torch.Tensor, flops: int, options: argparse.Namespace) -> None:
    """Forward, backward and an update of the layer, `steps` times; prints what was done as a line of JSON.

    inputs: their gradient is computed too, as that of a layer inside a network is.
    flops: of a step by formula, without the update.
    """
    dtype = PRECISIONS[options.precision]
    layer = layer.to(options.device, dtype)
    inputs = inputs.to(options.device, dtype).requires_grad_()
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-6)
    gradient = None
    taken = []
    for _ in range(options.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        inputs.grad = None
        output = layer(inputs)
        output = output[0] if isinstance(output, tuple) else output
        # Random, and made once: a gradient of ones is not stored as a tensor of its size.
        gradient = torch.randn_like(output) if gradient is None else gradient
        output.backward(gradient)
        optimizer.step()
        if options.device.startswith("cuda"):
            torch.cuda.synchronize()  # a step ends when the GPU has done it, not when it was asked to
        taken.append(time.perf_counter() - begin)
    _say(kind, flops, taken, options)


def _say(kind: str, flops: int, taken: list[float], options: argparse.Namespace) -> None:
    typical = statistics.median(taken)
    said = {
        "kind": kind,
        "rank": 0,
        "pid": os.getpid(),
        **{name: value for name, value in vars(options).items() if value is not None},
        "flops_per_step": flops,
        "median_step_s": typical,
        "flops_per_s": flops / typical,
    }
    print(json.dumps(said), flush=True)
