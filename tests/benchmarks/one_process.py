"""By how much profiling slows a training down, to a part of a percent on a noisy machine.

Two processes of one program differ by some percent for as long as they live, which hides a cost of less. So
one training runs all the time, in turns profiled and bare: in its bare turns the agent and the wrapper are
stopped (SIGSTOP) and the hooks are taken out of the process (trainings/profiled_turns.py), so that nothing
but the original code runs. Each profiled turn is compared with the bare ones before and after it. It begins a
moment after agent and wrapper go on: what they catch up with would not be there without the stops.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from . import quiet
from .site import Result, node
from .slowdown import LEAD_S, SETUPS, Side, Training, found_batch, send, started, sum_cpu_ns
from .trainings.step_clock import read_clock
from .turns import Interval, Steps, Turn, against_neighbours, interval, steps_of, verdict

BARE_S, STEPS = 0.5, 10  # a bare turn lasts so long, and so many steps: the shorter, the less a drift shows
PROFILED_S = 1.0  # a profiled one at least, so that an agent samples in each of them
SETTLED_S = 60.0  # before the first turn: most kernels are recorded in the first minute of a training
WHOLE_S = 25.0  # of profiled turns of a process
ROUNDS, QUICK = 10, 1  # processes: the interval is drawn from them, and of a few it is none
MOST_REPEATS = 3  # of so many turns as there are


def slowdown(
    training: Training, python: str, quick: bool, setup: str = "default", interval_s: float = 1.0
) -> Iterator[Result]:
    """Profiled against bare turns of the same process."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing is left behind stopped
    with node() as here:
        batch = f"--batch={found_batch(here, training, python)}"
    rounds = QUICK if quick else ROUNDS
    done = [_round(training, python, batch, setup, interval_s) for _ in range(rounds)]
    yield _result(training, setup, done)


class _Round:
    """The turns of one process, and its steps in them."""

    def __init__(self, turns: list[Turn], steps: list[Steps | None], repeated: int) -> None:
        self.turns, self.steps, self.repeated = turns, steps, repeated

    def ratios(self, field: str) -> list[float]:
        values = [None if one is None else float(getattr(one, field)) for one in self.steps]
        return against_neighbours([turn.side for turn in self.turns], values).get(1, [])


def _round(training: Training, python: str, batch: str, setup: str, interval_s: float) -> _Round:
    bare_s = max(BARE_S, STEPS * training.step_ms / 1e3)
    lasts_s = bare_s, max(PROFILED_S, bare_s)
    with node() as here, here.server() as server, here.agent(interval_s) as agent:
        flag = here.folder / "turns"
        flag.write_bytes(b"\1")
        try:
            with started(here, training, python, [batch, f"--turns={flag}"], SETUPS[setup]) as side:
                side.find([agent], [server])
                time.sleep(SETTLED_S)
                send([server], signal.SIGSTOP)  # on a cluster it is elsewhere
                turns, repeated = _take_turns(side, flag, server, round(WHOLE_S / lasts_s[1]), lasts_s)
                ends_ns = read_clock(side.clock)
        finally:
            send([agent, server], signal.SIGCONT)
    return _Round(turns, [steps_of(turn, ends_ns) for turn in turns], repeated)


def _take_turns(
    side: Side, flag: Path, server: psutil.Process, pairs: int, lasts_s: Sequence[float]
) -> tuple[list[Turn], int]:
    order = [0, *[number for _ in range(pairs) for number in (1, 0)]]
    turns: list[Turn] = []
    repeated, cpus = 0, os.cpu_count() or 1
    ours = {os.getpid(), server.pid, *(process.pid for process in side.processes)}
    while len(turns) < len(order):
        before = quiet.usage()
        number = order[len(turns)]
        turn = _run(side, flag, server, number, lasts_s[number])
        if quiet.noise(before, quiet.usage(), ours, cpus).is_quiet:
            turns.append(turn)
            continue
        repeated += 1
        if repeated > MOST_REPEATS * len(order):
            raise RuntimeError(f"{repeated} turns were disturbed by other programs: nothing can be measured")
    return turns, repeated


def _run(side: Side, flag: Path, server: psutil.Process, number: int, turn_s: float) -> Turn:
    """One turn, profiled (1) or bare (0); the training goes on all the time."""
    with open(flag, "r+b") as file:
        file.write(bytes([number]))
    send(side.beside, signal.SIGCONT if number else signal.SIGSTOP)
    if number:
        time.sleep(LEAD_S)
    before = [sum_cpu_ns(side.training), sum_cpu_ns(side.beside)]
    begin_ns = time.monotonic_ns()
    time.sleep(turn_s)
    end_ns = time.monotonic_ns()
    after = [sum_cpu_ns(side.training), sum_cpu_ns(side.beside)]
    if number:  # what was sent is taken in between the turns
        send([server], signal.SIGCONT)
        time.sleep(0.05)
        send([server], signal.SIGSTOP)
    return Turn(number, begin_ns, end_ns, after[0] - before[0], after[1] - before[1])


def _result(training: Training, setup: str, rounds: list[_Round]) -> Result:
    def compared(field: str) -> Interval:
        return interval([one.ratios(field) for one in rounds])

    mean, median, cpu = compared("mean"), compared("median"), compared("cpu")
    profiled = [turn for one in rounds for turn in one.turns if turn.side]
    bare = sorted(
        steps.median
        for one in rounds
        for turn, steps in zip(one.turns, one.steps, strict=True)
        if steps and not turn.side
    )
    beside = sum(turn.beside_ns for turn in profiled) / sum(turn.end_ns - turn.begin_ns for turn in profiled)
    what = f"slowdown, {training.what}, {1e3 * bare[len(bare) // 2]:.1f} ms, {setup}"
    noted = (
        f"median step {median}; CPU of a step {cpu}; wrapper, agent {beside:.2%} of a core; "
        f"{len(profiled)} profiled turns in {len(rounds)} processes, each between bare ones, "
        f"{sum(one.repeated for one in rounds)} turns repeated; intervals of 95 %"
    )
    return Result(
        what,
        f"{training.limit:.1%}",
        f"{verdict(mean, training.limit)}: {mean}",
        mean.high < training.limit,
        noted,
    )
