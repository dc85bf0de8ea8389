"""Holds what was said against what was planted. Pure: results in, numbers out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from .plans import CAUSES, HEALTHY, SELF_MEASURED

FOREIGN_SHARE = (
    0.02  # of the step: more delay than the least of its like, and foreign load did fall on a rank
)
FELT = (
    0.02  # of the step: a plant by which the pair of runs differs less, which no report names, had no effect
)
SURE = 0.95
MOST_OTHERS = 0.1  # of the machine, that strangers may take of a quiet run
DISTURBED = "disturbed"

RIGHT, OTHER, MISSED, FOREIGN, FALSE, SILENT = "right", "other", "missed", "foreign", "false", "silent"
UNFELT = "unfelt"


class Scored(NamedTuple):
    """One run. outcome: right, other (rank), missed, unfelt or foreign of a planted one; false, foreign or
    silent of a healthy one. Errors are relative; None: not known."""

    key: str
    framework: str
    cause: str
    severity: float
    load: str  # quiet, crowded, disturbed
    outcome: str
    is_first: bool  # the planted rank is in the first line, before all that is of no rank
    is_right_cause: bool
    said: str  # kind and rank of the first finding
    cost_error: float | None
    without_error: float | None  # of the step without the plant, as the replay has it
    holds_gain: bool | None  # the interval of the gain has the gain in it


class Summary(NamedTuple):
    """Planted runs of one group."""

    runs: int
    right: int
    other: int
    missed: int
    foreign: int
    unfelt: int
    in_first_line: int
    right_cause: int
    cost_error: float | None  # medians
    without_error: float | None
    holding: tuple[int, int]  # intervals with the gain in them, of all

    @property
    def precision(self) -> float | None:
        named = self.right + self.other
        return self.right / named if named else None

    @property
    def recall(self) -> float | None:
        felt = self.runs - self.unfelt
        return self.right / felt if felt else None

    @property
    def cause(self) -> float | None:
        return self.right_cause / self.right if self.right else None


def scored(result: dict[str, Any]) -> Scored:
    plan, truth, said = result["plan"], result["truth"], result["said"]
    first, expected = named_first(said), plan["rank"]
    if first is None and fell_evenly(plan, truth):
        first, expected = of_others_programs(said), ""
    is_right = first is not None and first["rank"] == expected
    is_planted = plan["cause"] != HEALTHY
    shown = first or (said["findings"] or [None])[0]
    return Scored(
        result["key"],
        plan["framework"],
        plan["cause"],
        plan["severity"],
        DISTURBED if is_disturbed(result) else plan["load"],
        outcome(plan, truth, first, expected) if is_planted else alarm(truth, said),
        is_planted and is_right and first is said["findings"][0],
        is_planted and is_right and names(first["kind"], plan["cause"]),
        f"{shown['kind']} {shown['rank']}".strip() if shown else said["kind"],
        _cost_error(first, plan, truth) if is_planted and is_right else None,
        _without_error(first, truth) if is_planted and is_right else None,
        _holds(first, truth) if is_planted and is_right else None,
    )


def names(kind: str, cause: str) -> bool:
    """Whether a kind of finding is the planted cause; of merged kinds ("input|host") one has to be."""
    return not CAUSES[cause].isdisjoint(kind.split("|"))


def is_disturbed(result: dict[str, Any]) -> bool:
    """Whether programs that are not the benchmark's own made a quiet run a crowded one."""
    return bool(result["plan"]["load"] == "quiet" and result["truth"]["others"] > MOST_OTHERS)


def named_first(said: dict[str, Any]) -> dict[str, Any] | None:
    """The first finding that is of a rank, if any. What all ranks have is in the training without the plant,
    too (two ranks and their communication share two cores), and may well cost more than what was planted."""
    found = said["findings"] if said["kind"] == "bottleneck" else []
    return next((one for one in found if one["rank"]), None)


def fell_evenly(plan: dict[str, Any], truth: dict[str, Any]) -> bool:
    """Whether the scheduler spread what a program took on one core over all ranks: by its own count the
    planted one did not lack CPUs for longer than another of its role."""
    return plan["cause"] == "hog" and not fell_on(plan["rank"], truth)


def of_others_programs(said: dict[str, Any]) -> dict[str, Any] | None:
    """The finding that other programs have the CPUs of all ranks, if any."""
    found = said["findings"] if said["kind"] == "bottleneck" else []
    return next((one for one in found if one["kind"] == "contention" and not one["rank"]), None)


def outcome(plan: dict[str, Any], truth: dict[str, Any], first: dict[str, Any] | None, expected: str) -> str:
    """Of a planted run. expected: the rank to be named, "" all."""
    if first is None:
        cost = truth["gain_s"] if has_pair(truth) else truth["cost_s"]
        return UNFELT if cost is not None and cost < FELT * truth["step_s"] else MISSED
    if first["rank"] == expected:
        return RIGHT
    return FOREIGN if is_contention(first) and fell_on(first["rank"], truth) else OTHER


def alarm(truth: dict[str, Any], said: dict[str, Any]) -> str:
    """Of a healthy run, where every finding counts that names a rank."""
    named = [one for one in said["findings"] if one["rank"]]
    if all(is_contention(one) and fell_on(one["rank"], truth) for one in named):
        return FOREIGN if named else SILENT
    return FALSE


def is_contention(finding: dict[str, Any]) -> bool:
    return bool(finding["kind"].startswith("contention"))


def fell_on(rank: str, truth: dict[str, Any]) -> bool:
    """Whether a rank lacked CPUs more than one of its role did, by the scheduler's own count."""
    role = rank.partition(":")[0] + ":"
    alike = {name: delay for name, delay in truth["delay_s"].items() if name.startswith(role)}
    return rank in alike and alike[rank] - min(alike.values()) > FOREIGN_SHARE * truth["step_s"]


def summary(runs: Iterable[Scored]) -> Summary:
    runs = list(runs)

    def count(wanted: str) -> int:
        return sum(one.outcome == wanted for one in runs)

    holding = [one.holds_gain for one in runs if one.holds_gain is not None]
    return Summary(
        len(runs),
        *(count(wanted) for wanted in (RIGHT, OTHER, MISSED, FOREIGN, UNFELT)),
        sum(one.is_first for one in runs),
        sum(one.is_right_cause for one in runs),
        _median(one.cost_error for one in runs),
        _median(one.without_error for one in runs),
        (sum(holding), len(holding)),
    )


def grouped(runs: Iterable[Scored], by: Callable[[Scored], Any]) -> dict[Any, list[Scored]]:
    found: dict[Any, list[Scored]] = {}
    for one in runs:
        found.setdefault(by(one), []).append(one)
    return dict(sorted(found.items()))


def upper_bound(events: int, runs: int) -> float:
    """The rate that is exceeded with 95 % confidence by none that gives so few events (Clopper and Pearson
    1934, one-sided)."""
    if events >= runs:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        rate = (low + high) / 2
        if _at_most(events, runs, rate) > 1 - SURE:
            low = rate
        else:
            high = rate
    return high


def _at_most(events: int, runs: int, rate: float) -> float:
    """Probability of at most so many events."""
    return sum(math.comb(runs, k) * rate**k * (1 - rate) ** (runs - k) for k in range(events + 1))


def _error(said: float | None, true: float | None) -> float | None:
    return abs(said / true - 1) if said is not None and true is not None and true > 0 else None


def _cost_error(first: dict[str, Any], plan: dict[str, Any], truth: dict[str, Any]) -> float | None:
    if plan["cause"] not in SELF_MEASURED and not has_pair(truth):
        return None
    return _error(first["cost_s"], truth["cost_s"])


def _without_error(first: dict[str, Any], truth: dict[str, Any]) -> float | None:
    if first["gain_low_s"] is None or not has_pair(truth):
        return None
    gain = (first["gain_low_s"] + first["gain_high_s"]) / 2
    return _error(truth["step_s"] - gain, truth["reference"]["step_s"])


def _holds(first: dict[str, Any], truth: dict[str, Any]) -> bool | None:
    if first["gain_low_s"] is None or not has_pair(truth):
        return None
    return bool(first["gain_low_s"] <= truth["gain_s"] <= first["gain_high_s"])


def has_pair(truth: dict[str, Any]) -> bool:
    """Whether the run was compared with one that differs in the plant alone. Earlier ones were compared with
    a run without a server and an agent on the same CPUs, which make a step longer, too."""
    return truth.get("reference") is not None


def _median(values: Iterable[float | None]) -> float | None:
    known: Sequence[float] = [value for value in values if value is not None]
    return statistics.median(known) if known else None
