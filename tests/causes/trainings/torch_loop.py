"""The loop of every PyTorch training here: batches of a loader, one loss, one update a step."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import torch
from journal import Journal
from models import KINDS, batch_of, loss_of
from plants import Plant, plant
from torch.utils.data import DataLoader, IterableDataset

DISTINCT = 8  # batches


class Batches(IterableDataset):
    """A few made-up batches again and again; making one takes what the plant does there."""

    def __init__(self, model: str, more: float, cause: str, planted: Plant) -> None:
        kind = KINDS[model]
        length = kind.shape[0] * (1 + more * (cause == "sequences"))
        batch = kind.batch * (1 + more * (cause == "batch"))
        self.batches = [batch_of(kind, round(batch), round(length)) for _ in range(DISTINCT)]
        self.planted = planted

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for number in count():
            self.planted.load()
            yield self.batches[number % DISTINCT]


def prepare(asked: argparse.Namespace, rank: int) -> None:
    if asked.pinned:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    torch.set_num_threads(1)
    torch.manual_seed(asked.seed)


def train(
    asked: argparse.Namespace, name: str, rank: int, model: Any, optimizer: torch.optim.Optimizer
) -> None:
    """Train until the time is over; every rank makes the same number of steps."""
    has_it = rank == asked.on
    planted = plant(asked.cause, asked.amount, asked.folder) if has_it else Plant()
    loader = DataLoader(Batches(asked.model, asked.more * has_it, asked.cause, planted), batch_size=None)
    journal = Journal(asked.folder, name)
    for inputs, wanted in loader:
        planted.step()
        loss = loss_of(model(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        planted.end_step()
        journal.step_ended()
        if len(journal.ends) >= journal.steps_wanted(asked.seconds, rank == 0):
            break
    journal.write(taken=planted.taken, batch=len(wanted), framework=f"torch {torch.__version__}")


def make(asked: argparse.Namespace) -> Callable[[], torch.nn.Module]:
    return KINDS[asked.model].make
