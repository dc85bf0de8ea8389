"""What PyTorch compiles or exports as a whole or not at all: `python torch_compiled.py KIND`."""

from __future__ import annotations

import sys

import torch
from torch import nn


class Frozen(nn.Module):
    """Its normalisation stays as it is, as in much that is fine-tuned."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.body = nn.BatchNorm1d(8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.norm.eval()
        return self.body(self.norm(x))


def compiled() -> None:
    model = torch.compile(Frozen(), backend="eager", fullgraph=True)
    model(torch.randn(4, 8)).sum().backward()


def exported() -> None:
    """Before any module is called."""
    torch.export.export(Frozen(), (torch.randn(4, 8),), strict=True)


KINDS = {f.__name__: f for f in (compiled, exported)}

if __name__ == "__main__":
    KINDS[sys.argv[1]]()
