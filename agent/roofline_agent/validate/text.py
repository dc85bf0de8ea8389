"""A validation as text, a row a check as it becomes known, and as a table for docs/accuracy.md."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from .caveats import percent
from .validation import Check, Unchecked, Validation

_UNITS = {"ns": (1e9, "s"), "FLOP": (1e9, "GFLOP"), "J": (1.0, "W")}
_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_NAME_WIDTH = 38
HEADER = (
    f"{'':<5}{'source metric':<{_NAME_WIDTH}} {'done':>12} {'least':>9} {'median':>9} {'most':>9}  tolerance"
)
_MD_HEADER = (
    "| source | metric | what was done | amount | runs | least | median | most | tolerance | |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def row(check: Check) -> str:
    """One line below HEADER."""
    mark = "OFF" if check.is_off else "ok"
    errors = " ".join(f"{error:>9}" for error in errors_of(check))
    name = f"{check.source} {check.metric}"
    return f"{mark:<5}{name:<{_NAME_WIDTH}} {amount(check):>12} {errors}  {tolerance(check)}"


def errors_of(check: Check) -> list[str]:
    """Signed, in percent."""
    return [f"{100 * error:+.2f} %" for error in (check.least, check.median, check.most)]


def amount(check: Check) -> str:
    """What was done, in a unit that people read; of nothing what would have been too much."""
    scale, unit = _UNITS.get(check.unit, (1.0, "" if check.unit == "1" else check.unit))
    if check.unit == "byte":
        scale, unit = next((one for one in _BYTES if check.whole >= one[0]), (1, "byte"))
    if check.done == 0:
        return f"0 of {check.whole / scale:.3g} {unit}".strip()
    number = check.done / scale
    return f"{number:,.3g} {unit}".strip() if number < 999.5 else f"{number:,.0f} {unit}".strip()


def tolerance(check: Check) -> str:
    return f"{percent(check.tolerance)}{' above' if check.lower_bound else ''}"


def unchecked_lines(unchecked: Sequence[Unchecked]) -> Iterator[str]:
    for one in unchecked:
        yield f"-    {' '.join(filter(None, (one.source, one.metric)))}: {one.reason}"
        if one.advice:
            yield f"     fix: {one.advice}"


def summary(validation: Validation) -> str:
    off = validation.off
    if not validation.checks:
        return "nothing could be checked"
    count = len(validation.checks)
    words = f"{count} check{'s' if count > 1 else ''}, {len(off) or 'none'} off by more than its tolerance"
    return words + (": " + ", ".join(f"{check.source} {check.metric}" for check in off) if off else "")


def markdown(validation: Validation) -> Iterator[str]:
    """A caption, a table, and what was not checked."""
    when = time.strftime("%Y-%m-%d", time.localtime(validation.time_ns / 1e9))
    yield (
        f"{validation.cpu_model or 'a CPU without a name'}, Linux {validation.kernel}, {when}, "
        f"roofline-agent {validation.version}: {summary(validation)}."
    )
    yield ""
    yield _MD_HEADER
    for check in validation.checks:
        cells = (
            *(check.source, f"`{check.metric}`", check.work, amount(check), str(check.runs)),
            *(*errors_of(check), tolerance(check), "**off**" if check.is_off else ""),
        )
        yield f"| {' | '.join(cells)} |"
    if validation.disturbance:
        yield ""
        yield f"The node was busy: {validation.disturbance}."
    for title, lines in (
        ("Not checked:", [_listed(one) for one in validation.unchecked]),
        ("Notes:", validation.notes),
    ):
        if lines:
            yield ""
            yield title
            yield ""
            yield from (f"- {line}" for line in lines)


def _listed(one: Unchecked) -> str:
    metrics = ", ".join(f"`{name}`" for name in one.metric.split(", ")) if one.metric else ""
    return f"{' '.join(filter(None, (one.source, metrics)))}: {one.reason}"
