"""Stragglers as text, JSON, CSV and tables. Contains words and columns, no formula."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.values import Value
from roofline.answers.waits import Cause, Imbalance, Stragglers

from . import about, flat, units, wording
from .columns import Column, Columns
from .documents import document
from .metrics import Subject, wide
from .names import clean

BARS = "▁▂▃▄▅▆▇█"
# Of the values of ranks and servers: titles, in order; others follow under their names.
RANK_TITLES = {
    "step_time_mean": "step",
    "input_time_per_step": "input",
    "forward_time_per_step": "forward",
    "backward_time_per_step": "backward",
    "communicate_time_per_step": "communicate",
    "wait_time_per_step": "wait",
    "optimizer_time_per_step": "optimizer",
    "other_time_per_step": "other",
    "late_per_step": "late",
    "cpu_time_per_step": "CPU",
    "cpu_wait_per_step": "CPU wait",
    "kernel_time_per_step": "kernels",
}
SERVER_TITLES = {
    "sent_bytes_per_second": "sent",
    "received_bytes_per_second": "received",
    "busy": "in use",
    "demand_per_step": "for a step",
    "waiting": "workers wait",
    "behind": "unread data",
    "held_back": "without CPU",
    "stopped": "stopped",
}
PAYLOAD = "payload."  # how values begin that tell which variables a server holds
SIZES = ("small", "medium", "large", "total")  # of these variables
SHARES = ("busy", "waiting", "behind", "held_back", "stopped")  # shown in percent
CSV_COLUMNS = (
    "job",
    "subject",
    "rank",
    "host",
    "kind",
    "first_step",
    "last_step",
    "metric",
    "value",
    "unit",
    "provenance",
    "scope",
    "coverage",
    "reason",
)


def as_text(found: Stragglers) -> Group:
    """The verdict first, then what it is based on."""
    mode = f" ({found.mode})" if found.mode else ""
    barrier = f"; {found.barrier}" if found.barrier else ""
    parts: list[Any] = [
        Text(clean(found.verdict), style="bold"),
        Text(clean(f"Job {found.job}{mode}{barrier}")),
    ]
    causes = [line for number, cause in enumerate(found.causes, 1) for line in _cause(number, cause)]
    parts += about.section(wording.CAUSES, causes)
    if found.ranks:
        rows = [(rank.rank, rank.host, rank.values) for rank in found.ranks]
        parts += ["", _table(wording.STEP_TIME, RANK_TITLES, rows)]
    if found.imbalance:
        parts += ["", _over_time(found.imbalance)]
    if any(value.value is not None for server in found.servers for value in server.values.values()):
        rows = []
        for server in found.servers:
            shown = {name: v for name, v in server.values.items() if not name.startswith(PAYLOAD)}
            rows.append((server.rank, server.host, shown))
        parts += ["", _table(wording.SERVERS, SERVER_TITLES, rows)]
        for server in found.servers:
            if payload := _payload(server.values):
                parts.append(Text(clean(f"  {server.rank} holds variables: {payload}")))
    return Group(*parts, *about.notes(found.notes))


def _cause(number: int, cause: Cause) -> list[str]:
    where = f" @{cause.host}" if cause.host else ""
    cost = f"costs {units.show(cause.cost)} a step ({units.share(cause.share)})"
    last = f", last in {cause.steps:,} of {cause.of_steps:,} steps" if cause.of_steps else ""
    head = f"{number}. {cause.rank or 'every rank'}{where}: {cause.kind}, {cost}{last}"
    return [head, *(f"     {line}" for line in cause.evidence)]


def _payload(values: Mapping[str, Value]) -> str:
    """What a server holds, by size class: "small 4 in 1.3 KiB, medium 5 in 878 KiB"."""
    classes = []
    for size in SIZES:
        count, held = values.get(f"{PAYLOAD}{size}.variables"), values.get(f"{PAYLOAD}{size}.bytes")
        if count is not None and held is not None and count.value:
            classes.append(f"{size} {count.value:.0f} in {units.show(held)}")
    return ", ".join(classes)


def _table(
    title: str, titles: Mapping[str, str], rows: Sequence[tuple[str, str, dict[str, Value]]]
) -> Columns:
    """A row each of (rank, host, values), a column for every value that anybody has."""
    known = {name for *_, values in rows for name, value in values.items() if value.value is not None}
    names = [name for name in titles if name in known] + sorted(known - set(titles))
    columns = [Column(titles.get(name, name.replace("_", " ")), right=True) for name in names]
    table = Columns(title, [Column(""), *columns])
    for rank, host, values in rows:
        cells = []
        for name in names:
            show = units.share if name in SHARES else units.show
            cells.append(show(values.get(name)))
        table.add(f"{rank} @{host or '?'}", *cells)
    return table


def _over_time(stretches: Sequence[Imbalance]) -> Columns:
    """A row a stretch of steps, with a bar as high as its wait is against the longest."""
    heads = [
        Column(""),
        Column("from", right=True),
        Column("to", right=True),
        Column("begin (UTC)"),
        Column("mean wait", right=True),
        Column("last most often"),
        Column("in", right=True),
    ]
    table = Columns(wording.WAITS_OVER_TIME, heads)
    most = max((s.wait.value or 0.0 for s in stretches), default=0.0)
    for s in stretches:
        if s.wait.value is None:
            bar = "-"
        else:
            bar = BARS[round((len(BARS) - 1) * s.wait.value / most)] if most > 0 else BARS[0]
        table.add(
            bar,
            str(s.first_step),
            str(s.last_step),
            units.moment(s.begin_ns),
            units.show(s.wait),
            s.last or "-",
            units.share(s.share),
        )
    return table


def as_json(found: Stragglers) -> str:
    """JSON (docs/stragglers.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return document(**{**found._asdict(), "causes": _causes(found)})


def _causes(found: Stragglers) -> list[Cause]:
    """With None where it is not known in how many steps a rank was last."""
    unknown: Any = None
    return [c if c.of_steps else c._replace(steps=unknown, of_steps=unknown) for c in found.causes]


def rows(found: Stragglers) -> Iterator[tuple[Any, ...]]:
    """One row per subject and metric, in the order of CSV_COLUMNS; an absent value is None."""
    for c in found.causes:
        whose = (found.job, "cause", c.rank, c.host, c.kind, None, None)
        yield (*whose, "cost", *c.cost)
        yield (*whose, "share", *c.share)
        if c.of_steps:
            yield (*whose, "steps", c.steps, "1", "measured", "", None, f"of {c.of_steps}")
    for kind, members in (("rank", found.ranks), ("server", found.servers)):
        for m in members:
            for metric, value in m.values.items():
                yield (found.job, kind, m.rank, m.host, "", None, None, metric, *value)
    for s in found.imbalance:
        stretch = (found.job, "stretch", s.last, "", "", s.first_step, s.last_step)
        yield (*stretch, "wait", *s.wait)
        yield (*stretch, "share", *s.share)


def as_csv(found: Stragglers) -> str:
    """CSV; an absent value is an empty cell with its reason in the last column."""
    return flat.as_csv(flat.Table(CSV_COLUMNS, list(rows(found)), {}))


def tables(found: Stragglers) -> dict[str, flat.Table]:
    """ranks and servers: a column a metric; causes; imbalance: a row a stretch of steps."""
    ranks = [Subject(rank._asdict(), rank.values) for rank in found.ranks]
    servers = [Subject(server._asdict(), server.values) for server in found.servers]
    return {
        "ranks": wide(ranks, ("rank", "role", "host")),
        "causes": flat.table(Cause, _causes(found)),
        "imbalance": flat.table(Imbalance, found.imbalance),
        "servers": wide(servers, ("rank", "host")),
    }
