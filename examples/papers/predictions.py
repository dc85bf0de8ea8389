"""`what-if` compared with these runs: one job is asked what another, which differs in one thing, did."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import permutations
from statistics import median
from typing import NamedTuple

from readings import Reading, Readings
from roofline_client import Client, connect

# What may differ in an experiment, and how what-if is asked for it.
CHANGES = {
    "ps": {"workers": "ranks", "ps": "servers", "batch": "batch"},
    "horovod": {"workers": "ranks", "batch": "batch"},
    "nodes": {"nodes": "ranks", "batch": "batch"},
    "batch": {"batch": "batch"},
}
CPUS = os.cpu_count() or 1
RATES = {"ps": "worker"}  # whose examples/s; else horovod's


ABOUT = """Each job is asked (`what-if`) what another, which differs in one thing, did. Rates are in
examples/s. Jobs of more ranks than there are CPUs are left out: what-if takes nodes for machines of their
own, and ours share their CPUs. So do, with two workers, a worker, a parameter server and the chief, and
the links need these CPUs, too. Horovod's jobs of PyTorch do not say what a lone rank would exchange.
"""
UNTOLD = "cannot be told"


class Prediction(NamedTuple):
    """Rates in examples/s. asked: of which job; about: which job did it. change: in words; why: it cannot be
    told, "": it can."""

    asked: str
    about: str
    synchronous: bool
    change: str
    said: float
    low: float
    high: float
    was: float
    why: str = ""

    @property
    def error(self) -> float:
        return abs(self.said / self.was - 1)

    @property
    def holds(self) -> bool:
        return self.low <= self.was <= self.high


def predictions(server: str, readings: Readings) -> list[Prediction]:
    """Of all pairs of jobs that differ in one thing."""
    with connect(server) as client:
        found = [_asked(client, *pair) for pair in pairs(list(readings.by_key.values()))]
    return [one for one in found if one is not None]


def pairs(readings: Sequence[Reading]) -> Iterator[tuple[Reading, Reading, str, str]]:
    """(asked, about, tag, name of the question's argument), of jobs with a CPU for each rank that trains."""
    fitting = [one for one in readings if max(int(one.tags.get(n, 1)) for n in ("workers", "nodes")) <= CPUS]
    for one, other in permutations(fitting, 2):
        experiment = one.tags.get("experiment", "")
        if experiment != other.tags.get("experiment") or experiment not in CHANGES:
            continue
        names = [name for name in one.tags if one.tags[name] != other.tags.get(name)]
        if len(names) == 1 and names[0] in CHANGES[experiment]:
            yield one, other, names[0], CHANGES[experiment][names[0]]


def _asked(client: Client, one: Reading, other: Reading, tag: str, argument: str) -> Prediction | None:
    role = RATES.get(one.tags["experiment"], "horovod")
    was = other.numbers.get(f"{role}.examples_per_second")
    to = int(other.tags[tag])
    answer = client.job(one.job).what_if(**{argument: float(to) if argument == "batch" else to}).record  # type: ignore[arg-type]
    said, low, high = answer.rate.then.value, answer.rate.low, answer.rate.high
    if was is None:
        return None
    change, synchronous = f"{tag} {one.tags[tag]} to {to}", answer.mode == "synchronous"
    if said is None or low is None or high is None:
        why = answer.rate.then.reason
        return Prediction(one.job, other.job, synchronous, change, 0.0, 0.0, 0.0, was, why)
    return Prediction(one.job, other.job, synchronous, change, said, low, high, was)


def as_text(found: Sequence[Prediction]) -> str:
    """Markdown: how good they are by kind of job, and each."""
    if not found:
        return ""
    lines = ["## What-if, held against these runs\n"]
    lines.append(ABOUT)
    lines += [
        f"| jobs | what is changed | pairs | {UNTOLD} | error, median | ranges that hold it "
        "| upper over lower end, median |",
        "|---|---|---|---|---|---|---|",
    ]
    for synchronous, name in ((True, "synchronous"), (False, "parameter servers")):
        for of_batch, changed in ((True, "batch"), (False, "ranks or servers")):
            alike = [p for p in found if p.synchronous == synchronous and _is_of_batch(p) == of_batch]
            if alike:
                lines.append(f"| {name} | {changed} | {_summary(alike)} |")
    lines += ["", "| asked | change | said | was | |", "|---|---|---|---|---|"]
    for one in found:
        verdict = "holds" if one.holds else f"off by {one.error:.0%}"
        said = f"{one.said:.1f} ({one.low:.1f} to {one.high:.1f})"
        cells = ("-", f"{UNTOLD}: {one.why}") if one.why else (said, verdict)
        lines.append(f"| `{one.asked}` | {one.change} | {cells[0]} | {one.was:.1f} | {cells[1]} |")
    return "\n".join(lines) + "\n"


def _is_of_batch(one: Prediction) -> bool:
    return one.change.startswith("batch ")


def _summary(alike: Sequence[Prediction]) -> str:
    """Cells: pairs, untold, error, ranges that hold, width."""
    told = [one for one in alike if not one.why]
    counts = f"{len(alike)} | {len(alike) - len(told)}"
    if not told:
        return f"{counts} | - | - | -"
    error, width = median(one.error for one in told), median(one.high / one.low for one in told)
    return f"{counts} | {error:.0%} | {sum(one.holds for one in told)} of {len(told)} | {width:.2f}"
