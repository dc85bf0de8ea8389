"""Whether `roofline-agent run` slows a training down by less than one percent, on a machine that is noisy.

Runs that follow one another differ by more than that here. So the bare and the wrapped training are started
together and take turns: all processes of one are stopped (SIGSTOP) while the other runs, for two seconds.
Each turn of the wrapped one is held against the bare turns before and after it, so that a drift of the
machine cancels; what is said is the median of these ratios with its bootstrap interval. The agent (10 Hz) is
stopped with the wrapped training: what it costs counts too.
"""

from __future__ import annotations

import json
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from .site import COMMANDS, REPOSITORY, Node, Result, node

TURN_S = 2.0
PAIRS, QUICK = 30, 8
WARM_S = 15.0
TRIAL = 100  # steps of a run that finds out how long one takes
AFTER_RESUME = 1  # chunks of steps that are left out: caches are cold
RESAMPLES, CONFIDENCE = 4000, 0.95
LIMIT = 0.01


class Training(NamedTuple):
    """A training that tells at its end how long its steps took by its own clock."""

    what: str
    command: Callable[[str, str, int], list[str]]  # python, wrapper, steps -> command
    chunks: Callable[[str], list[float]]  # its output -> seconds of each step, or of so many
    steps: float  # of each rank in such a chunk
    tells_at_end: bool  # and not before: it must be let end


def torch_command(python: str, wrapper: str, steps: int) -> list[str]:
    train = REPOSITORY / "examples" / "torch_ddp" / "train.py"
    run = [*(wrapper or "").split(), python, str(train), "--steps", str(steps), "--epoch", str(steps)]
    bare = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    return [*bare, *run, "--batch", "128"]


def torch_chunks(printed: str) -> list[float]:
    said = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return next(list(map(float, one["seconds"])) for one in said if one["rank"] == 0)


EVERY, IMAGES = 2, 32  # steps of both workers between two lines, images of one


def tensorflow_command(python: str, wrapper: str, steps: int) -> list[str]:
    launch = REPOSITORY / "examples" / "tensorflow_ps" / "launch.py"
    command = [sys.executable, str(launch), "--python", python, "--steps", str(steps), "--log-every"]
    return [*command, str(EVERY), "--prefix", wrapper]


def tensorflow_chunks(printed: str) -> list[float]:
    rates = re.findall(r"^step: .* images/sec: ([0-9.]+)", printed, re.MULTILINE)
    return [EVERY * IMAGES / float(rate) for rate in rates]


TORCH = Training("PyTorch DDP, 2 ranks", torch_command, torch_chunks, 1, True)
TENSORFLOW = Training("TensorFlow PS, 2 workers", tensorflow_command, tensorflow_chunks, EVERY / 2, False)


class Side(NamedTuple):
    """One of the two, while it runs."""

    process: subprocess.Popen[bytes]
    printed: Path

    def tree(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            mine = psutil.Process(self.process.pid)
            return [mine, *mine.children(recursive=True)]
        return []


def send(processes: Sequence[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def cpu_ns(processes: Sequence[psutil.Process]) -> int:
    """CPU time of all of them, to the nanosecond."""
    total = 0
    for process in processes:
        with suppress(OSError):
            total += time.clock_gettime_ns((~process.pid << 3) | 2)  # the kernel's number of its CPU clock
    return total


def slowdown(training: Training, python: str, pairs: int = PAIRS, options: str = "") -> Result:
    """Wrapped against bare; options: of `roofline-agent run`."""
    wrapper = f"{COMMANDS / 'roofline-agent'} run --job 1 {options}--"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing is left behind stopped
    with node() as here, here.server(), here.agent(0.1) as agent:
        steps = _steps_needed(here, training, python, pairs)
        sides = [_started(here, training.command(python, prefix, steps)) for prefix in ("", wrapper)]
        try:
            spent = _take_turns(sides, [[], [agent]], pairs)
            agent.resume()
            for side in sides if training.tells_at_end else ():
                send(side.tree(), signal.SIGCONT)
                side.process.wait(timeout=600)
        finally:
            agent.resume()
            for side in sides:
                send(side.tree()[::-1], signal.SIGKILL)
                side.process.wait(timeout=60)
        told = [turns(training.chunks(side.printed.read_text()), TURN_S) for side in sides]
    return _result(training, told, spent, pairs)


def _steps_needed(here: Node, training: Training, python: str, pairs: int) -> int:
    """More than a training does in its warming up and its turns."""
    trial = _started(here, training.command(python, "", TRIAL))
    trial.process.wait(timeout=300)
    each = statistics.mean(training.chunks(trial.printed.read_text())) / training.steps
    return int((1.5 if training.tells_at_end else 4) * (WARM_S + pairs * TURN_S) / each)


def _started(here: Node, command: Sequence[str]) -> Side:
    number, printed = tempfile.mkstemp(dir=here.folder)
    with open(number, "wb") as file, open(here.folder / "log", "ab") as log:
        return Side(subprocess.Popen(command, env=here.environ, stdout=file, stderr=log), Path(printed))


def _take_turns(sides: Sequence[Side], others: Sequence[list[psutil.Process]], pairs: int) -> list[list[int]]:
    """CPU time (ns) of each side, and of what belongs to it, in its turns; at the end both are stopped."""
    trees: list[list[psutil.Process]] = [[], []]
    send(sides[1].tree(), signal.SIGSTOP)
    for which, side in enumerate(sides):  # imports and first steps, one after the other
        send(side.tree(), signal.SIGCONT)
        time.sleep(WARM_S)
        trees[which] = [*side.tree(), *others[which]]
        send(trees[which], signal.SIGSTOP)
    spent: list[list[int]] = [[], []]
    for turn in range(2 * pairs + 1):
        which = turn % 2
        before = cpu_ns(trees[which])
        send(trees[which], signal.SIGCONT)
        time.sleep(TURN_S)
        send(trees[which], signal.SIGSTOP)
        spent[which].append(cpu_ns(trees[which]) - before)
    return spent


def turns(chunks: Sequence[float], turn_s: float) -> list[list[float]]:
    """Chunks of steps by turns: one that is nearly as long as a turn has a stop in it, and is left out."""
    found: list[list[float]] = [[]]
    for chunk in chunks:
        if chunk > 0.7 * turn_s:
            found.append([])
        else:
            found[-1].append(chunk)
    return found


def last(stretches: Sequence[list[float]], count: int) -> list[list[float]]:
    """The last `count` of them: turns, before which it warmed up; one that began late lacks some."""
    return [*([[]] * (count - len(stretches))), *stretches[-count:]]


def interval(ratios: Sequence[float], seed: int = 1) -> tuple[float, float, float]:
    """Median of the ratios, and its percentile bootstrap interval (Efron and Tibshirani 1993, chapter 13)."""
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    tail = int((1 - CONFIDENCE) / 2 * RESAMPLES)
    return statistics.median(ratios), medians[tail], medians[-1 - tail]


def verdict(low: float, median: float, high: float) -> str:
    if high < LIMIT:
        return f"settled under {LIMIT:.0%}"
    if low > LIMIT:
        return f"settled over {LIMIT:.0%}: {median:+.1%}"
    return "not settled"


def _against_neighbours(bare: Sequence[float], wrapped: Sequence[float], at: int) -> float:
    return wrapped[at] / statistics.mean(bare[at : at + 2]) - 1


def _result(
    training: Training, told: Sequence[list[list[float]]], spent: Sequence[list[int]], pairs: int
) -> Result:
    """Compare turn by turn; the first stretch of each side is its warming up."""
    ended = [side[:-1] if training.tells_at_end else side for side in told]  # the last went on to its end
    bare, wrapped = last(ended[0], pairs + 1), last(ended[1], pairs)
    known = [at for at in range(pairs) if min(map(len, (*bare[at : at + 2], wrapped[at]))) > 1 + AFTER_RESUME]
    if 2 * len(known) < pairs:
        raise RuntimeError(
            f"{len(known)} of {pairs} pairs can be told apart: the machine is too busy for this"
        )
    walls = [
        [statistics.mean(turn[AFTER_RESUME:]) if turn else 0.0 for turn in side] for side in (bare, wrapped)
    ]
    cpus = [
        [ns / (len(turn) + 1) for ns, turn in zip(side_ns, side, strict=False)]
        for side_ns, side in zip(spent, (bare, wrapped), strict=True)
    ]
    wall, cpu = ([_against_neighbours(*sides, at) for at in known] for sides in (walls, cpus))
    median, low, high = interval(wall)
    cpu_median, cpu_low, cpu_high = interval(cpu)
    measured = f"{verdict(low, median, high)}, {median:+.2%} ({low:+.2%} to {high:+.2%})"
    beside = (
        f"CPU time of a step with agent and wrapper: {cpu_median:+.2%} ({cpu_low:+.2%} to {cpu_high:+.2%}); "
        f"{len(known)} pairs of {TURN_S:g} s in turn, intervals of 95 %"
    )
    return Result(f"slowdown, 10 Hz, {training.what}", "1 %", measured, high < LIMIT, beside)
