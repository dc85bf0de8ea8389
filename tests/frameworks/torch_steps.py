"""PyTorch trainings that time themselves, of many structures: `python torch_steps.py KIND...`.

Each prints as JSON when each of its steps began and ended by its own clock (time.monotonic_ns), and what it
did between two of them. Nothing in here knows of roofline. Those in RANKS are started by torchrun.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH, BATCH, STEPS = 384, 192, 40
now = time.monotonic_ns


class Clock:
    """Steps as the training sees them, and what lies between two of them."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.between: list[tuple[str, int, int]] = []
        self._last = now()

    def step(self) -> None:
        """A step is over; it began with the end of what was before it."""
        end = now()
        self.steps.append((self._last, end))
        self._last = end

    def did(self, kind: str) -> None:
        """Something else is over."""
        end = now()
        self.between.append((kind, self._last, end))
        self._last = end

    def again(self) -> None:
        """The next step begins now."""
        self._last = now()


Between = Callable[[nn.Module], None]


def network(out: int = 1) -> nn.Sequential:
    layers = [nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, out)]
    return nn.Sequential(*layers)


def data(steps: int = STEPS) -> DataLoader[Any]:
    count = steps * BATCH
    return DataLoader(TensorDataset(torch.randn(count, WIDTH), torch.randn(count, 1)), BATCH)


def random_batch() -> list[torch.Tensor]:
    return [torch.randn(BATCH, WIDTH), torch.randn(BATCH, 1)]


def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.mse_loss(model(batch[0]), batch[1])


# -- what lies between steps ------------------------------------------------------------------------


def ordinary(clock: Clock) -> None:
    """Scheduler, logging, averaged weights and zero_grad belong to the steps."""
    model, averaged = network(), network()
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    clock.again()
    for batch in data():
        loss = loss_of(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        clock.step()
        schedule.step()
        with torch.no_grad():
            for own, other in zip(averaged.parameters(), model.parameters(), strict=True):
                own.lerp_(other, 0.1)
        loss.item()
        optimizer.zero_grad()


def acting(clock: Clock) -> None:
    """What is done without gradients before every update, and in eval mode, is part of the step."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters())
    clock.again()
    for _ in range(STEPS):
        model.eval()
        with torch.no_grad():
            batch = [torch.randn(BATCH, WIDTH), model(torch.randn(BATCH, WIDTH))]
        model.train()
        loss_of(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        clock.step()


def _with(kind: str, between: Between, from_loader: bool = True) -> Callable[[Clock], None]:
    """A training that does something else after every eighth step."""

    def training(clock: Clock) -> None:
        model = network()
        optimizer = torch.optim.AdamW(model.parameters())
        batches = data() if from_loader else (random_batch() for _ in range(STEPS))
        clock.again()
        for number, batch in enumerate(batches, 1):
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            optimizer.step()
            clock.step()
            if number % 8 == 0:
                between(model)
                clock.did(kind)

    return training


def _no_gradients(model: nn.Module) -> None:
    with torch.no_grad():
        for _ in range(12):
            model(random_batch()[0])


def _eval_mode(model: nn.Module) -> None:
    model.eval()
    for _ in range(12):
        model(random_batch()[0])
    model.train()


_validation: list[DataLoader[Any]] = []


def _loader() -> DataLoader[Any]:
    if not _validation:
        _validation.append(data(12))
    return _validation[0]


def _inference(model: nn.Module) -> None:
    with torch.inference_mode():
        for batch in _loader():
            model(batch[0])


def _batches(model: nn.Module) -> None:
    for batch in _loader():
        with torch.no_grad():
            model(batch[0])


def _save(model: nn.Module) -> None:
    state = {f"{name} {k}": value.clone() for k in range(5) for name, value in model.state_dict().items()}
    for name in ("model.pt", "again.pt"):
        torch.save(state, os.path.join(os.environ["TMPDIR"], name))


def _evaluate_and_save(model: nn.Module) -> None:
    model.eval()
    _inference(model)
    _save(model)
    model.train()


def inside(clock: Clock) -> None:
    """An evaluation between two backwards of one step is in it."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters())
    batches = iter(data(2 * STEPS))
    clock.again()
    for number in range(STEPS):
        for half in range(2):
            loss_of(model, next(batches)).backward()
            if half == 0 and number % 8 == 5:
                model.eval()
                _inference(model)
                model.train()
        optimizer.step()
        optimizer.zero_grad()
        clock.step()


# -- which updates are a step -----------------------------------------------------------------------


def gan(clock: Clock) -> None:
    judge, painter = network(), network(WIDTH)
    first = torch.optim.AdamW(judge.parameters())
    second = torch.optim.AdamW(painter.parameters())
    clock.again()
    for batch in data():
        first.zero_grad()
        (judge(batch[0]) - judge(painter(batch[0]).detach())).mean().backward()
        first.step()
        second.zero_grad()
        judge(painter(batch[0])).mean().backward()
        second.step()
        clock.step()


def wgan(clock: Clock) -> None:
    """Five updates of the critic for one of the generator, which ends the fifth step."""
    judge, painter = network(), network(WIDTH)
    first = torch.optim.AdamW(judge.parameters())
    second = torch.optim.AdamW(painter.parameters())
    clock.again()
    for number, batch in enumerate(data(), 1):
        first.zero_grad()
        (judge(batch[0]) - judge(painter(batch[0]).detach())).mean().backward()
        first.step()
        if number % 5 == 0:
            second.zero_grad()
            judge(painter(batch[0])).mean().backward()
            second.step()
        clock.step()


def replaced(clock: Clock) -> None:
    """A new optimizer of the same model, twice."""
    model = network()
    clock.again()
    for number, batch in enumerate(data()):
        if number % 15 == 0:
            optimizer = torch.optim.SGD(model.parameters(), 0.01 / (1 + number))
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
        clock.step()


def in_backward(clock: Clock) -> None:
    """An optimizer for each parameter, which steps as soon as its gradient is there."""
    model = network()
    own = {p: torch.optim.SGD([p], 0.01) for p in model.parameters()}

    def update(parameter: torch.Tensor) -> None:
        own[parameter].step()
        own[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    clock.again()
    for batch in data():
        loss_of(model, batch).backward()
        clock.step()


class _Wrapper:
    """As Megatron's optimizers: no optimizer of torch, but it calls one and copies the weights afterwards."""

    def __init__(self, parts: list[nn.Module]) -> None:
        self.parts = parts
        self.main = [[p.detach().clone() for p in part.parameters()] for part in parts]
        self.inner = [torch.optim.AdamW(main) for main in self.main]

    def step(self) -> None:
        for part, main, inner in zip(self.parts, self.main, self.inner, strict=True):
            for own, parameter in zip(main, part.parameters(), strict=True):
                own.grad, parameter.grad = parameter.grad, None
            inner.step()
            with torch.no_grad():
                for own, parameter in zip(main, part.parameters(), strict=True):
                    parameter.copy_(own)


def chunks(clock: Clock) -> None:
    """Two chunks of a model, micro-batches, one wrapped optimizer with one of torch's for each chunk."""
    parts: list[nn.Module] = [network(WIDTH), network()]
    optimizer = _Wrapper(parts)
    batches = iter(data(2 * STEPS))
    clock.again()
    for _ in range(STEPS):
        for _ in range(2):
            batch = next(batches)
            loss_of(parts[1], [parts[0](batch[0]), batch[1]]).backward()
        optimizer.step()
        clock.step()


class _Container(torch.optim.Optimizer):
    """As torchtitan's: an optimizer of torch that calls one for each part of the model."""

    def __init__(self, parts: list[nn.Module]) -> None:
        self.inner = [torch.optim.AdamW(part.parameters()) for part in parts]
        super().__init__([p for part in parts for p in part.parameters()], {})

    def step(self, closure: Any = None) -> None:
        for one in self.inner:
            one.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for one in self.inner:
            one.zero_grad(set_to_none)


def container(clock: Clock) -> None:
    parts: list[nn.Module] = [network(WIDTH), network()]
    optimizer = _Container(parts)
    clock.again()
    for batch in data():
        loss_of(nn.Sequential(*parts), batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        clock.step()


# -- without an optimizer ---------------------------------------------------------------------------


def by_hand(clock: Clock) -> None:
    model = network()
    clock.again()
    for batch in data():
        loss_of(model, batch).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
                parameter.grad = None
        clock.step()


def by_hand_data(clock: Clock) -> None:
    """As it was written before there was `no_grad`, of three backwards each."""
    model = network()
    batches = iter(data(3 * STEPS))
    clock.again()
    for _ in range(STEPS):
        for _ in range(3):
            loss_of(model, next(batches)).backward()
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-0.01)
            parameter.grad.zero_()
        clock.step()


def late(clock: Clock) -> None:
    """Ten updates by hand, the others by an optimizer."""
    model, optimizer = network(), None
    clock.again()
    for number, batch in enumerate(data()):
        if number == 10:
            optimizer = torch.optim.SGD(model.parameters(), 0.01)
        loss_of(model, batch).backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
        else:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.01 * parameter.grad
                    parameter.grad = None
        clock.step()


# -- trainers ---------------------------------------------------------------------------------------


def accelerate(clock: Clock) -> None:
    """Two micro-batches a step; the whole state is saved after every eighth."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    plain = network()
    made = accelerator.prepare(plain, torch.optim.AdamW(plain.parameters()), data(2 * STEPS))
    model, optimizer, batches = made
    clock.again()
    for batch in batches:
        with accelerator.accumulate(model):
            accelerator.backward(loss_of(model, batch))
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            clock.step()
            if len(clock.steps) % 8 == 0:
                accelerator.save_state(os.path.join(os.environ["TMPDIR"], "state"))
                clock.did("checkpoint")


def trainer(clock: Clock) -> None:
    """Transformers' Trainer evaluates after every eighth step, and saves."""
    from transformers import Trainer, TrainerCallback, TrainingArguments
    from transformers.utils import logging

    logging.set_verbosity_error()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": nn.functional.mse_loss(self.net(x), labels)}

    class Times(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.step()

        def on_evaluate(self, *_: Any, **__: Any) -> None:
            clock.did("evaluation")

        def on_save(self, *_: Any, **__: Any) -> None:
            clock.did("checkpoint")

    rows = [{"x": torch.randn(WIDTH), "labels": torch.randn(1)} for _ in range(2 * BATCH * STEPS)]
    asked = TrainingArguments(
        output_dir=os.environ["TMPDIR"],
        max_steps=STEPS,
        per_device_train_batch_size=2 * BATCH,
        per_device_eval_batch_size=2 * BATCH,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        eval_strategy="steps",
        save_strategy="steps",
        eval_steps=8,
        save_steps=8,
        save_total_limit=None,
    )
    made = Trainer(Model(), asked, train_dataset=rows, eval_dataset=rows[: 4 * BATCH], callbacks=[Times()])
    clock.again()
    made.train()


def lightning(clock: Clock) -> None:
    """Validation after every eighth batch."""
    _fit(clock, _Plain, data(), data(6), val_check_interval=8)


def lightning_gan(clock: Clock) -> None:
    """Two optimizers, stepped by hand."""
    _fit(clock, _Manual, data())


def _fit(clock: Clock, make: Any, *loaders: Any, **options: Any) -> None:
    import logging
    import warnings

    import lightning as pl

    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")

    class Times(pl.Callback):
        def on_train_batch_end(self, *_: Any) -> None:
            clock.step()

        def on_validation_end(self, trainer: Any, *_: Any) -> None:
            if not trainer.sanity_checking:
                clock.did("evaluation")

        def on_train_start(self, *_: Any) -> None:
            clock.again()

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    made = pl.Trainer(
        max_epochs=1, accelerator="cpu", enable_model_summary=False, callbacks=[Times()], **quiet, **options
    )
    made.fit(make(pl), *loaders)


def _Plain(pl: Any) -> Any:
    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = network()

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            return loss_of(self.model, batch)

        def validation_step(self, batch: Any, _: int) -> None:
            loss_of(self.model, batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    return Module()


def _Manual(pl: Any) -> Any:
    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.judge, self.painter = network(), network(WIDTH)
            self.automatic_optimization = False

        def training_step(self, batch: Any, _: int) -> None:
            first, second = self.optimizers()
            first.zero_grad()
            self.manual_backward((self.judge(batch[0]) - self.judge(self.painter(batch[0]).detach())).mean())
            first.step()
            second.zero_grad()
            self.manual_backward(self.judge(self.painter(batch[0])).mean())
            second.step()

        def configure_optimizers(self) -> Any:
            return [torch.optim.AdamW(one.parameters()) for one in (self.judge, self.painter)]

    return Module()


# -- several ranks ----------------------------------------------------------------------------------


def _zero(stage: int) -> Callable[[Clock], None]:
    """DeepSpeed: two micro-batches a step."""

    def training(clock: Clock) -> None:
        os.environ["DS_ACCELERATOR"] = "cpu"
        import deepspeed
        from deepspeed.utils import logger

        logger.setLevel("ERROR")
        deepspeed.init_distributed("gloo")
        model = network()
        engine, _, _, _ = deepspeed.initialize(
            model=model,
            optimizer=torch.optim.AdamW(model.parameters()),
            config={
                "train_micro_batch_size_per_gpu": BATCH,
                "gradient_accumulation_steps": 2,
                "zero_optimization": {"stage": stage},
                "zero_allow_untested_optimizer": True,
                "zero_force_ds_cpu_optimizer": False,
            },
        )
        batches = iter(data(2 * STEPS))
        clock.again()
        for _ in range(STEPS):
            for _ in range(2):
                engine.backward(loss_of(engine, next(batches)))
                engine.step()
            clock.step()

    return training


def _sharded(kind: str) -> Callable[[Clock], None]:
    """DDP and both kinds of FSDP, an evaluation and a checkpoint after every eighth step."""

    def training(clock: Clock) -> None:
        dist.init_process_group("gloo")
        model: nn.Module = network()
        if kind == "ddp":
            model = nn.parallel.DistributedDataParallel(model)
        elif kind == "fsdp":
            from torch.distributed.fsdp import FullyShardedDataParallel

            model = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
        else:
            from torch.distributed.fsdp import fully_shard

            model = fully_shard(model)
        optimizer = torch.optim.AdamW(model.parameters())
        clock.again()
        for number, batch in enumerate(data(), 1):
            loss_of(model, batch).backward()
            optimizer.step()
            optimizer.zero_grad()
            clock.step()
            if number % 8 == 0:
                _eval_mode(model)
                clock.did("evaluation")
                import torch.distributed.checkpoint as saved

                saved.save(
                    {"model": model.state_dict()} if kind != "fsdp" else {"step": torch.ones(1)},
                    checkpoint_id=os.path.join(os.environ["TMPDIR"], str(number)),
                )
                clock.did("checkpoint")

    return training


ALONE: dict[str, Callable[[Clock], None]] = {
    "ordinary": ordinary,
    "acting": acting,
    "no_gradients": _with("evaluation", _no_gradients, from_loader=False),
    "eval_mode": _with("evaluation", _eval_mode),
    "inference": _with("evaluation", _inference),
    "batches": _with("evaluation", _batches),
    "save": _with("checkpoint", _save),
    "both": _with("", _evaluate_and_save),
    "inside": inside,
    "gan": gan,
    "wgan": wgan,
    "replaced": replaced,
    "in_backward": in_backward,
    "chunks": chunks,
    "container": container,
    "by_hand": by_hand,
    "by_hand_data": by_hand_data,
    "late": late,
}
TRAINERS: dict[str, Callable[[Clock], None]] = {
    "accelerate": accelerate,
    "trainer": trainer,
    "lightning": lightning,
    "lightning_gan": lightning_gan,
}
RANKS: dict[str, Callable[[Clock], None]] = {
    "ddp": _sharded("ddp"),
    "fsdp": _sharded("fsdp"),
    "fully_shard": _sharded("fully_shard"),
    "zero0": _zero(0),
    "zero1": _zero(1),
    "zero2": _zero(2),
    "zero3": _zero(3),
}
KINDS = {**ALONE, **TRAINERS, **RANKS}


def main() -> None:
    """Several kinds each have a process of their own, forked from this one: loading PyTorch takes longer than
    a training."""
    *several, last = sys.argv[1:]
    for kind in several:
        child = os.fork()
        if child == 0:
            train(kind)
            return
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{kind} failed")
    train(last)


def waited_ns() -> int:
    """How long the main thread, ready to run, has waited for a CPU that others had."""
    try:
        with open("/proc/self/schedstat") as file:
            return int(file.read().split()[1])
    except OSError:
        return 0


def train(kind: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    clock, before = Clock(), waited_ns()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder
        KINDS[kind](clock)
    rank = dist.get_rank() if dist.is_initialized() else 0
    own = {"rank": rank, "pid": os.getpid(), "kind": kind, "steps": clock.steps, "between": clock.between}
    own["waited_ns"] = waited_ns() - before
    sys.stdout.write(json.dumps(own) + "\n")
    sys.stdout.flush()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
