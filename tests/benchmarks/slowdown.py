"""By how much profiling slows a training down, on a machine that is noisy.

Runs that follow one another differ by more than the cost that is looked for. So the bare training and the
profiled ones are started together and take turns of a second: all processes of the others are stopped
(SIGSTOP) meanwhile, and a bare turn lies between any two. Each turn of a profiled training is compared with
the bare turns before and after it, so that a drift of the machine cancels; what is said is the median of
these ratios with its bootstrap interval. Each profiled training has an agent of its own, which takes its
turns with it: what it costs counts too. Its server, which stands on another machine in any cluster, gets its
time between the turns. A turn in which other programs or the hypervisor took CPU is repeated.

Two processes of one program differ by some percent for as long as they live, as their pages lie in the
caches. So several pairs are started one after the other, and all have large pages where glibc can be asked
for them.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from . import quiet
from .site import COMMANDS, REPOSITORY, Node, Result, node, wait_until
from .trainings.step_clock import read_clock
from .turns import Interval, Steps, Turn, against_neighbours, interval, steps_of, verdict

TRAININGS = Path(__file__).parent / "trainings"
TURN_S, LEAST_STEPS = 1.0, 20  # a turn has so many steps at least
LEAD_S = 0.06  # before each turn: what an agent has to catch up with after its stop does not count
PAIRS = 15  # of turns, of each pair of processes
ROUNDS, QUICK = 4, 1  # pairs of processes
LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
WARM_S, WARM_STEPS = 4.0, 100
MOST_REPEATS = 3  # of so many turns as there are: then the machine is not quiet enough
INTERVAL_S = 1.0  # the agent's own default


class Training(NamedTuple):
    """A training with a step clock. command: python, words before a rank's command, arguments."""

    what: str
    step_ms: float
    limit: float
    command: Callable[[str, str, Sequence[str]], list[str]]


def one_process(script: str, *fixed: str) -> Callable[[str, str, Sequence[str]], list[str]]:
    return lambda python, prefix, words: [*prefix.split(), python, str(TRAININGS / script), *fixed, *words]


def torchrun(python: str, prefix: str, words: Sequence[str]) -> list[str]:
    launcher = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    return [*launcher, *prefix.split(), python, str(TRAININGS / "torch_cnn.py"), *words]


def parameter_servers(python: str, prefix: str, words: Sequence[str]) -> list[str]:
    return [python, str(TRAININGS / "tensorflow_ps.py"), f"--prefix={prefix}", *words]


TORCH = {
    "torch-5ms": Training("PyTorch", 5, 0.01, one_process("torch_cnn.py")),
    "torch-10ms": Training("PyTorch", 10, 0.01, one_process("torch_cnn.py")),
    # Of many layers: with two of them and large batches, turns differ by 5 to 10 %.
    "torch-50ms": Training("PyTorch", 50, 0.005, one_process("torch_cnn.py", "--layers=40")),
    # The node has a CPU that the training does not use.
    "torch-50ms-1-thread": Training(
        "PyTorch, 1 thread", 50, 0.005, one_process("torch_cnn.py", "--layers=20", "--threads=1")
    ),
    "torch-ddp": Training("PyTorch DDP, 2 ranks", 10, 0.01, torchrun),
}
TENSORFLOW = {
    "keras": Training("Keras fit", 5, 0.01, one_process("keras_fit.py")),
    "tensorflow-loop": Training("TensorFlow, tf.function", 5, 0.01, one_process("tensorflow_loop.py")),
    "tensorflow-ps": Training("TensorFlow PS, 2 workers", 10, 0.01, parameter_servers),
}

RUN = f"{COMMANDS / 'roofline-agent'} run --job 1"


class Setup(NamedTuple):
    """What surrounds a training: words before a rank's command and variables."""

    prefix: str = ""
    environ: dict[str, str] = {}  # noqa: RUF012 - never changed
    server: bool = False  # on the machine of the training, too


SETUPS = {
    "nothing": Setup(),  # what the measurement itself shows where there is no difference
    "default": Setup(f"{RUN} --"),
    "all-kernels": Setup(f"{RUN} --kernels all --"),
    "server": Setup(f"{RUN} --", server=True),
    "no-kernels": Setup(f"{RUN} --no-kernels --"),
    "hooks": Setup(environ={"PYTHONPATH": str(REPOSITORY / "agent/roofline_agent/hooks/inject")}),
    "wrapper": Setup(f"{RUN} --no-kernels --no-steps --"),
    # Found by the agent and sampled, but without any code of ours in or around it.
    "agent": Setup(environ={"ROOFLINE_JOB": "1", "ROOFLINE_ROLE": "worker", "ROOFLINE_RANK": "0"}),
}


class Side:
    """One of the trainings, and what belongs to it."""

    def __init__(self, clock: Path, command: Sequence[str], environ: dict[str, str], log: Path) -> None:
        self.clock = str(clock)
        with open(log, "ab") as file:
            self._process = subprocess.Popen(command, env=environ, stdout=file, stderr=file)
        self.training: list[psutil.Process] = []
        self.beside: list[psutil.Process] = []
        self.elsewhere: list[psutil.Process] = []

    @property
    def processes(self) -> list[psutil.Process]:
        return [*self.elsewhere, *self.beside, *self.training]

    def find(self, beside: Sequence[psutil.Process], elsewhere: Sequence[psutil.Process] = ()) -> None:
        """Sort the processes into the training, what stands next to it and what would be elsewhere."""
        mine = psutil.Process(self._process.pid)
        tree = [mine, *mine.children(recursive=True)]
        wrappers = [one for one in tree if one.cmdline()[1:2] == [RUN.split()[0]]]
        self.training = [one for one in tree if one not in wrappers]
        self.beside, self.elsewhere = [*beside, *wrappers], list(elsewhere)

    def wait_until_warm(self) -> None:
        """Until it has made some steps, and for some seconds more."""

        def is_warm() -> bool:
            if self._process.poll() is not None:
                raise RuntimeError(f"the training ended with status {self._process.returncode}")
            return len(read_clock(self.clock)) >= WARM_STEPS

        wait_until(is_warm, 180)
        time.sleep(WARM_S)

    def run(self, seconds: float, number: int) -> Turn:
        """Let it run for one turn."""
        send([*self.elsewhere, *self.beside], signal.SIGCONT)
        time.sleep(LEAD_S)
        send(self.elsewhere, signal.SIGSTOP)
        before = [sum_cpu_ns(self.training), sum_cpu_ns(self.beside)]
        begin_ns = time.monotonic_ns()
        send(self.training, signal.SIGCONT)
        time.sleep(seconds)
        end_ns = time.monotonic_ns()
        self.stop()
        after = [sum_cpu_ns(self.training), sum_cpu_ns(self.beside)]
        return Turn(number, begin_ns, end_ns, after[0] - before[0], after[1] - before[1])

    def stop(self) -> None:
        send([*self.training, *self.beside, *self.elsewhere], signal.SIGSTOP)

    def kill(self) -> None:
        with suppress(psutil.NoSuchProcess):
            mine = psutil.Process(self._process.pid)
            send([*mine.children(recursive=True)[::-1], mine], signal.SIGKILL)
        self._process.wait(timeout=60)


def send(processes: Sequence[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def sum_cpu_ns(processes: Sequence[psutil.Process]) -> int:
    total = 0
    for process in processes:
        with suppress(OSError):
            total += quiet.cpu_ns(process.pid)
    return total


class Round(NamedTuple):
    """The turns of one pair of processes (or more, with several setups), and the steps in them."""

    turns: list[Turn]
    steps: list[Steps | None]
    repeated: int  # turns

    def ratios(self, number: int, field: str) -> list[float]:
        """What this side takes more than the bare one."""
        values = [None if one is None else float(getattr(one, field)) for one in self.steps]
        return against_neighbours([turn.side for turn in self.turns], values).get(number, [])


def slowdown(
    training: Training,
    python: str,
    rounds: int = ROUNDS,
    setups: Sequence[str] = ("default",),
    interval_s: float = INTERVAL_S,
) -> Iterator[Result]:
    """Profiled against bare, a line for each setup."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing is left behind stopped
    with node() as here:
        words = [f"--batch={found_batch(here, training, python)}"]
    done = [_round(training, python, words, setups, interval_s) for _ in range(rounds)]
    for number, name in enumerate(setups, 1):
        yield _result(training, name, number, done)


def _round(
    training: Training, python: str, words: Sequence[str], setups: Sequence[str], interval_s: float
) -> Round:
    with ExitStack() as ends:
        sides = [ends.enter_context(_bare_side(training, python, words))]
        for name in setups:
            start = _bare_side if name == "nothing" else _profiled_side
            sides.append(ends.enter_context(start(training, python, words, SETUPS[name], interval_s)))
        bare_s = _seconds_of_a_step(sides[0])
        turns, repeated = _take_turns(sides, PAIRS, max(TURN_S, LEAST_STEPS * bare_s))
        ends_ns = [read_clock(side.clock) for side in sides]
    return Round(turns, [steps_of(turn, ends_ns[turn.side]) for turn in turns], repeated)


def found_batch(here: Node, training: Training, python: str) -> int:
    command = training.command(python, "", [f"--find={training.step_ms}"])
    log = here.folder / "trial"
    with open(log, "wb") as file:
        found = subprocess.run(command, env=here.environ, stdout=subprocess.PIPE, stderr=file, timeout=180)
    if found.returncode:
        raise RuntimeError(f"the trial failed: {log.read_text()[-2000:]}")
    return int(found.stdout.split()[-1])


@contextmanager
def _bare_side(
    training: Training, python: str, words: Sequence[str], setup: Setup = SETUPS["nothing"], _: float = 0
) -> Iterator[Side]:
    # Agents leave processes with another agent's socket alone.
    with node() as here, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as nobody:
        nobody.bind(here.environ["ROOFLINE_SOCKET"])
        with started(here, training, python, words, setup) as side:
            side.find([])
            side.stop()
            yield side


@contextmanager
def _profiled_side(
    training: Training, python: str, words: Sequence[str], setup: Setup, interval_s: float
) -> Iterator[Side]:
    with node() as here, here.server() as server, here.agent(interval_s) as agent:
        try:
            with started(here, training, python, words, setup) as side:
                side.find(*(([agent, server], []) if setup.server else ([agent], [server])))
                side.stop()
                yield side
        finally:
            send([agent, server], signal.SIGCONT)


@contextmanager
def started(
    here: Node, training: Training, python: str, words: Sequence[str], setup: Setup
) -> Iterator[Side]:
    clock = here.folder / "clock"
    command = training.command(python, setup.prefix, [*words, f"--clock={clock}"])
    side = Side(clock, command, {**here.environ, **LARGE_PAGES, **setup.environ}, here.folder / "log")
    try:
        try:
            side.wait_until_warm()
        except (RuntimeError, TimeoutError):
            print((here.folder / "log").read_text()[-2000:], file=sys.stderr)
            raise
        yield side
    finally:
        side.kill()


def _seconds_of_a_step(side: Side) -> float:
    ends = read_clock(side.clock)[WARM_STEPS // 2 :]
    return statistics.median(b - a for a, b in itertools.pairwise(ends)) / 1e9


def _take_turns(sides: Sequence[Side], pairs: int, turn_s: float) -> tuple[list[Turn], int]:
    """All turns on a quiet machine, and how many were repeated."""
    profiled = range(1, len(sides))
    order = [0] + [number for _ in range(pairs) for one in profiled for number in (one, 0)]
    turns: list[Turn] = []
    repeated, cpus = 0, os.cpu_count() or 1
    while len(turns) < len(order):
        number = order[len(turns)]
        if not quiet.wait_until_quiet():
            raise RuntimeError("other programs use this machine's CPUs: nothing can be measured")
        before = quiet.usage()
        turn = sides[number].run(turn_s, number)
        ours = {os.getpid(), *(process.pid for process in sides[number].processes)}
        if quiet.noise(before, quiet.usage(), ours, cpus).is_quiet:
            turns.append(turn)
        else:
            repeated += 1
            if repeated > MOST_REPEATS * len(order):
                raise RuntimeError(
                    f"{repeated} turns were disturbed by other programs: nothing can be measured"
                )
    return turns, repeated


def _result(training: Training, setup: str, number: int, rounds: Sequence[Round]) -> Result:
    turns = [turn for one in rounds for turn in one.turns]
    mine = [turn for turn in turns if turn.side == number]

    def compared(field: str) -> Interval:
        groups = [one.ratios(number, field) for one in rounds]
        if 2 * sum(map(len, groups)) < len(mine):
            raise RuntimeError(f"{sum(map(len, groups))} of {len(mine)} pairs of turns have enough steps")
        return interval(groups)

    mean, median, cpu = compared("mean"), compared("median"), compared("cpu")
    bare = [
        steps.median
        for one in rounds
        for turn, steps in zip(one.turns, one.steps, strict=True)
        if steps and not turn.side
    ]
    beside = sum(turn.beside_ns for turn in mine) / sum(turn.end_ns - turn.begin_ns for turn in mine)
    what = f"slowdown, {training.what}, {1e3 * statistics.median(bare):.1f} ms, {setup}"
    measured = f"{verdict(mean, training.limit)}: {mean}"
    noted = (
        f"median step {median}; CPU of a step {cpu}; wrapper, agent {beside:.2%} of a core; "
        f"{len(mine)} pairs of turns of {len(rounds)} pairs of processes, "
        f"{sum(one.repeated for one in rounds)} turns repeated; intervals of 95 %"
    )
    return Result(what, f"{training.limit:.1%}", measured, mean.high < training.limit, noted)
