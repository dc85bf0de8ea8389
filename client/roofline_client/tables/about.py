"""What stands around every answer of a model in words: which job, where, when; what is missing and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.text import Text
from roofline.answers.about import About
from roofline.answers.values import Value

from . import units
from .documents import document
from .names import clean, listed, natural, tagged

REASONS_SHOWN = 12
NAME_SHOWN = 40  # characters of a name in a reason
ABSENT = "'-' is absent, not zero."


def head(about: About, what: str) -> Text:
    """ "Job 42: classic roofline", and in lines below it machines, time and alignment."""
    text = Text()
    text.append(clean(f"{_whose(about)}: {what}"), style="bold")
    for machine in about.machines:
        measured = units.when(machine.calibrated_ns, "%Y-%m-%d %H:%M")
        ceilings = "never calibrated" if measured == "-" else f"ceilings of {measured}"
        line = f"{machine.host}: {machine.cpu_model or '-'}, {machine.cpus} CPUs, {ceilings}"
        text.append("\n" + clean(line))
    text.append("\n" + clean("; ".join(_circumstances(about))))
    return text


def _whose(about: About) -> str:
    names = listed(sorted(about.jobs, key=natural))
    if about.experiment:
        return f"Experiment {about.experiment} ({names})"
    return ("Job " if len(about.jobs) == 1 else "Jobs ") + (names or "-")


def jobs(about: About) -> str:
    """The jobs of an answer as one cell of a table."""
    return ", ".join(about.jobs)


def _circumstances(about: About) -> list[str]:
    seconds = (about.end_ns - about.begin_ns) / 1e9
    told = [f"{units.when(about.begin_ns, '%Y-%m-%d %H:%M:%S')}, {units.number(seconds, 's')}"]
    if about.alignment.value is not None:
        step = units.show(about.step_time)
        told.append(f"clocks within {units.show(about.alignment)} (shortest median step {step})")
    if about.tags:
        told.append("tags " + tagged(about.tags))
    return told


def notes(lines: Sequence[str]) -> list[Any]:
    """What the server has to say beside its numbers; nothing without any."""
    if not lines:
        return []
    return ["", Text("Notes", style="bold"), *(Text(clean(f"  - {line}")) for line in lines)]


def reasons(values: Iterable[tuple[str, str, Value]]) -> list[Any]:
    """Why values are absent, each reason once: (column, whose it is, value)."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for title, subject, value in values:
        if value.value is None and value.reason:
            found.setdefault(value.reason, {}).setdefault(subject, {})[title] = None
    lines = [f"  - {_lacking(titles_of)}: {reason}" for reason, titles_of in found.items()]
    if len(lines) > REASONS_SHOWN:
        more = f"  and {len(lines) - REASONS_SHOWN} more: --format json has all of them"
        lines = [*lines[:REASONS_SHOWN], more]
    return (
        ["", Text("Absent, because", style="bold"), *(Text(clean(line)) for line in lines)] if lines else []
    )


def _lacking(titles_of: Mapping[str, Iterable[str]]) -> str:
    """ "FLOP/byte, headroom of ps:0, ps:1": those that lack the same, together."""
    together: dict[str, dict[str, None]] = {}
    for subject, titles in titles_of.items():
        together.setdefault(", ".join(titles), {})[_short(subject)] = None
    return "; ".join(f"{titles} of {listed(list(subjects))}" for titles, subjects in together.items())


def _short(name: str) -> str:
    """A kernel has its shapes in its name; the table has all of it."""
    return name if len(name) <= NAME_SHOWN else f"{name[: NAME_SHOWN - 1].rstrip()}…"


def legend(values: Iterable[tuple[str, Value]]) -> Text:
    """Where the shown values come from, one line: (column, value)."""
    found: dict[str, set[str]] = {}
    for name, value in values:
        if value.value is not None and value.provenance:
            found.setdefault(value.provenance, set()).add(name)
    known = "; ".join(f"{kind}: {', '.join(sorted(names))}" for kind, names in sorted(found.items()))
    return Text(clean(f"{ABSENT} {known}".rstrip()), style="dim")


def as_json(model: str, record: Any) -> str:
    """An answer as JSON (docs/models.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return document(model=model, **record._asdict())
