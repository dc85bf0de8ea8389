"""A report as text, as rows, as JSON. Knows words and columns, no formula."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.report import PartReport, RankReport, Report, RoleReport, Summary
from roofline.answers.values import Provenance, Value

from . import flat, units
from .columns import Column, Columns
from .documents import document
from .names import clean, tagged

ROOFLINE_TITLE = "Roofline (each rank against its whole node; FLOPs and bytes of a step: medians)"
PARTS_SHOWN, PART_VALUES = 24, 12  # rows, and values in a row, of the table of parts
FACTS_SHOWN, FACT_RANKS, FACT_WIDTH = 40, 6, 120  # lines, ranks in one, characters of a value
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
    "source",
    "instance",
)

# Column title -> metric; the order of the text report.
TIME_COLUMNS = (
    ("steps", "steps"),
    ("step time (median)", "step_time_median"),
    ("p95", "step_time_p95"),
    ("examples/s", "examples_per_second"),
)
ROOFLINE_COLUMNS = (
    ("FLOPs/step", "flops_per_step"),
    ("FLOP/s", "flops_per_second"),
    ("tensor bytes/step", "bytes_per_step.minimum"),
    ("FLOP/byte", "intensity.minimum"),
    ("attainable", "attainable_flops_per_second"),
)
COUNTED_COLUMNS = (
    ("counted/step", "flops_per_step.measured"),
    ("counted/s", "flops_per_second.measured"),
)
DRAM_COLUMNS = (("DRAM/step", "bytes_per_step.dram"), ("FLOP/DRAM byte", "intensity.dram"))
ENERGY_COLUMNS = (("energy/step", "energy_per_step"), ("power", "power"), ("FLOP/J", "flops_per_joule"))
PHASE_COLUMNS = (
    ("input", "input_time_per_step"),
    ("forward", "forward_time_per_step"),
    ("backward", "backward_time_per_step"),
    ("communicate", "communicate_time_per_step"),
    ("wait", "wait_time_per_step"),
    ("optimizer", "optimizer_time_per_step"),
    ("other", "other_time_per_step"),
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


def as_text(report: Report) -> Group:
    """The whole report for a terminal."""
    parts: list[Any] = [_head(report), ""]
    if report.verdicts:
        told = (Text(clean(f"  {verdict}")) for verdict in report.verdicts)
        parts += [Text("What holds it back", style="bold"), *told, ""]
    parts += [_table("Steps", TIME_COLUMNS, report, _no_extra), ""]
    if phases := _known(PHASE_COLUMNS, report):
        parts += [_table("Where the time of a step goes (means)", phases, report, _no_extra), ""]
    parts += [
        _table(ROOFLINE_TITLE, _roofline_columns(report), report, _roof_extra),
        "",
    ]
    resources = (*RESOURCE_COLUMNS, *_known(ENERGY_COLUMNS, report))
    parts += [_table("Resources (of a step: means)", resources, report, _no_extra), ""]
    if report.parts:
        parts += [_parts(report), ""]
    parts += [_ceilings(report), ""]
    if report.facts:
        parts += [Text("Settings and facts", style="bold"), *_facts(report), ""]
    if report.notes:
        parts += [Text("Notes", style="bold"), *(Text(clean(f"  - {note}")) for note in report.notes), ""]
    parts.append(Text(clean(_legend(report)), style="dim"))
    return Group(*parts)


def _head(report: Report) -> Text:
    begin = units.when(report.begin_ns, "%Y-%m-%d %H:%M:%S")
    state = "running" if report.running else "ended"
    mode = f", {clean(report.mode)}" if report.mode else ""
    text = Text()
    text.append(clean(f"Job {report.job}"), style="bold")
    seconds = (report.end_ns - report.begin_ns) / 1e9
    text.append(f"  {state}, since {begin}, {seconds:.1f} s, {_count(len(report.ranks), 'rank')}{mode}")
    if report.tags:
        text.append("\n" + clean(tagged(report.tags)))
    if report.first_step is not None or report.last_step is not None:
        text.append(f"\nsteps {_bound(report.first_step)} to {_bound(report.last_step)} only")
    for alignment in report.alignment:
        error = units.show(alignment.error)
        known = f"clock aligned to within {error}" if error != "-" else f"clock: {alignment.error.reason}"
        line = f"{alignment.host}: {known} (shortest median step {_shortest_step(report)})"
        text.append("\n" + clean(line))
    return text


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _bound(step: int | None) -> str:
    return "…" if step is None else str(step)


def _shortest_step(report: Report) -> str:
    known = [r.summary.values.get("step_time_median") for r in report.ranks]
    values = [v for v in known if v is not None and v.value is not None]
    return units.show(min(values, key=lambda v: v.value or 0.0)) if values else "-"


def _roofline_columns(report: Report) -> tuple[tuple[str, str], ...]:
    """What hardware counted gets columns of its own where there is any."""
    return (*_known(COUNTED_COLUMNS, report), *ROOFLINE_COLUMNS, *_known(DRAM_COLUMNS, report))


def _known(columns: Sequence[tuple[str, str]], report: Report) -> Sequence[tuple[str, str]]:
    """These columns where any rank has a value in any of them."""
    some = any(_has(rank.summary, metric) for rank in report.ranks for _, metric in columns)
    return columns if some else ()


def _has(summary: Summary, metric: str) -> bool:
    value = summary.values.get(metric)
    return value is not None and value.value is not None


def _no_extra(summary: Summary) -> list[str]:
    return []


def _roof_extra(summary: Summary) -> list[str]:
    return [units.share(summary.values.get("roof_share")), summary.bound or "-"]


def _table(title: str, columns: Sequence[tuple[str, str]], report: Report, extra: Any) -> Columns:
    names = [Column(name, right=True) for name, _ in columns]
    if extra is _roof_extra:
        names += [Column("of roof", right=True), Column("roof")]
    table = Columns(title, [Column(""), *names])
    for role in report.roles:
        cells = (*_cells(role.summary, columns), *extra(role.summary))
        table.add(f"{role.role} x{role.ranks}", *cells, style="bold")
        for rank in (r for r in report.ranks if r.role == role.role):
            name = f"  {rank.rank}" + (f" {rank.name}" if rank.name else "")
            table.add(f"{name} @{rank.host or '?'}", *_cells(rank.summary, columns), *extra(rank.summary))
    return table


def _cells(summary: Summary, columns: Sequence[tuple[str, str]]) -> list[str]:
    return [units.show(summary.values.get(metric)) for _, metric in columns]


def _ceilings(report: Report) -> Columns:
    names = [Column("node"), Column("ceiling"), Column("value", right=True), Column("spread", right=True)]
    doubted = any(c.doubt for roof in report.roofs for c in roof.ceilings)
    why = [Column("may be higher, as", folds=True)] if doubted else []
    table = Columns("Ceilings", [*names, Column("measured"), *why])
    for roof in report.roofs:
        for c in roof.ceilings:
            measured = units.when(c.time_ns, "%Y-%m-%d %H:%M")
            spread = "-" if c.provenance == Provenance.ANALYTIC else f"{c.spread:.1%}"
            cells = (roof.host, c.name, units.number(c.value, c.unit), spread, measured)
            table.add(*cells, *([c.doubt] if doubted else []))
    if not any(roof.ceilings for roof in report.roofs):
        table.add("-", "none measured", "-", "-", "-", *(["-"] if doubted else []))
    return table


def _facts(report: Report) -> list[Text]:
    """A short line each, with the ranks that share it where not all do."""
    everyone = len({rank for fact in report.facts for rank in fact.ranks})
    lines = []
    for fact in report.facts[:FACTS_SHOWN]:
        some = ", ".join(fact.ranks[:FACT_RANKS]) + ("" if len(fact.ranks) <= FACT_RANKS else ", ...")
        whose = "" if len(fact.ranks) == everyone else f"  ({some})"
        value = fact.value if len(fact.value) <= FACT_WIDTH else f"{fact.value[:FACT_WIDTH]}..."
        lines.append(Text(clean(f"  {fact.name} = {value}{whose}")))
    if len(report.facts) > FACTS_SHOWN:
        lines.append(Text(f"  and {len(report.facts) - FACTS_SHOWN} more: --format json has all of them"))
    return lines


def _parts(report: Report) -> Columns:
    """Rates and means, those that are zero left out; JSON and CSV have all of it."""
    table = Columns(
        "Nodes and parts", [Column(""), Column("source"), Column("a second, or mean", folds=True)]
    )
    moved = [(part, values) for part in report.parts if (values := _part_values(part))]
    for part, values in moved[:PARTS_SHOWN]:
        where = f"{part.host} {part.rank}".strip() + (f" · {part.instance}" if part.instance else "")
        more = f", and {len(values) - PART_VALUES} more" if len(values) > PART_VALUES else ""
        table.add(where, part.source, ", ".join(values[:PART_VALUES]) + more)
    if len(moved) > PARTS_SHOWN:
        table.add(f"and {len(moved) - PARTS_SHOWN} more", "", "--format json or csv has all of them")
    return table


def _part_values(part: PartReport) -> list[str]:
    return [
        f"{_quantity(name)} {units.show(value)}"
        for name, value in part.values.items()
        if value.value and name.endswith((".per_second", ".mean")) and ".coverage" not in name
    ]


def _quantity(metric: str) -> str:
    """A metric's name without what the value's unit says: "nic_sent" of "nic_sent_bytes.per_second"."""
    name = metric.removesuffix(".per_second").removesuffix(".mean")
    head, _, unit = name.rpartition("_")
    return head if unit in ("ns", "bytes", "joules", "hz", "watts", "celsius") and head else name


def _legend(report: Report) -> str:
    """Where the shown values come from, one line."""
    found: dict[str, set[str]] = {}
    for rank in report.ranks:
        for name, value in rank.summary.values.items():
            if value.value is not None and value.provenance:
                found.setdefault(value.provenance, set()).add(name)
    known = "; ".join(f"{kind}: {', '.join(sorted(names))}" for kind, names in sorted(found.items()))
    return f"'-' is absent, not zero. {known}"


def as_json(report: Report) -> str:
    """JSON (docs/report.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return document(**report._asdict())


def rows(report: Report) -> Iterator[tuple[Any, ...]]:
    """One row per role, rank or part and metric, in the order of CSV_COLUMNS; an absent value is None."""
    for role in report.roles:
        yield from _rows(report, "role", role, "", ", ".join(role.hosts))
    for rank in report.ranks:
        yield from _rows(report, "rank", rank, rank.rank, rank.host)
    yield from _part_rows(report)


def _rows(
    report: Report, subject: str, what: RoleReport | RankReport, rank: str, host: str
) -> Iterator[tuple[Any, ...]]:
    for metric, v in what.summary.values.items():
        yield (report.job, subject, what.role, rank, host, metric, *_value_cells(v), "", "")


def _part_rows(report: Report) -> Iterator[tuple[Any, ...]]:
    for part in report.parts:
        role = part.rank.rpartition(":")[0]
        for metric, v in part.values.items():
            yield (
                *(report.job, "part", role, part.rank, part.host, metric),
                *(*_value_cells(v), part.source, part.instance),
            )


def _value_cells(v: Value) -> tuple[Any, ...]:
    return (v.value, v.unit, v.provenance, v.scope, v.coverage, v.reason)


def as_csv(report: Report) -> str:
    """The report as CSV; an absent value is an empty cell with its reason in the last column."""
    return flat.as_csv(flat.Table(CSV_COLUMNS, list(rows(report)), {}))
