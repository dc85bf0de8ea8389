"""Real PyTorch trainings of many kinds, a few short steps each: `python torch_loops.py KIND...`.

Each says at its end, as JSON, how many examples each of its optimizer steps had (0: nobody can know), and a
number that is another one if anything was computed differently. Nothing in here knows of roofline. Those that
need several ranks are started by torchrun.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH = 256
STEPS = 6


MADE: list[nn.Module] = []
LOSSES: list[torch.Tensor] = []


def network(width: int = WIDTH) -> nn.Module:
    MADE.append(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)))
    return MADE[-1]


def data(count: int, batch: int, width: int = WIDTH, **options: Any) -> DataLoader:
    return DataLoader(TensorDataset(torch.randn(count, width), torch.randn(count, 1)), batch, **options)


def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
    loss = nn.functional.mse_loss(model(batch[0]), batch[1])
    LOSSES.append(loss.detach())
    return loss


def result() -> str:
    """All that was computed, to the last bit."""
    weights = [getattr(p, "_local_tensor", p).detach() for model in MADE for p in model.parameters()]
    return repr(sum(float(one.double().abs().sum()) for one in weights + LOSSES))


def plain(steps: int) -> list[int]:
    """Batches of 8, the last of 3; after each epoch of 2 a validation of both usual forms."""
    model, made = network(), []
    optimizer = torch.optim.Adam(model.parameters())
    next(iter(data(8, 8)))  # a look at the data before it starts
    while len(made) < steps:
        for batch in data(11, 8, num_workers=1 if not made else 0):
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            optimizer.step()
            made.append(len(batch[0]))
        with torch.no_grad():
            for batch in data(40, 5):
                loss_of(model, batch)
        for batch in data(40, 5):
            with torch.no_grad():
                loss_of(model, batch)
    return made


def accumulate(steps: int) -> list[int]:
    """Three fetches and backwards a step."""
    model, made = network(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batches = iter(data(steps * 24, 8))
    for _ in range(steps):
        for _ in range(3):
            loss_of(model, next(batches)).backward()
        optimizer.step()
        optimizer.zero_grad()
        made.append(24)
    return made


def joined(steps: int) -> list[int]:
    """Two fetches for one backward, the whole training through."""
    model, made = network(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for one, two in zip(data(steps * 4, 4), data(steps * 6, 6), strict=True):
        (loss_of(model, one) + loss_of(model, two)).backward()
        optimizer.step()
        made.append(10)
    return made


def gan(steps: int) -> list[int]:
    """Two optimizers that take turns are one step."""
    judge, painter, made = network(), network(), []
    first = torch.optim.SGD(judge.parameters(), 0.01)
    second = torch.optim.SGD(painter.parameters(), 0.01)
    painter[2] = nn.Linear(WIDTH, WIDTH)
    for batch in data(steps * 8, 8):
        first.zero_grad()
        (judge(batch[0]) - judge(painter(batch[0]).detach())).mean().backward()
        first.step()
        second.zero_grad()
        judge(painter(batch[0])).mean().backward()
        second.step()
        made.append(8)
    return made


def scaler(steps: int) -> list[int]:
    """Mixed precision; the update of gradients that overflow is left out, of a step all the same."""
    model, made = network(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    scaled = torch.amp.GradScaler("cpu", init_scale=2.0)
    for number, batch in enumerate(data(steps * 8, 8)):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, batch)
        scaled.scale(loss * (float("inf") if number == 1 else 1.0)).backward()
        scaled.step(optimizer)
        scaled.update()
        made.append(8)
    return made


def lbfgs(steps: int) -> list[int]:
    """The optimizer calls a closure several times a step."""
    model, made = network(), []
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    for batch in data(steps * 8, 8):

        def closure(batch: Any = batch) -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            return loss

        optimizer.step(closure)
        made.append(8)
    return made


def odd(steps: int) -> list[int]:
    """No DataLoader; a reentrant checkpoint, a graph used twice, a gradient of a gradient, one that fails."""
    from torch.utils.checkpoint import checkpoint

    model, made = network(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        inputs = torch.randn(8, WIDTH, requires_grad=True)
        loss = checkpoint(model, inputs, use_reentrant=True).mean()
        loss.backward()
        loss = model(inputs).mean()
        loss.backward(retain_graph=True)
        loss.backward()
        (slope,) = torch.autograd.grad(model(inputs).square().mean(), inputs, create_graph=True)
        slope.square().sum().backward()
        try:
            loss.backward()
        except RuntimeError:
            made.append(0)
        optimizer.step()
    return made


def compiled(steps: int) -> list[int]:
    model, made = torch.compile(network(), backend="aot_eager"), []
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, WIDTH)).mean().backward()
        optimizer.step()
        made.append(0)
    return made


def lightning(steps: int) -> list[int]:
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    import lightning as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.made = network(), []

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            self.made.append(len(batch[0]))
            return loss_of(self.model, batch)

        def validation_step(self, batch: Any, _: int) -> None:
            loss_of(self.model, batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    module = Module()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(max_steps=steps, accelerator="cpu", enable_model_summary=False, **quiet)
    trainer.fit(module, data(27, 8), data(40, 5))
    return module.made


def transformers(steps: int) -> list[int]:
    """Two fetches a step; accelerate fetches one ahead."""
    warnings.simplefilter("ignore")
    from transformers import Trainer, TrainingArguments
    from transformers.utils import logging as its_logging

    its_logging.set_verbosity_error()
    made: list[int] = []

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            if self.training:
                made.append(len(x))
            return {"loss": nn.functional.mse_loss(self.net(x), labels)}

    rows = [{"x": torch.randn(WIDTH), "labels": torch.randn(1)} for _ in range(16 * steps)]
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no"}
        asked = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=2,
            use_cpu=True,
            **quiet,
        )
        Trainer(Model(), asked, train_dataset=rows).train()
    return [sum(made[at : at + 2]) for at in range(0, len(made), 2)]


def fsdp(steps: int) -> list[int]:
    """FullyShardedDataParallel, nested."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    here = {"device_id": torch.device("cpu")}
    parts = [FullyShardedDataParallel(network()[:2], **here) for _ in range(3)]
    return _sharded(FullyShardedDataParallel(nn.Sequential(*parts, nn.Linear(WIDTH, 1)), **here), steps)


def fully_shard(steps: int) -> list[int]:
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(*(network()[:2] for _ in range(3)), nn.Linear(WIDTH, 1))
    for part in model[:3]:
        fully_shard(part)
    return _sharded(fully_shard(model), steps)


def _sharded(model: nn.Module, steps: int) -> list[int]:
    optimizer, made = torch.optim.SGD(model.parameters(), 0.01), []
    for batch in data(steps * 8, 8):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
        made.append(8)
    return made


def by_hand(steps: int) -> list[int]:
    """Gradients averaged by calls of all_reduce; rank 1 is late by 30 ms."""
    model, made = network(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    for batch in data(steps * 8, 8):
        loss_of(model, batch).backward()
        if dist.get_rank() == 1:
            time.sleep(0.03)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        optimizer.step()
        optimizer.zero_grad()
        made.append(8)
    return made


def by_hand_async(steps: int) -> list[int]:
    model, made = network(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    alone = dist.new_group([0])
    for batch in data(steps * 8, 8):
        loss_of(model, batch).backward()
        works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
        for work in works:
            work.wait()
        dist.barrier()
        parts = [torch.empty(4) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, torch.ones(4))
        if dist.get_rank() == 0:
            dist.send(torch.ones(16), 1)
            dist.all_reduce(torch.ones(8), dist.ReduceOp.SUM, alone)
            dist.gather(torch.ones(4), parts)
        elif dist.get_rank() == 1:
            dist.recv(torch.ones(16), 0)
            dist.gather(torch.ones(4))
        optimizer.step()
        optimizer.zero_grad()
        made.append(8)
    return made


def ddp_odd(steps: int) -> list[int]:
    """What DDP allows: backwards of one rank, checkpoints, a graph kept, unused parameters, failures."""
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.checkpoint import checkpoint

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.norm, self.unused = network()[:2], nn.BatchNorm1d(WIDTH), nn.Linear(4, 4)
            self.head = nn.Linear(WIDTH, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.norm(checkpoint(self.body, x, use_reentrant=False)))

    model = DistributedDataParallel(Model(), find_unused_parameters=True)
    optimizer, made = torch.optim.SGD(model.parameters(), 0.01), []
    for batch in data(steps * 16, 8):
        if not made:
            torch.manual_seed(dist.get_rank())
        with model.no_sync():
            loss_of(model, batch).backward()
        loss = loss_of(model, batch)
        loss.backward(retain_graph=True)
        try:
            torch.autograd.backward([torch.zeros(1)])
        except RuntimeError:
            made.append(8)
        optimizer.step()
        optimizer.zero_grad()
        if len(made) == steps:
            break
    return made


KINDS = {
    f.__name__: f
    for f in (
        *(plain, accumulate, joined, gan, scaler, lbfgs, odd, compiled, lightning, transformers),
        *(fsdp, fully_shard, by_hand, by_hand_async, ddp_odd),
    )
}
RANKS = (fsdp, fully_shard, by_hand, by_hand_async, ddp_odd)


def train(kind: str) -> None:
    torch.manual_seed(0)
    MADE.clear()
    LOSSES.clear()
    examples = KINDS[kind](STEPS)
    said = {"rank": dist.get_rank() if dist.is_initialized() else 0, "pid": os.getpid(), "kind": kind}
    # One write: the lines of several ranks must not mix.
    sys.stdout.write(json.dumps({**said, "examples": examples, "result": result()}) + "\n")
    sys.stdout.flush()
    gc.collect()  # the optimizer goes before the next one comes


def main() -> None:
    torch.set_num_threads(1)
    kinds = sys.argv[1:]
    ranks = KINDS[kinds[0]] in RANKS
    if ranks:
        dist.init_process_group("gloo")
    for kind in kinds:
        train(kind)
    if ranks:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
