"""What a validation yields: plain frozen records and their JSON form.

`from_json(to_json(validation)) == validation`; anything else handed to `from_json` raises ValueError. An
error is (counted - done) / done: +0.2 is a fifth too much.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

FORMAT = 1


class Check(NamedTuple):
    """One metric of a source compared with work of a known amount, over several runs."""

    source: str  # its name
    metric: str  # "cpu_ns", "flops.f32.512"
    work: str  # what was done: "a thread computes for 0.5 s"
    unit: str
    done: float  # the amount, median of the runs; an error is relative to `whole`
    whole: float  # the same but where nothing was to be counted: how much would have been too much
    least: float  # error of the runs
    median: float
    most: float
    tolerance: float
    runs: int
    lower_bound: bool = False  # it may count less, and says so
    time_ns: int = 0  # since the epoch, when it was done

    @property
    def is_off(self) -> bool:
        """Whether half of the runs were off by more than the tolerance. The median: single runs may be
        disturbed."""
        return self.median > self.tolerance or (self.median < -self.tolerance and not self.lower_bound)


class Unchecked(NamedTuple):
    """A source, or one metric of it, that could not be compared with anything."""

    source: str
    metric: str  # "": the whole source
    reason: str
    advice: str = ""
    time_ns: int = 0


class Validation(NamedTuple):
    """What was found of one node; of each metric when it was checked last."""

    host: str
    cpu_model: str
    kernel: str  # uname -r, of the newest run
    version: str  # of the agent that made it, likewise
    time_ns: int  # since the epoch, when the newest run ended
    repeats: int
    checks: tuple[Check, ...]
    unchecked: tuple[Unchecked, ...] = ()
    notes: tuple[str, ...] = ()  # on the newest run
    disturbance: str = ""  # what else had the CPUs meanwhile, as "other processes took 40% of the CPUs"

    @property
    def off(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.is_off)


def merged(new: Validation, before: Validation | None) -> Validation:
    """The new one, and of what it has not checked what was known before of the same machine.

    A check stays until the same is checked again: that a busy node or a missing driver kept it from being
    checked says nothing against it.
    """
    if before is None or (before.host, before.cpu_model) != (new.host, new.cpu_model):
        return new
    again = {(check.source, check.metric, check.work) for check in new.checks}
    # Of a metric all works of which were checked, also those that are done no more.
    whole = {(c.source, c.metric) for c in new.checks} - {(one.source, one.metric) for one in new.unchecked}
    checks = [
        c
        for c in before.checks
        if (c.source, c.metric) not in whole and (c.source, c.metric, c.work) not in again
    ]
    looked_at = {check.source for check in new.checks} | {one.source for one in new.unchecked}
    unchecked = [one for one in before.unchecked if one.source not in looked_at]
    return new._replace(checks=(*new.checks, *checks), unchecked=(*new.unchecked, *unchecked))


def to_json(validation: Validation) -> dict[str, Any]:
    return {
        "format": FORMAT,
        **validation._asdict(),
        "checks": [{**check._asdict(), "is_off": check.is_off} for check in validation.checks],
        "unchecked": [one._asdict() for one in validation.unchecked],
        "notes": list(validation.notes),
    }


def from_json(value: object) -> Validation:
    """The validation in a parsed JSON document. Raises ValueError saying what is wrong with it."""
    found = value.get("format") if isinstance(value, dict) else None
    if isinstance(found, int) and found > FORMAT:
        raise ValueError(f"it has format {found}, of a later release, and this one reads up to {FORMAT}")
    if not isinstance(value, dict) or found != FORMAT:
        raise ValueError(f'expected an object with "format": {FORMAT}')
    for name in ("checks", "unchecked", "notes"):
        if not isinstance(value.get(name), list):
            raise ValueError(f"{name} is not a list")
    return Validation(
        host=_text(value, "host"),
        cpu_model=_text(value, "cpu_model"),
        kernel=_text(value, "kernel"),
        version=_text(value, "version"),
        time_ns=_count(value, "time_ns"),
        repeats=_count(value, "repeats"),
        checks=tuple(map(_check, value["checks"])),
        unchecked=tuple(map(_unchecked, value["unchecked"])),
        notes=tuple(_text({"note": note}, "note") for note in value["notes"]),
        disturbance=_text(value, "disturbance"),
    )


def _check(value: object) -> Check:
    if not isinstance(value, dict) or not isinstance(value.get("lower_bound"), bool):
        raise ValueError("a check is not an object with lower_bound true or false")
    return Check(
        source=_text(value, "source"),
        metric=_text(value, "metric"),
        work=_text(value, "work"),
        unit=_text(value, "unit"),
        done=_number(value, "done"),
        whole=_number(value, "whole"),
        least=_number(value, "least"),
        median=_number(value, "median"),
        most=_number(value, "most"),
        tolerance=_number(value, "tolerance"),
        runs=_count(value, "runs"),
        lower_bound=value["lower_bound"],
        time_ns=_count(value, "time_ns"),
    )


def _unchecked(value: object) -> Unchecked:
    if not isinstance(value, dict):
        raise ValueError("what was not checked is not an object")
    texts = {name: _text(value, name) for name in ("source", "metric", "reason", "advice")}
    return Unchecked(**texts, time_ns=_count(value, "time_ns"))


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a string")
    return value


def _count(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is not a whole number of at least 0")
    return value


def _number(fields: dict[str, Any], name: str) -> float:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name} is not a finite number")
    return float(value)
