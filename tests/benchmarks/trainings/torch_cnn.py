"""Trains a small CNN on made-up images until it is ended; with DistributedDataParallel under torchrun."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from profiled_turns import ProfiledTurns
from step_clock import StepClock, find_batch, options
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

WARM, TIMED = 200, 200  # steps of a trial


class Batches(IterableDataset):
    """The same batch again and again."""

    def __init__(self, size: int) -> None:
        self.batch = torch.randn(size, 3, 32, 32), torch.randint(10, (size,))

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            yield self.batch


def network(layers: int) -> nn.Module:
    alike = [(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()) for _ in range(layers)]
    return nn.Sequential(
        nn.Conv2d(3, 64, 4, stride=4),
        nn.ReLU(),
        *(one for pair in alike for one in pair),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


class Trainer:
    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    def trial(self, batch: int) -> float:
        """Seconds of a step."""
        steps = self.steps(batch)
        return statistics.median([next(steps) for _ in range(WARM + TIMED)][WARM:])

    def steps(self, batch: int) -> Iterator[float]:
        """Train forever; yields how long each step took."""
        begin = time.perf_counter()
        for images, labels in DataLoader(Batches(batch), batch_size=None):
            loss = nn.functional.cross_entropy(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            end = time.perf_counter()
            yield end - begin
            begin = end


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--layers", type=int, default=2, help="convolutions in the middle (default: 2)")
    parser.add_argument("--threads", type=int, help="that compute (default: one for each CPU)")
    asked = parser.parse_args()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    torch.manual_seed(0)
    model, rank = network(asked.layers), int(os.environ.get("RANK", "0"))
    if "RANK" in os.environ:
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    trainer = Trainer(model)
    if asked.find:
        found = find_batch(asked.find, trainer.trial)
        if rank == 0:
            print(found)
        sys.exit()
    clock = StepClock(asked.clock) if rank == 0 else None
    turns = ProfiledTurns(asked.turns)
    for _ in trainer.steps(asked.batch):
        if clock:
            clock.tick()
        turns.follow()


if __name__ == "__main__":
    main()
