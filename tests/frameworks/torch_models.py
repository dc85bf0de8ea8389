"""One step of a model, forward, backward and update, in a trace of torch's own profiler; prints the FLOPs of
its layers by their sizes as JSON. `python torch_models.py MODEL TRACE`"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

BATCH = 2


class Case(NamedTuple):
    """attention: FLOPs of all its products of queries, keys and values, forward."""

    model: nn.Module
    inputs: torch.Tensor
    attention: float = 0.0


class Attention(nn.Module):
    """By torch's fused attention, which computes no masked score."""

    def __init__(self, width: int, heads: int, is_causal: bool = True) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = self.all(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*split, is_causal=self.is_causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = Attention(width, heads)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x))
        return x + self.inner(self.norms[1](x))


class Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.layers, self.head = kind(64, 128, num_layers=2), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x)[0])


class UNet(nn.Module):
    """Two levels: their outputs go to the other side, too."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self.two(1, 16), self.two(16, 32)])
        self.middle = self.two(32, 64)
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(64, 32, 2, stride=2), nn.ConvTranspose2d(32, 16, 2, stride=2)]
        )
        self.join = nn.ModuleList([self.two(64, 32), self.two(32, 16)])
        self.head = nn.Conv2d(16, 2, 1)

    @staticmethod
    def two(inputs: int, outputs: int) -> nn.Module:
        first, second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        across = []
        for level in self.down:
            across.append(level(x))
            x = functional.max_pool2d(across[-1], 2)
        x = self.middle(x)
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([up(x), across.pop()], 1))
        return self.head(x)


class Experts(nn.Module):
    """Each token goes through the two of four that its gate likes best."""

    def __init__(self, width: int, many: int = 4, chosen: int = 2) -> None:
        super().__init__()
        self.gate, self.chosen = nn.Linear(width, many), chosen
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(many)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, 1)
        shares, which = self.gate(tokens).softmax(-1).topk(self.chosen, -1)
        mixed = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            token, place = (which == number).nonzero(as_tuple=True)
            mixed = mixed.index_add(0, token, expert(tokens[token]) * shares[token, place, None])
        return mixed.view_as(x)


class MixedBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention, self.experts = Attention(width, heads, is_causal=False), Experts(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x))
        return x + self.experts(self.norms[1](x))


class Recommender(nn.Module):
    """As DLRM (Naumov et al. 2019): each of 27 vectors times each, between two stacks of layers."""

    def __init__(self, tables: int = 26, width: int = 16) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(100, width) for _ in range(tables))
        self.bottom = self.stack(13, 64, 32, width)
        self.top = self.stack(tables * (tables + 1) // 2 + width, 64, 32, 1)

    @staticmethod
    def stack(*sizes: int) -> nn.Module:
        layers = [nn.Linear(*pair) for pair in itertools.pairwise(sizes)]
        return nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dense, bags = self.bottom(x), (x[:, :2] * 10).long().abs() % 100
        vectors = torch.stack([dense, *(table(bags) for table in self.tables)], 1)
        rows, columns = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
        pairs = torch.bmm(vectors, vectors.transpose(1, 2))[:, rows, columns]
        return self.top(torch.cat([dense, pairs], 1))


def autoencoder() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(16, 3, 4, stride=2, padding=1),
    )


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, groups=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(1024, 10),
    )  # fmt: skip


def plain(model: nn.Module, *shape: int) -> Case:
    return Case(model, torch.randn(BATCH, *shape))


def gpt(width: int = 256, layers: int = 4, length: int = 256) -> Case:
    model = nn.Sequential(
        nn.Embedding(1000, width), *(Block(width, 4) for _ in range(layers)), nn.Linear(width, 1000)
    )
    tokens = torch.randint(1000, (BATCH, length))
    return Case(model, tokens, layers * 4 * BATCH * length**2 * width / 2)


def of_library(name: str) -> Case:
    """A model of Hugging Face's transformers as its paper has it, with weights made up."""
    import transformers

    def text(config: Any, model: Any, length: int, layers: int, width: int, **more: Any) -> Case:
        made = model(config(attn_implementation="eager", **more))
        tokens = torch.randint(1000, (BATCH, length))
        return Case(made, tokens, layers * 4 * BATCH * length**2 * width)

    def image(config: Any, model: Any, attention: float = 0.0, **more: Any) -> Case:
        return Case(
            model(config(num_labels=1000, **more)),
            torch.randn(BATCH, 3, 224, 224),
            attention,
        )

    t = transformers
    if name == "gpt2":
        return text(t.GPT2Config, t.GPT2LMHeadModel, 64, 12, 768)
    if name == "bert":
        return text(t.BertConfig, t.BertForSequenceClassification, 64, 12, 768)
    if name == "vit":
        attention = 12 * 4 * BATCH * 197**2 * 768
        return image(t.ViTConfig, t.ViTForImageClassification, attention, attn_implementation="eager")
    if name == "resnet50":
        return image(t.ResNetConfig, t.ResNetForImageClassification)
    if name == "mobilenet":
        return image(t.MobileNetV2Config, t.MobileNetV2ForImageClassification)
    return image(t.ConvNextConfig, t.ConvNextForImageClassification)


MODELS: dict[str, Callable[[], Case]] = {
    "mlp": lambda: plain(nn.Sequential(nn.Linear(768, 512), nn.ReLU(), nn.Linear(512, 10)), 768),
    "cnn": lambda: plain(cnn(), 3, 32, 32),
    "autoencoder": lambda: plain(autoencoder(), 3, 32, 32),
    "lstm": lambda: plain(Recurrent(nn.LSTM), 16, 64),
    "gru": lambda: plain(Recurrent(nn.GRU), 16, 64),
    "gpt": gpt,
    "unet": lambda: plain(UNet(), 1, 64, 64),
    "experts": lambda: Case(
        nn.Sequential(nn.Embedding(1000, 128), MixedBlock(128, 4)), torch.randint(1000, (BATCH, 32))
    ),
    "recommender": lambda: plain(Recommender(), 13),
}


class Counted(NamedTuple):
    forward: float
    step: float


def count(model: nn.Module, run: Callable[[], Any]) -> list[Counted]:
    """Of each call of a layer with weights, by its sizes: two FLOPs a multiply-add, as many again for the
    gradient of the weights, and for that of the input where it has one."""
    found: list[Counted] = []

    def called(layer: nn.Module, given: Any, output: Any) -> None:
        x = given[0]
        output = output[0] if isinstance(output, tuple) else output
        weights = sum(p.numel() for p in layer.parameters(recurse=False) if p.dim() > 1)
        if isinstance(layer, (nn.LSTM, nn.GRU)):
            positions = x.shape[0] * x.shape[1]
        elif isinstance(layer, nn.ConvTranspose2d):
            positions = x.numel() // layer.in_channels
        elif isinstance(layer, nn.Conv2d):
            positions = output.numel() // layer.out_channels
        else:
            positions = x.numel() // x.shape[-1]
        forward = 2.0 * positions * weights
        first = forward * (1 + x.requires_grad)
        if isinstance(layer, nn.LSTM):
            first = 2 * forward  # by oneDNN, which computes all gradients, needed or not
        elif isinstance(layer, nn.GRU):
            # By products of torch's own: no gradient of the input, nor of the states before the first step.
            gates, of_states = 3 * layer.hidden_size, x.shape[1] * layer.num_layers * layer.hidden_size
            first = 2 * forward - 2.0 * gates * (x.numel() + of_states)
        found.append(Counted(forward, forward + first))

    kinds = (nn.Linear, nn.Conv2d, nn.ConvTranspose2d, nn.LSTM, nn.GRU)
    layers = [m for m in model.modules() if isinstance(m, kinds) or type(m).__name__ == "Conv1D"]
    hooks = [layer.register_forward_hook(called) for layer in layers]
    run()
    for hook in hooks:
        hook.remove()
    return found


def main() -> None:
    name, path = sys.argv[1:]
    torch.manual_seed(0)
    case = MODELS[name]() if name in MODELS else of_library(name)
    case.model.train()
    optimizer = torch.optim.SGD(case.model.parameters(), lr=1e-3)

    def forward() -> torch.Tensor:
        out = case.model(case.inputs)
        found: torch.Tensor = out if isinstance(out, torch.Tensor) else out.logits
        return found.float().pow(2).mean()

    layers = count(case.model, forward)
    with torch.profiler.profile(record_shapes=True) as profiler:
        forward().backward()
        optimizer.step()
    profiler.export_chrome_trace(path)
    said = {
        "forward": sum(one.forward for one in layers) + case.attention,
        "layers": sum(one.step for one in layers),
        "attention": case.attention,
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
