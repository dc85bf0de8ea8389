"""A report as text, as rows, as JSON. Knows words and columns, no formula."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from . import units
from .records import Job, RankReport, Report, RoleReport, Summary, Value

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1
CSV_COLUMNS = (
    "job",
    "subject",
    "role",
    "rank",
    "host",
    "metric",
    "value",
    "unit",
    "provenance",
    "scope",
    "coverage",
    "reason",
)

# Column title -> metric; the order of the text report.
TIME_COLUMNS = (
    ("steps", "steps"),
    ("step time", "step_time_median"),
    ("p95", "step_time_p95"),
    ("examples/s", "examples_per_second"),
)
ROOFLINE_COLUMNS = (
    ("FLOPs/step", "flops_per_step"),
    ("FLOP/s", "flops_per_second"),
    ("min bytes/step", "bytes_per_step.minimum"),
    ("FLOP/byte", "intensity.minimum"),
    ("attainable", "attainable_flops_per_second"),
)
RESOURCE_COLUMNS = (
    ("CPU/step", "cpu_time_per_step"),
    ("cores", "cpu_utilization"),
    ("memory", "memory_peak"),
    ("sent/step", "sent_bytes_per_step"),
    ("recv/step", "received_bytes_per_step"),
    ("sent", "sent_bytes_per_second"),
    ("recv", "received_bytes_per_second"),
)


def report_text(report: Report) -> Group:
    """The whole report for a terminal."""
    parts: list[Any] = [_head(report), ""]
    parts += [_table("Steps", TIME_COLUMNS, report, _no_extra), ""]
    parts += [
        _table("Roofline (each rank against its whole node)", _roofline_columns(report), report, _roof_extra),
        "",
    ]
    parts += [_table("Resources", RESOURCE_COLUMNS, report, _no_extra), ""]
    parts += [_ceilings(report), ""]
    if report.notes:
        parts += [Text("Notes", style="bold"), *(Text(f"  - {note}") for note in report.notes), ""]
    parts.append(Text(_legend(report), style="dim"))
    return Group(*parts)


def _head(report: Report) -> Text:
    begin = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(report.begin_ns / 1e9))
    state = "running" if report.running else "ended"
    mode = f", {report.mode}" if report.mode else ""
    text = Text()
    text.append(f"Job {report.job}", style="bold")
    seconds = (report.end_ns - report.begin_ns) / 1e9
    text.append(f"  {state}, since {begin}, {seconds:.1f} s, {len(report.ranks)} ranks{mode}")
    if report.first_step is not None or report.last_step is not None:
        text.append(f"\nsteps {_bound(report.first_step)} to {_bound(report.last_step)} only")
    for alignment in report.alignment:
        error = units.show(alignment.error)
        known = f"clock aligned to within {error}" if error != "-" else f"clock: {alignment.error.reason}"
        text.append(f"\n{alignment.host}: {known} (median step {_shortest_step(report)})")
    return text


def _bound(step: int | None) -> str:
    return "…" if step is None else str(step)


def _shortest_step(report: Report) -> str:
    known = [r.summary.values["step_time_median"] for r in report.ranks]
    values = [v for v in known if v.value is not None]
    return units.show(min(values, key=lambda v: v.value or 0.0)) if values else "-"


def _roofline_columns(report: Report) -> tuple[tuple[str, str], ...]:
    """FLOPs that hardware counted get columns of their own where there are any."""
    counted = "flops_per_second.measured"
    if not any(_has(rank.summary, counted) for rank in report.ranks):
        return ROOFLINE_COLUMNS
    return (("counted/step", "flops_per_step.measured"), ("counted/s", counted), *ROOFLINE_COLUMNS)


def _has(summary: Summary, metric: str) -> bool:
    value = summary.values.get(metric)
    return value is not None and value.value is not None


def _no_extra(summary: Summary) -> list[str]:
    return []


def _roof_extra(summary: Summary) -> list[str]:
    return [units.share(summary.values.get("roof_share")), summary.bound or "-"]


def _table(title: str, columns: Sequence[tuple[str, str]], report: Report, extra: Any) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    table.add_column("", no_wrap=True)
    for name, _ in columns:
        table.add_column(name, justify="right", no_wrap=True)
    if extra is _roof_extra:
        table.add_column("of roof", justify="right", no_wrap=True)
        table.add_column("bound by", no_wrap=True)
    for role in report.roles:
        label = f"{escape(role.role)} x{role.ranks}"
        table.add_row(label, *_cells(role.summary, columns), *extra(role.summary), style="bold")
        for rank in (r for r in report.ranks if r.role == role.role):
            name = f"  {escape(rank.rank)}" + (f" {escape(rank.name)}" if rank.name else "")
            table.add_row(
                f"{name} @{escape(rank.host or '?')}", *_cells(rank.summary, columns), *extra(rank.summary)
            )
    return table


def _cells(summary: Summary, columns: Sequence[tuple[str, str]]) -> list[str]:
    return [units.show(summary.values.get(metric)) for _, metric in columns]


def _ceilings(report: Report) -> Table:
    table = Table(
        title="Ceilings",
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for name in ("node", "ceiling", "value", "spread", "measured"):
        table.add_column(name, justify="right" if name in ("value", "spread") else "left", no_wrap=True)
    for roof in report.roofs:
        for c in roof.ceilings:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(c.time_ns / 1e9))
            table.add_row(escape(roof.host), c.name, units.number(c.value, c.unit), f"{c.spread:.1%}", when)
    if not any(roof.ceilings for roof in report.roofs):
        table.add_row("-", "none measured", "-", "-", "-")
    return table


def _legend(report: Report) -> str:
    """Where the shown values come from, one line."""
    found: dict[str, set[str]] = {}
    for rank in report.ranks:
        for name, value in rank.summary.values.items():
            if value.value is not None and value.provenance:
                found.setdefault(value.provenance, set()).add(name)
    known = "; ".join(f"{kind}: {', '.join(sorted(names))}" for kind, names in sorted(found.items()))
    return f"'-' is absent, not zero. {known}"


def jobs_text(jobs: Sequence[Job]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("job", "state", "since", "seconds", "ranks", "nodes"):
        table.add_column(name, no_wrap=True, justify="right" if name == "seconds" else "left")
    for job in jobs:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.begin_ns / 1e9))
        roles = " ".join(f"{role}x{count}" for role, count in job.roles.items())
        seconds = f"{(job.end_ns - job.begin_ns) / 1e9:.0f}"
        state = "running" if job.running else "ended"
        table.add_row(escape(job.job), state, since, seconds, roles, escape(", ".join(job.hosts)))
    return table


def show(what: Any, colour: bool | None = None) -> None:
    """Print to stdout: colours and the terminal's width only on a terminal."""
    console = Console(highlight=False, no_color=colour is False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200, color_system=None)
    console.print(what)


def as_json(report: Report) -> str:
    """The report as JSON (docs/report.schema.json)."""
    return json.dumps({"version": SCHEMA_VERSION, **_plain(report)}, indent=2, allow_nan=False)


def jobs_json(jobs: Sequence[Job]) -> str:
    return json.dumps({"version": SCHEMA_VERSION, "jobs": _plain(list(jobs))}, indent=2)


def _plain(thing: Any) -> Any:
    if hasattr(thing, "_asdict"):
        return {name: _plain(value) for name, value in thing._asdict().items()}
    if isinstance(thing, dict):
        return {name: _plain(value) for name, value in thing.items()}
    if isinstance(thing, list):
        return [_plain(value) for value in thing]
    return thing


def rows(report: Report) -> Iterator[tuple[Any, ...]]:
    """One row per role or rank and metric, in the order of CSV_COLUMNS; an absent value is None."""
    for role in report.roles:
        yield from _rows(report, "role", role, "", ", ".join(role.hosts))
    for rank in report.ranks:
        yield from _rows(report, "rank", rank, rank.rank, rank.host)


def _rows(
    report: Report, subject: str, what: RoleReport | RankReport, rank: str, host: str
) -> Iterator[tuple[Any, ...]]:
    for metric, v in what.summary.values.items():
        yield (report.job, subject, what.role, rank, host, metric, *_value_cells(v))


def _value_cells(v: Value) -> tuple[Any, ...]:
    return (v.value, v.unit, v.provenance, v.scope, v.coverage, v.reason)


def as_csv(report: Report) -> str:
    """The report as CSV; an absent value is an empty cell with its reason in the last column."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    writer.writerows(rows(report))
    return out.getvalue()


def to_dataframe(report: Report) -> pd.DataFrame:
    """The report as a tidy pandas DataFrame with the columns of the CSV form."""
    import pandas as pd

    return pd.DataFrame.from_records(list(rows(report)), columns=list(CSV_COLUMNS))
