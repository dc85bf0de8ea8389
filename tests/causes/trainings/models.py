"""Eight small models for PyTorch and made-up data for them, steps of some 10 to 40 ms on one core."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import torch
from torch import nn

WORDS, CLASSES = 256, 10


class Kind(NamedTuple):
    """A model: how to make it, and what it trains on."""

    make: Any
    batch: int
    shape: tuple[int, ...]  # of an example; (length,) of words where `words`
    words: bool = False


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.inner(x))


class Recurrent(nn.Module):
    def __init__(self, layer: Any, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.layer = layer(width, width, batch_first=True)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.words(x))[0][:, -1])


class Transformer(nn.Module):
    """An encoder that classifies, or with `causal` a small GPT that says one thing of each text."""

    def __init__(self, width: int, layers: int, causal: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, CLASSES)
        self.causal = causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        x = self.words(x)
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        return self.head(x.mean(1))


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(512, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, CLASSES)
    )


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(4),
        nn.Flatten(),
        nn.Linear(1024, 256),
        nn.ReLU(),
        nn.Linear(256, CLASSES),
    )


def resnet() -> nn.Module:
    stem = [nn.Conv2d(3, 24, 3, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(
        *stem, Residual(24), Residual(24), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(384, CLASSES)
    )


def autoencoder() -> nn.Module:
    widths = (1024, 512, 64, 512)
    inner = [part for a, b in itertools.pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*inner, nn.Linear(512, 1024))


KINDS = {
    "mlp": Kind(mlp, 256, (512,)),
    "cnn": Kind(cnn, 32, (3, 32, 32)),
    "resnet": Kind(resnet, 32, (3, 32, 32)),
    "lstm": Kind(lambda: Recurrent(nn.LSTM, 128), 32, (32,), words=True),
    "gru": Kind(lambda: Recurrent(nn.GRU, 128), 32, (32,), words=True),
    "encoder": Kind(lambda: Transformer(96, 2, causal=False), 20, (48,), words=True),
    "gpt": Kind(lambda: Transformer(96, 2, causal=True), 20, (48,), words=True),
    "autoencoder": Kind(autoencoder, 256, (1024,)),
}


def batch_of(kind: Kind, batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and what to learn of them. length: of a text, where it is one."""
    if kind.words:
        return torch.randint(WORDS, (batch, length)), torch.randint(CLASSES, (batch,))
    inputs = torch.randn(batch, *kind.shape)
    return inputs, inputs if kind.make is autoencoder else torch.randint(CLASSES, (batch,))


def loss_of(outputs: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    is_class = wanted.dtype == torch.int64
    return (
        nn.functional.cross_entropy(outputs, wanted) if is_class else nn.functional.mse_loss(outputs, wanted)
    )
