"""Trains a small classifier with Ray Train's TorchTrainer on a Ray cluster that runs (docs/cluster/ray.md).

    RAY_ADDRESS=auto python examples/ray_train/train.py --workers 2 --storage FOLDER

Nothing in here knows of roofline. --storage: a folder that all nodes see.
"""

from __future__ import annotations

import argparse
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch
from torch import nn

BATCH, PIXELS, WIDTH, CLASSES = 32, 3 * 16 * 16, 512, 10


def train(asked: dict[str, Any]) -> None:
    """What each worker does."""
    torch.set_num_threads(1)
    torch.manual_seed(ray.train.get_context().get_world_rank())
    layers = nn.Sequential(nn.Linear(PIXELS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    model = ray.train.torch.prepare_model(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(asked["steps"]):
        images, labels = torch.randn(BATCH, PIXELS), torch.randint(0, CLASSES, (BATCH,))
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ray.train.report({"loss": float(loss.detach())})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--storage", required=True)
    asked = parser.parse_args()
    ray.init()
    trainer = ray.train.torch.TorchTrainer(
        train,
        train_loop_config={"steps": asked.steps},
        scaling_config=ray.train.ScalingConfig(num_workers=asked.workers, placement_strategy="SPREAD"),
        run_config=ray.train.RunConfig(storage_path=asked.storage),
    )
    print(trainer.fit())


if __name__ == "__main__":
    main()
