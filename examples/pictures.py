"""`make pictures`: real trainings of this machine and, of them, one picture of each kind for docs/pictures.

PS training with TensorFlow and Horovod training with PyTorch (where it is built) at several sizes, a training
with DistributedDataParallel, one of each with traced steps, and the papers' kernels at several batch sizes.
Takes some minutes; data and logs are in the folder `pictures/`.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from services import COMMANDS, ROOT, Services, main, running, say

EXAMPLES = ROOT / "examples"
HOST = platform.node()
RUN = COMMANDS / "roofline-agent"
WORKERS = (1, 2, 4)
BATCHES = (1, 4, 16, 64)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tensorflow-python", type=Path, required=True, help="interpreter with TensorFlow")
    parser.add_argument("--torch-python", type=Path, required=True, help="interpreter with PyTorch")
    parser.add_argument("--folder", type=Path, default=ROOT / "pictures", help="where data and logs go")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "pictures", help="where pictures go")
    return parser.parse_args()


def pictures(options: argparse.Namespace) -> int:
    with running(options.folder, ["--python", options.torch_python]) as services:
        # First: a job is compared with the ceilings that were known when it ran.
        say("the network between the agents: here a node with itself")
        services.ask("bench", "net", "--from", HOST, "--to", HOST, "--quick")
        for workers in WORKERS:
            say(f"TensorFlow, 1 parameter server, {workers} workers")
            train_ps(services, options, workers)
            train_horovod(services, options, workers)
        say("PyTorch, DistributedDataParallel on 2 ranks")
        train_ddp(services, options)
        train_traced(services, options)
        for batch in BATCHES:
            say(f"kernels of the papers, batch {batch}")
            train_kernel(services, options, "conv2d", batch)
            train_kernel(services, options, "lstm", batch)
        time.sleep(2)  # the agent's last batch
        options.to.mkdir(parents=True, exist_ok=True)
        drawn = [draw(services, options.to / f"{name}.png", *asked) for name, asked in ASKED.items()]
        return max(drawn)


TRACED: dict[str, Sequence[str]] = {
    "layers-ps": ("--kind", "layers", "--job", "ps-traced"),
    "layers-ddp": ("--kind", "layers", "--job", "ddp-traced"),
    "roofline-layers": ("--kind", "roofline", "--points", "layer", "--job", "ps-traced"),
}
ASKED: dict[str, Sequence[str]] = {
    "roofline": ("--kind", "roofline", "--job", "ps-2"),
    "hierarchical": ("--kind", "hierarchical", "--job", "conv2d-16", "--points", "kernel"),
    "time": ("--kind", "time", "--experiment", "conv2d", "--over", "batch"),
    "time-lstm": ("--kind", "time", "--experiment", "lstm", "--over", "batch"),
    "trajectory": ("--kind", "trajectory", "--experiment", "scaling", "--over", "workers"),
    "account": ("--kind", "account", "--job", "ddp-2"),
    "breakdown": ("--kind", "breakdown", "--job", "ddp-2", "--by", "rank"),
    "network": ("--kind", "network", "--job", "ddp-2"),
    "steps": ("--kind", "steps", "--job", "ddp-2"),
    **TRACED,
}


def draw(services: Services, file: Path, *asked: str) -> int:
    say(f"roofline-client plot {' '.join(asked)} -o {file.name}")
    return services.ask("plot", *asked, "-o", file)


def train_ps(
    services: Services,
    options: argparse.Namespace,
    workers: int,
    job: str = "",
    more: Sequence[str] = (),
    steps: int = 60,
) -> None:
    """job: one that is not of the experiment; more: options of its wrapper."""
    tags = ["--job", job] if job else ["--job", f"ps-{workers}", "--experiment", "scaling"]
    tags += [] if job else ["--tag", f"workers={workers}"]
    wrapper = " ".join([str(RUN), "run", *tags, *more, "--"])
    launch = EXAMPLES / "tensorflow_ps" / "launch.py"
    logs = services.folder / (job or f"ps-{workers}")
    services.train(
        [
            *(sys.executable, launch, "--python", options.tensorflow_python, "--prefix", wrapper),
            *("--workers", str(workers), "--steps", str(steps), "--logs", logs),
        ]
    )


def train_horovod(services: Services, options: argparse.Namespace, ranks: int) -> None:
    launcher = options.torch_python.with_name("horovodrun")
    if not launcher.exists():
        say(f"Horovod, {ranks} ranks: left out, it is not built ({launcher})")
        return
    say(f"Horovod, {ranks} ranks")
    horovodrun = [launcher, "-np", str(ranks), "-H", f"localhost:{ranks}", "--gloo"]
    tags = ["--job", f"horovod-{ranks}", "--experiment", "scaling", "--tag", f"workers={ranks}"]
    script = [options.torch_python, EXAMPLES / "horovod" / "train_torch.py", "--steps", "60"]
    services.train([*horovodrun, RUN, "run", *tags, "--", *script])


def train_ddp(services: Services, options: argparse.Namespace) -> None:
    torchrun = [options.torch_python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [options.torch_python, EXAMPLES / "torch_ddp" / "train.py", "--steps", "80", "--width", "1024"]
    services.train(
        [*torchrun, "--no-python", RUN, "run", "--job", "ddp-2", "--", *script], OMP_NUM_THREADS="1"
    )


def train_traced(services: Services, options: argparse.Namespace) -> None:
    """Trainings of which the framework's profiler records some steps: by number, and while it runs."""
    say("PyTorch, DistributedDataParallel on 2 ranks, steps 40 to 42 traced")
    torchrun = [options.torch_python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [options.torch_python, EXAMPLES / "torch_ddp" / "train.py", "--steps", "80", "--width", "1024"]
    wrapper = [RUN, "run", "--job", "ddp-traced", "--trace", "40-42", "--no-kernels", "--"]
    services.train([*torchrun, "--no-python", *wrapper, *script, "--epoch", "1000"], OMP_NUM_THREADS="1")
    say("TensorFlow, 1 parameter server, 2 workers, traced while they train")
    with concurrent.futures.ThreadPoolExecutor() as beside:
        training = beside.submit(train_ps, services, options, 2, "ps-traced", ("--no-kernels",), 300)
        while not training.done() and services.ask("trace", "--job", "ps-traced", "--steps", "3"):
            time.sleep(2)  # it has no steps yet
        training.result()


def train_kernel(services: Services, options: argparse.Namespace, name: str, batch: int) -> None:
    tags = ["--job", f"{name}-{batch}", "--experiment", name, "--tag", f"batch={batch}"]
    script = [options.torch_python, EXAMPLES / "kernels" / f"{name}.py", "--batch", str(batch)]
    services.train([RUN, "run", *tags, "--", *script])


if __name__ == "__main__":
    asked = parse()
    sys.exit(main("pictures", lambda: pictures(asked)))
