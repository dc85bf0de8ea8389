"""What surrounds every answer in words: which job, where, when; notes; what is missing and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.text import Text
from roofline.answers.about import About
from roofline.answers.values import Value
from roofline.texts import listed

from . import units, wording
from .documents import document
from .labelled import Paragraph
from .names import clean, natural, tagged

REASONS_SHOWN = 12
NAME_SHOWN = 40  # characters of a name in a reason: a kernel has its shapes in its name


def head(about: About, what: str) -> Text:
    """ "Job 42: classic roofline", and in lines below it machines, time and alignment."""
    names = listed(sorted(about.jobs, key=natural))
    if about.experiment:
        whose = f"Experiment {about.experiment} ({names})"
    else:
        whose = ("Job " if len(about.jobs) == 1 else "Jobs ") + (names or "-")
    text = Text()
    text.append(clean(f"{whose}: {what}"), style="bold")

    for machine in about.machines:
        measured = units.when(machine.calibrated_ns, "%Y-%m-%d %H:%M")
        ceilings = "never calibrated" if measured == "-" else f"ceilings of {measured} UTC"
        line = f"{machine.host}: {machine.cpu_model or '-'}, {machine.cpus} CPUs, {ceilings}"
        text.append("\n" + clean(line))

    seconds = (about.end_ns - about.begin_ns) / 1e9
    last = [f"{units.when(about.begin_ns, '%Y-%m-%d %H:%M:%S')} UTC, {units.number(seconds, 's')}"]
    if about.alignment.value is not None:
        step = units.show(about.step_time)
        last.append(f"clocks within {units.show(about.alignment)} (shortest median step {step})")
    if about.tags:
        last.append("tags " + tagged(about.tags))
    text.append("\n" + clean("; ".join(last)))
    return text


def jobs(about: About) -> str:
    """The jobs of an answer as one cell of a table."""
    return ", ".join(about.jobs)


def section(heading: str, lines: Iterable[str]) -> list[Any]:
    """A heading and its lines, indented, below an empty line; nothing without lines."""
    shown = [Paragraph(f"  {line}") for line in lines]
    return ["", Text(heading, style="bold"), *shown] if shown else []


def notes(lines: Sequence[str]) -> list[Any]:
    """What the server reports in addition to its numbers; nothing without any."""
    return section(wording.NOTES, [f"- {line}" for line in lines])


def reasons(values: Iterable[tuple[str, str, Value]]) -> list[Any]:
    """Why values are absent, each reason once: (column, whose it is, value)."""
    found: dict[str, dict[str, list[str]]] = {}  # reason -> subject -> its columns
    for title, subject, value in values:
        if value.value is None and value.reason:
            titles = found.setdefault(value.reason, {}).setdefault(subject, [])
            if title not in titles:
                titles.append(title)

    lines = []
    for reason, titles_of in found.items():
        # Subjects that lack the same columns are together: "FLOP/byte, headroom of ps:0, ps:1".
        together: dict[str, list[str]] = {}
        for subject, titles in titles_of.items():
            short = subject
            if len(subject) > NAME_SHOWN:
                short = f"{subject[: NAME_SHOWN - 1].rstrip()}…"
            subjects = together.setdefault(", ".join(titles), [])
            if short not in subjects:
                subjects.append(short)
        lacking = "; ".join(f"{titles} of {listed(subjects)}" for titles, subjects in together.items())
        lines.append(f"- {lacking}: {reason}")
    if len(lines) > REASONS_SHOWN:
        lines[REASONS_SHOWN:] = [wording.more_reasons(len(lines) - REASONS_SHOWN)]
    return section(wording.REASONS, lines)


def legend(values: Iterable[tuple[str, Value]]) -> Paragraph:
    """Where the shown values come from: (column, value)."""
    found: dict[str, set[str]] = {}
    for name, value in values:
        if value.value is not None and value.provenance:
            found.setdefault(value.provenance, set()).add(name)
    known = "; ".join(f"{kind}: {', '.join(sorted(names))}" for kind, names in sorted(found.items()))
    return Paragraph(f"{wording.ABSENT}. {known}".rstrip(), style="dim")


def as_json(model: str, record: Any) -> str:
    """An answer as JSON (docs/models.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return document(model=model, **record._asdict())
