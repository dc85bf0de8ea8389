"""Has works done and reads meanwhile what the sources count, as the agent samples them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

from ..records import Rank
from ..sampler import Sampler
from .child.done import Cannot, amounts
from .judging import Observation, judge, power
from .readings import Place, Readings, ValueAt, place_of
from .spinning import spin
from .validation import Check, Unchecked
from .worker import WorkDone, WorkingChild
from .works import Expectation, KnownWork

INTERVAL_S = 0.05
PATIENCE_NS = 10_000_000_000  # for a value; the slowest are read every two seconds
IDLE_NS = 700_000_000  # so long at least what others do is looked at
STOP_S, OWN_NS = 1.0, 300_000_000
NO_VALUE = f"it gave no value within {PATIENCE_NS / 1e9:.0f} s"

Result = Check | Unchecked


class WorkRunner:
    """Runs works in the process of one rank."""

    def __init__(self, sampler: Sampler, rank: Rank, works: Sequence[KnownWork]) -> None:
        self._sampler, self._rank = sampler, rank
        self._readings = Readings(place_of(one) for work in works for one in work.expectations)
        self._next_s = 0.0
        self._idle_ns = 0  # since when nothing is done

    def pause(self) -> None:
        """Until the next sample, and it."""
        time.sleep(max(0.0, self._next_s - time.monotonic()))
        self._next_s = time.monotonic() + INTERVAL_S
        self._sampler.ask([self._rank])
        self._sampler.wait(INTERVAL_S)
        samples, _ = self._sampler.take()
        self._readings.add(samples)

    def run(
        self,
        work: KnownWork,
        child: WorkingChild,
        units: dict[tuple[str, str], str],
        repeats: int,
        progress: Callable[[str], None],
    ) -> list[Result]:
        """What each of its expectations comes to. units: by source and metric."""
        seen: dict[Expectation, list[Observation]] = {one: [] for one in work.expectations}
        why: dict[Expectation, str] = {}
        try:
            for number in range(repeats):
                progress(f"{work.text}: {number + 1} of {repeats}")
                # What had no value once has none later either, and each run would wait for it.
                wanted = tuple(one for one in work.expectations if one not in why)
                if not wanted:
                    break
                for one, found in self._run_once(work._replace(expectations=wanted), child).items():
                    if isinstance(found, Observation):
                        seen[one].append(found)
                    else:
                        why[one] = found
        except Cannot as error:
            why = dict.fromkeys(work.expectations, str(error))
        now = time.time_ns()
        return [
            judge(one, work, units[one.source, one.metric], seen[one], now, why.get(one, ""))
            for one in work.expectations
        ]

    def _run_once(self, work: KnownWork, child: WorkingChild) -> dict[Expectation, Observation | str]:
        """Raises Cannot."""
        if child.prepare(work.name) or not self._idle_ns:
            self._idle_ns = time.monotonic_ns()
        self._readings.forget_before(self._idle_ns)
        self._await(work.expectations, lambda one: self._is_idle_known(one, time.monotonic_ns()))
        before_ns = time.monotonic_ns()
        done = self._here(work.name, child.pid) if work.here else child.do(work.name)
        self._await(work.expectations, lambda one: self._since(one, done.end_ns) is not None)
        found = {one: self._observed(one, before_ns, done, work.here) for one in work.expectations}
        self._idle_ns = done.end_ns
        return found

    def _await(self, expectations: Sequence[Expectation], is_known: Callable[[Expectation], bool]) -> None:
        """Until all are known, within patience."""
        until_ns = time.monotonic_ns() + PATIENCE_NS
        while not all(map(is_known, expectations)) and time.monotonic_ns() < until_ns:
            self.pause()

    def _since(self, one: Expectation, time_ns: int) -> ValueAt | None:
        return self._readings.since(place_of(one), time_ns)

    def _is_idle_known(self, one: Expectation, now_ns: int) -> bool:
        """Whether it was read while nothing is done; what others count too for a while."""
        values = self._readings.between(place_of(one), self._idle_ns, now_ns)
        if not one.shared and not one.is_power:
            return bool(values)
        return len(values) > 1 and values[-1].time_ns - values[0].time_ns >= IDLE_NS

    def _observed(self, one: Expectation, before_ns: int, done: WorkDone, here: bool) -> Observation | str:
        """What it counted of the work, or why that is not known."""
        place = place_of(one)
        idle = self._readings.between(place, self._idle_ns, before_ns)
        after = self._since(one, done.end_ns)
        if not idle or after is None or (len(idle) < 2 and (one.shared or one.is_power)):
            return NO_VALUE
        if one.quantity not in done.quantities:
            return f"the working process does not know its {one.quantity} here"
        amount = done.quantities[one.quantity]
        before = idle[-1]
        a_ns = _rate(idle) if one.shared or one.is_power else 0.0
        # Who works itself does not sample meanwhile, which was a part of what was counted while idle.
        window_ns = after.time_ns - before.time_ns - (done.end_ns - done.begin_ns if here else 0)
        grown = after.value - before.value
        if one.is_power:
            idle_joules = a_ns * (window_ns - 1e9 * amount.done)
            return self._power(place, grown - idle_joules, amount.done, a_ns * 1e9)
        by_others = a_ns * window_ns
        return Observation(one.sign * (grown - by_others), *amount, abs(by_others))

    def _power(self, place: Place, joules: float, busy_s: float, idle_watts: float) -> Observation:
        return power(joules / busy_s, idle_watts, max(1, self._readings.parts(place)))

    def _here(self, name: str, pid: int) -> WorkDone:
        begin_ns = time.monotonic_ns()
        if name == "own":
            return WorkDone({"cpu_ns": spin(OWN_NS)}, begin_ns, time.monotonic_ns())
        os.kill(pid, signal.SIGSTOP)
        try:
            stopped_ns, until = time.monotonic_ns(), time.monotonic() + STOP_S
            while time.monotonic() < until:
                self.pause()
        finally:
            os.kill(pid, signal.SIGCONT)
        end_ns = time.monotonic_ns()
        return WorkDone(amounts(stopped_ns=float(end_ns - stopped_ns)), begin_ns, end_ns)


def _rate(values: Sequence[ValueAt]) -> float:
    """Growth in a nanosecond."""
    first, last = values[0], values[-1]
    return (last.value - first.value) / (last.time_ns - first.time_ns)
