"""One Horovod rank under PyTorch: a small convolutional network on synthetic images."""

from __future__ import annotations

from itertools import pairwise

import horovod.torch as hvd
import torch
from journal import Journal, dawdle, options
from network import CHANNELS, CLASSES, CONVOLUTIONS, DENSE, IMAGE, POOLED
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EXAMPLES = 512


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--tensors", action="store_true", help="take batches from tensors, without a loader")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    hvd.init()
    torch.manual_seed(1 + hvd.rank())
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    batches = slices(asked.batch) if asked.tensors else endless(asked.batch)

    journal = Journal(hvd.rank(), hvd.size(), asked.batch)
    for k in range(asked.steps):
        images, labels = next(batches)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        dawdle(hvd.rank(), asked.slow_rank, asked.slow_seconds)
        loss.backward()
        optimizer.step()
        journal.step_ended()
        if k % 20 == 19 and hvd.rank() == 0:
            print(f"step {k + 1} loss {loss.item():.4f}", flush=True)
    if asked.journal:
        journal.write(asked.journal)


def network() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in CONVOLUTIONS:
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
    layers += [nn.AvgPool2d(POOLED), nn.Flatten()]
    for inputs, outputs in pairwise(DENSE):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def endless(batch: int):
    images, labels = torch.randn(EXAMPLES, CHANNELS, IMAGE, IMAGE), torch.randint(0, CLASSES, (EXAMPLES,))
    loader = DataLoader(TensorDataset(images, labels), batch_size=batch, shuffle=True, drop_last=True)
    while True:
        yield from loader


def slices(batch: int):
    images, labels = torch.randn(EXAMPLES, CHANNELS, IMAGE, IMAGE), torch.randint(0, CLASSES, (EXAMPLES,))
    while True:
        yield from zip(images.split(batch), labels.split(batch), strict=True)


if __name__ == "__main__":
    main()
