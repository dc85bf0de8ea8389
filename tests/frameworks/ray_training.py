"""Ray Train with PyTorch: two workers, each of which writes what it did into a file of the folder given."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch

STEPS, BATCH, WIDTH = 30, 64, 512
FLOPS = 2 * 3 * 2 * BATCH * WIDTH * WIDTH - 2 * BATCH * WIDTH * WIDTH  # the input has no gradient


def train(config: dict[str, Any]) -> None:
    context = ray.train.get_context()
    rank = context.get_world_rank()
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    layers = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, WIDTH, bias=False), torch.nn.Linear(WIDTH, WIDTH, bias=False)
    )
    model = ray.train.torch.prepare_model(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    times, last = [], time.perf_counter()
    for _ in range(STEPS):
        x = torch.randn(BATCH, WIDTH)
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(now - last)
        last = now
    line = {"rank": rank, "pid": os.getpid(), "times": times}
    Path(config["folder"], f"{rank}.json").write_text(json.dumps(line))
    ray.train.report({"loss": float(loss)})


if __name__ == "__main__":
    folder = sys.argv[1]
    ray.init(num_cpus=2, include_dashboard=False, _temp_dir=sys.argv[2])
    trainer = ray.train.torch.TorchTrainer(
        train,
        train_loop_config={"folder": folder},
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(storage_path=folder),
    )
    trainer.fit()
    ray.shutdown()
