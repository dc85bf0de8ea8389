"""Which of our values answers to which of theirs, and the table of both. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from roofline_agent.calibrate.calibration import Calibration, Ceiling

_LIKE_THEIRS = 0.1
_AS_GOOD = 0.97  # two best-of-rounds of the same code differ by so much
_SCALES = {"FLOP/s": (1e9, "GFLOP/s"), "byte/s": (1e9, "GB/s"), "s": (1e-6, "us")}
# Kernels of STREAM that move as much, in as many streams, as one of ours.
_LIKE = {"scale": "copy", "add": "triad", "load": "read", "sum": "read"}


class Theirs(NamedTuple):
    """A value of another tool."""

    name: str  # "dram.triad", "peak.f64.512", "peak.f64", "l1.ert"
    value: float
    unit: str
    what: str  # tool and test
    stores: str = ""  # "normal", "non-temporal"; "" where there are none, or it is not known


class ComparisonRow(NamedTuple):
    """ours None: we have nothing that answers to it."""

    name: str  # of what both are
    ours: float | None
    theirs: float
    unit: str
    what: str

    @property
    def ratio(self) -> float | None:
        """Ours over theirs."""
        return self.ours / self.theirs if self.ours is not None and self.theirs else None


def compare(ours: Calibration, theirs: Sequence[Theirs]) -> list[ComparisonRow]:
    found = []
    for one in theirs:
        if one.value <= 0:
            continue
        if one.name.startswith("dram.") and one.stores == "normal":
            operation = one.name.split(".")[1]
            operation = _LIKE.get(operation, operation)
            # The end of the sweep, which has normal stores; on all CPUs.
            kind = (operation, False, ours.cpus)
            curve = [p for p in ours.sweep if (p.operation, p.streaming, p.threads) == kind]
            name, value = f"dram.{operation} (normal stores)", curve[-1].value if curve else None
        else:
            ceiling = _like(ours.ceilings, one)
            name = one.name if ceiling is None else ceiling.name
            value = None if ceiling is None else ceiling.value
        found.append(ComparisonRow(name, value, one.value, one.unit, one.what))
    return found


def _like(ours: Sequence[Ceiling], one: Theirs) -> Ceiling | None:
    """The ceiling of the same name; else the highest of the kind that theirs stands for."""
    fitting = [c for c in ours if c.unit == one.unit and not c.name.endswith(".theory")]
    for ceiling in fitting:
        if ceiling.name == one.name:
            return ceiling
    level, _, operation = one.name.partition(".")
    if level == "peak":
        # ERT and others name a precision and no width, or "fma" and "vector" as words of their own.
        pattern = rf"peak\.{re.escape(operation.split('.')[0])}\.(scalar|\d+)"
    elif operation == "ert":  # reads and writes one array in place
        pattern = rf"{re.escape(level)}\.(copy|triad)"
    else:
        pattern = rf"{re.escape(level)}\.{re.escape(_LIKE.get(operation, operation))}"
    return max((c for c in fitting if re.fullmatch(pattern, c.name)), key=lambda c: c.value, default=None)


def verdicts(compared: Sequence[ComparisonRow]) -> Iterator[str]:
    """In words, of tools run in turn with us: bandwidth like theirs within a tenth, FLOP/s no lower."""
    for row in compared:
        if row.ratio is None:
            continue
        if row.unit == "byte/s":
            well = abs(row.ratio - 1) <= _LIKE_THEIRS
            yield f"{row.name}: {'within' if well else 'NOT within'} {_LIKE_THEIRS:.0%} of {row.what}"
        else:
            yield f"{row.name}: {'no lower' if row.ratio >= _AS_GOOD else 'LOWER'} than {row.what}"


def lines(compared: Sequence[ComparisonRow]) -> Iterator[str]:
    """As text: ceiling, ours, theirs, ours / theirs."""
    width = max([len("ceiling"), *(len(row.name) for row in compared)])
    yield f"{'ceiling':<{width}}  {'ours':>10}  {'theirs':>10}  {'unit':<7}  {'ratio':>6}  theirs is"
    for row in compared:
        scale, unit = _SCALES.get(row.unit, (1.0, row.unit))
        ours = "-" if row.ours is None else f"{row.ours / scale:.1f}"
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        theirs = f"{row.theirs / scale:.1f}"
        yield f"{row.name:<{width}}  {ours:>10}  {theirs:>10}  {unit:<7}  {ratio:>6}  {row.what}"
