"""A report as text, JSON, CSV and tables. Contains words and columns, no formula."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Group
from rich.text import Text
from roofline.answers.report import Fact, Gap, PartReport, Report, Summary
from roofline.answers.values import Provenance, Value
from roofline.answers.verdict import Finding, Verdict

from . import about, flat, rooflines, units, wording
from .columns import Column, Columns
from .documents import document
from .labelled import Paragraph
from .metrics import Subject, wide
from .names import clean, tagged

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
# What the tables `ranks` and `roles` begin with.
RANK_COLUMNS = ("rank", "role", "index", "host", "pid", "name", "windows", "bound", "bound_reason")
ROLE_COLUMNS = ("role", "ranks", "hosts", "bound", "bound_reason")

# Column title -> metric; the order of the text report.
Titled = tuple[tuple[str, str], ...]
TIME_COLUMNS: Titled = (
    ("steps", "steps"),
    ("step time (median)", "step_time_median"),
    ("p95", "step_time_p95"),
    ("examples/s", "examples_per_second"),
)
ROOFLINE_COLUMNS: Titled = (
    ("FLOPs/step", "flops_per_step"),
    ("FLOP/s", "flops_per_second"),
    ("tensor bytes/step", "bytes_per_step.minimum"),
    ("FLOP/byte", "intensity.minimum"),
    ("attainable", "attainable_flops_per_second"),
)
COUNTED_COLUMNS: Titled = (
    ("counted/step", "flops_per_step.measured"),
    ("counted/s", "flops_per_second.measured"),
)
DRAM_COLUMNS: Titled = (("DRAM/step", "bytes_per_step.dram"), ("FLOP/DRAM byte", "intensity.dram"))
ENERGY_COLUMNS: Titled = (
    ("energy/step", "energy_per_step"),
    ("power", "power"),
    ("FLOP/J", "flops_per_joule"),
)
PHASE_COLUMNS: Titled = (
    ("input", "input_time_per_step"),
    ("forward", "forward_time_per_step"),
    ("backward", "backward_time_per_step"),
    ("communicate", "communicate_time_per_step"),
    ("wait", "wait_time_per_step"),
    ("optimizer", "optimizer_time_per_step"),
    ("other", "other_time_per_step"),
)
BETWEEN_COLUMNS: Titled = (
    ("evaluations", "between.evaluation.count"),
    ("each", "between.evaluation.time"),
    ("checkpoints", "between.checkpoint.count"),
    ("each", "between.checkpoint.time"),
    ("without gradients", "between.without_gradients.count"),
    ("each", "between.without_gradients.time"),
    ("traces", "between.trace.count"),
    ("each", "between.trace.time"),
    ("other", "between.other.count"),
    ("each", "between.other.time"),
    ("of the time", "between.share"),
)
RESOURCE_COLUMNS: Titled = (
    ("CPU/step", "cpu_time_per_step"),
    ("cores (sum)", "cpu_utilization"),
    ("memory (largest)", "memory_peak"),
    ("sent/step", "sent_bytes_per_step"),
    ("recv/step", "received_bytes_per_step"),
    ("sent (sum)", "sent_bytes_per_second"),
    ("recv (sum)", "received_bytes_per_second"),
)


def as_text(report: Report) -> Group:
    """All tables, those and their columns that hold nothing left out. What a report is about is above its
    verdict, if it has one (screen.py)."""
    # What hardware counted comes before what shapes give, and its traffic after.
    columns = (*COUNTED_COLUMNS, *ROOFLINE_COLUMNS, *DRAM_COLUMNS)
    tables = [
        _table(wording.STEP_TABLE, TIME_COLUMNS, report),
        _table(wording.STEP_TIME, PHASE_COLUMNS, report),
        _table(wording.BETWEEN_STEPS, BETWEEN_COLUMNS, report),
        _table(wording.REPORT_ROOFLINE, columns, report, with_roof=True),
        _table(wording.RESOURCES, (*RESOURCE_COLUMNS, *ENERGY_COLUMNS), report),
        _parts(report.parts),
        _ceilings(report),
    ]
    head = [] if report.verdict else [_head(report), *about.section(wording.VERDICTS, report.verdicts)]
    sections = [head, *([shown] for table in tables if (shown := table.without_empty()) is not None)]
    if report.cost.words:
        sections.append([Paragraph(report.cost.words)])
    parts = [part for section in sections if section for part in ("", *section)][1:]
    parts += about.section(wording.FACTS, _facts(report.facts))
    parts += about.notes(report.notes)
    values = (named for rank in report.ranks for named in rank.summary.values.items())
    return Group(*parts, "", about.legend(values))


def _head(report: Report) -> Text:
    begin = units.when(report.begin_ns, "%Y-%m-%d %H:%M:%S")
    state = "running" if report.running else "ended"
    mode = f", {clean(report.mode)}" if report.mode else ""
    seconds = (report.end_ns - report.begin_ns) / 1e9
    ranks = "1 rank" if len(report.ranks) == 1 else f"{len(report.ranks)} ranks"
    text = Text()
    text.append(clean(f"Job {report.job}"), style="bold")
    text.append(f"  {state}, since {begin} UTC, {seconds:.1f} s, {ranks}{mode}")
    if report.tags:
        text.append("\n" + clean(tagged(report.tags)))
    if report.first_step is not None or report.last_step is not None:
        first = "…" if report.first_step is None else report.first_step
        last = "…" if report.last_step is None else report.last_step
        text.append(f"\nsteps {first} to {last} only")

    medians = [rank.summary.values.get("step_time_median") for rank in report.ranks]
    known = [median for median in medians if median is not None and median.value is not None]
    shortest = units.show(min(known, key=lambda v: v.value or 0.0, default=None))
    for host, error in report.alignment:
        if error.value is None:
            aligned = f"clock: {error.reason}"
        else:
            aligned = f"clock aligned to within {units.show(error)}"
        text.append("\n" + clean(f"{host}: {aligned} (shortest median step {shortest})"))
    return text


def _table(title: str, columns: Titled, report: Report, with_roof: bool = False) -> Columns:
    """A row for each role, then one for each of its ranks."""
    heads = [Column(""), *(Column(name, right=True) for name, _ in columns)]
    if with_roof:
        heads += [Column("of roof", right=True), Column("roof")]

    def cells(summary: Summary) -> list[str]:
        values = ((metric, summary.values.get(metric)) for _, metric in columns)
        found = [units.share(v) if metric.endswith(".share") else units.show(v) for metric, v in values]
        if with_roof:
            found += [units.share(summary.values.get("roof_share")), summary.bound or "-"]
        return found

    table = Columns(title, heads)
    for role in report.roles:
        table.add(f"{role.role} x{role.ranks}", *cells(role.summary), style="bold")
        for rank in report.ranks:
            if rank.role == role.role:
                name = f"  {rank.rank} {rank.name}".rstrip(" ")
                table.add(f"{name} @{rank.host or '?'}", *cells(rank.summary))
    return table


def _ceilings(report: Report) -> Columns:
    doubted = any(c.doubt for roof in report.roofs for c in roof.ceilings)
    heads = [
        Column("node"),
        Column("ceiling"),
        Column("value", right=True),
        Column("spread", right=True),
        Column("measured (UTC)"),
    ]
    if doubted:
        heads.append(Column("possibly underestimated because", folds=True))
    table = Columns(wording.CEILINGS, heads)
    for roof in report.roofs:
        for c in roof.ceilings:
            spread = "-" if c.provenance == Provenance.ANALYTIC else f"{c.spread:.1%}"
            measured = units.when(c.time_ns, "%Y-%m-%d %H:%M")
            name = f"{c.device} {c.name}".strip() + (f" to {c.peer}" if c.peer else "")
            cells = [roof.host, name, units.number(c.value, c.unit), spread, measured, c.doubt]
            table.add(*cells[: len(heads)])
    if not table.rows:
        table.add("-", "none measured", "-", "-", "-")
    return table


def _facts(facts: Sequence[Fact]) -> list[str]:
    """A short line each, with the ranks that share it where not all do."""
    everyone = len({rank for fact in facts for rank in fact.ranks})
    lines = []
    for fact in facts[:FACTS_SHOWN]:
        value = fact.value
        if len(value) > FACT_WIDTH:
            value = f"{value[:FACT_WIDTH]}..."
        line = f"{fact.name} = {value}"
        if len(fact.ranks) != everyone:
            more = ", ..." if len(fact.ranks) > FACT_RANKS else ""
            line += f"  ({', '.join(fact.ranks[:FACT_RANKS])}{more})"
        lines.append(line)
    if len(facts) > FACTS_SHOWN:
        lines.append(wording.more_facts(len(facts) - FACTS_SHOWN))
    return lines


def _parts(parts: Sequence[PartReport]) -> Columns:
    """Rates and means, those that are zero left out; JSON and CSV have all of it."""
    heads = [Column(""), Column("source"), Column("a second, or mean", folds=True)]
    table = Columns(wording.NODE_PARTS, heads)
    left_out = 0
    for part in parts:
        values = []
        for metric, value in part.values.items():
            if value.value and metric.endswith((".per_second", ".mean")) and ".coverage" not in metric:
                values.append(f"{_without_unit(metric)} {_rate_or_mean(metric, value)}")
        if not values:
            continue
        if len(table.rows) == PARTS_SHOWN:
            left_out += 1
            continue
        where = f"{part.host} {part.rank}".strip() + (f" · {part.instance}" if part.instance else "")
        more = f", and {len(values) - PART_VALUES} more" if len(values) > PART_VALUES else ""
        table.add(where, part.source, ", ".join(values[:PART_VALUES]) + more)
    if left_out:
        begin, end = wording.more_parts(left_out)
        table.add(begin, "", end)
    return table


def _rate_or_mean(metric: str, value: Value) -> str:
    """Of time that was counted: CPUs, or a share of the time. Its sum over several may be more than all."""
    amount = value.value or 0.0
    if not metric.endswith("_ns.per_second"):
        return units.show(value)
    if "cpu" in metric and "pressure" not in metric:
        return f"{units.show(value)} CPUs" if amount >= 0.1 else f"{units.fine_percent(amount)} of a CPU"
    return f"{units.fine_percent(amount)} of the time"


def _without_unit(metric: str) -> str:
    """A metric's name without what the value's unit says: "nic_sent" of "nic_sent_bytes.per_second"."""
    name = metric.removesuffix(".per_second").removesuffix(".mean")
    head, _, unit = name.rpartition("_")
    return head if unit in ("ns", "bytes", "joules", "hz", "watts", "celsius") and head else name


class Source(NamedTuple):
    """A source of a node, as a row of its own."""

    host: str
    name: str
    works: bool
    reason: str
    advice: str
    fills: str
    caveat: str  # what `roofline-agent validate` found off


def _sources(report: Report) -> list[Source]:
    return [Source(node.host, *source) for node in report.sources for source in node.sources]


def as_json(report: Report) -> str:
    """JSON (docs/report.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return document(**{**report._asdict(), "sources": _sources(report)})


def rows(report: Report) -> Iterator[tuple[Any, ...]]:
    """One row per metric of each role, rank and part, of the verdict and of the profiler's cost, in the order
    of CSV_COLUMNS; an absent value is None."""
    for role in report.roles:
        for metric, value in role.summary.values.items():
            yield (report.job, "role", role.role, "", ", ".join(role.hosts), metric, *value, "", "")
    for rank in report.ranks:
        for metric, value in rank.summary.values.items():
            yield (report.job, "rank", rank.role, rank.rank, rank.host, metric, *value, "", "")
    if report.verdict is not None:
        yield from _verdict_rows(report.job, report.verdict)
    for metric, value in report.cost.values.items():
        yield (report.job, "profiler", "", "", "", metric, *value, "", "")
    for part in report.parts:
        role_name = _role_of(part.rank)
        for metric, value in part.values.items():
            begin = (report.job, "part", role_name, part.rank, part.host, metric)
            yield (*begin, *value, part.source, part.instance)


def _verdict_rows(job: str, verdict: Verdict) -> Iterator[tuple[Any, ...]]:
    """Those of a finding have its kind as the instance; the bottleneck is the first."""
    for account in verdict.accounts:
        whose = (job, "account", account.role, account.rank, account.host)
        yield (*whose, "step", *account.step, "", "")
        for part in account.parts:
            yield (*whose, f"{part.part}.time", *part.time, "", "")
            yield (*whose, f"{part.part}.share", *part.share, "", "")
    for found in _findings(verdict):
        role = _role_of(found.rank)
        for metric, value in (("cost", found.cost), ("share", found.share), ("rate", found.rate)):
            yield (job, "finding", role, found.rank, found.host, metric, *value, "", found.kind)


def _role_of(ranks: str) -> str:
    """The role of a rank, or of several: of "ddp:0, ddp:1" ddp; "": they have different ones, or none."""
    roles = {rank.rpartition(":")[0] for rank in ranks.split(", ")}
    return roles.pop() if len(roles) == 1 else ""


def _findings(verdict: Verdict) -> list[Finding]:
    return [*([verdict.bottleneck] if verdict.bottleneck else []), *verdict.also]


class PartOfAccount(NamedTuple):
    """A part of a rank's account, as a row of its own."""

    rank: str
    role: str
    host: str
    part: str
    time: Value
    share: Value


def _accounts(verdict: Verdict | None) -> list[PartOfAccount]:
    return [
        PartOfAccount(account.rank, account.role, account.host, *part)
        for account in (verdict.accounts if verdict else ())
        for part in account.parts
    ]


def as_csv(report: Report) -> str:
    """The report as CSV; an absent value is an empty cell with its reason in the last column."""
    return flat.as_csv(flat.Table(CSV_COLUMNS, list(rows(report)), {}))


def tables(report: Report) -> dict[str, flat.Table]:
    """ranks and roles: a column a metric; values: a row a metric; ceilings, roofs, facts, gaps, sources;
    accounts: a row a part; findings: the bottleneck first."""
    ranks = [Subject({**r._asdict(), **r.summary._asdict()}, r.summary.values) for r in report.ranks]
    roles = [
        Subject({**r._asdict(), **r.summary._asdict(), "hosts": ", ".join(r.hosts)}, r.summary.values)
        for r in report.roles
    ]
    return {
        "ranks": wide(ranks, RANK_COLUMNS),
        "roles": wide(roles, ROLE_COLUMNS),
        "values": flat.Table(CSV_COLUMNS, list(rows(report)), {"coverage": "1"}),
        "ceilings": rooflines.ceilings(report.roofs),
        "roofs": rooflines.vertices(report.roofs),
        "facts": flat.table(Fact, report.facts),
        "gaps": flat.table(Gap, report.gaps),
        "sources": flat.table(Source, _sources(report)),
        "accounts": flat.table(PartOfAccount, _accounts(report.verdict)),
        "findings": flat.table(Finding, _findings(report.verdict) if report.verdict else []),
    }
