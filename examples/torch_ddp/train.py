"""Trains a small classifier with DistributedDataParallel on made-up images, and says what it did as JSON.

    torchrun --nproc-per-node 2 --no-python roofline-agent run -- python examples/torch_ddp/train.py

Nothing in here knows of roofline. Options plant what slows real jobs down: a rank that takes longer for its
own work (--slow-rank, --slow-seconds), an input pipeline that does (--slow-input), a rank that
dies (--die-at).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

CLASSES, PIXELS, DISTINCT = 10, 3 * 16 * 16, 256


class Images(Dataset):
    """Random images that are the same in every run, DISTINCT of them again and again; each takes `seconds` to
    load."""

    def __init__(self, count: int, seconds: float) -> None:
        self.count, self.seconds = count, seconds
        self.pixels = torch.randn(DISTINCT, PIXELS, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.seconds:
            time.sleep(self.seconds)
        return self.pixels[index % DISTINCT], index % CLASSES


def network(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(PIXELS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, CLASSES)
    )


def flops(width: int, batch: int) -> int:
    """Of one step of one rank: forward, gradients of weights, and of inputs but the first layer's."""
    first, rest = PIXELS * width, width * width + width * CLASSES
    return 2 * batch * (2 * first + 3 * rest)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=30, help="optimizer steps")
    parser.add_argument("--batch", type=int, default=32, help="examples of a rank and fetch")
    parser.add_argument("--width", type=int, default=512, help="neurons of the hidden layers")
    parser.add_argument("--accumulate", type=int, default=1, help="fetches of a step")
    parser.add_argument("--epoch", type=int, default=10, help="steps between validations")
    parser.add_argument("--slow-rank", type=int, default=-1, help="this rank sleeps before its forward")
    parser.add_argument("--slow-seconds", type=float, default=0.05, help="so long")
    parser.add_argument("--slow-input", type=float, default=0.0, help="seconds it takes to load a batch")
    parser.add_argument("--die-at", type=int, default=-1, help="rank 1 exits before this step, once")
    parser.add_argument("--folder", type=Path, default=None, help="for the checkpoint of a job that restarts")
    return parser.parse_args()


def resumed(folder: Path | None) -> int:
    path = folder / "step" if folder else None
    return int(path.read_text()) if path and path.exists() else 0


def keep(folder: Path | None, step: int) -> None:
    if folder and dist.get_rank() == 0:
        (folder / "next").write_text(str(step))
        (folder / "next").replace(folder / "step")


def loader(asked: argparse.Namespace, count: int) -> DataLoader:
    images = Images(count * dist.get_world_size(), asked.slow_input / asked.batch)
    return DataLoader(images, asked.batch, sampler=DistributedSampler(images))


def validate(model: nn.Module, asked: argparse.Namespace) -> float:
    right = 0
    with torch.no_grad():
        for images, labels in loader(asked, 2 * asked.batch):
            right += int((model(images).argmax(1) == labels).sum())
    return right / (2 * asked.batch)


def train(model: nn.Module, asked: argparse.Namespace) -> dict[str, object]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step, examples, seconds, loss = resumed(asked.folder), 0, [], torch.zeros(())
    first = step
    while step < asked.steps:
        steps = min(asked.epoch, asked.steps - step)
        batches = iter(loader(asked, steps * asked.accumulate * asked.batch))
        for _ in range(steps):
            begin = time.perf_counter()
            if step == asked.die_at and dist.get_rank() == 1 and not first:
                os._exit(3)
            for part in range(asked.accumulate):
                images, labels = next(batches)
                model.require_backward_grad_sync = part == asked.accumulate - 1
                if dist.get_rank() == asked.slow_rank:
                    time.sleep(asked.slow_seconds)
                loss = nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                examples += len(images)
            optimizer.step()
            optimizer.zero_grad()
            seconds.append(time.perf_counter() - begin)
            step += 1
            keep(asked.folder, step)
        validate(model, asked)
    return {
        "first": first,
        "steps": step,
        "examples": examples,
        "seconds": seconds,
        "loss": float(loss.detach()),
    }


def connect() -> None:
    # After a restart torch 2.13's gloo would find the addresses of the dead: each attempt has its own names.
    environ = os.environ
    rank, world = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    serves = rank == 0 and "TORCHELASTIC_RUN_ID" not in environ  # torchrun does so itself
    store = dist.TCPStore(environ["MASTER_ADDR"], int(environ["MASTER_PORT"]), world, serves)
    attempt = dist.PrefixStore("attempt " + environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
    dist.init_process_group("gloo", store=attempt, rank=rank, world_size=world)


def main() -> None:
    asked = options()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    connect()
    model = DistributedDataParallel(network(asked.width))
    said = train(model, asked)
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    said |= {
        "rank": dist.get_rank(),
        "pid": os.getpid(),
        "world": dist.get_world_size(),
        "gradient_bytes": size,
    }
    said |= {"flops_per_step": asked.accumulate * flops(asked.width, asked.batch)}
    said |= {"weights": float(sum(p.detach().double().abs().sum() for p in model.parameters()))}
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
