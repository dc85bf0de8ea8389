"""Who waits for whom, as text, rows and JSON. Knows words and columns, no formula."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.values import Value
from roofline.answers.waits import Cause, Imbalance, Stragglers

from . import flat, units
from .columns import Column, Columns
from .documents import document
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
    "behind": "behind",
    "sending": "on the way",
    "cpu_wait": "CPU wait",
    "stopped": "stopped",
}
SIZES = ("small", "medium", "large", "total")  # of the variables that a server holds
SHARES = ("behind", "sending", "cpu_wait", "stopped")  # shown in percent
CSV_COLUMNS = (
    *("job", "subject", "rank", "host", "kind", "first_step", "last_step"),
    *("metric", "value", "unit", "provenance", "scope", "coverage", "reason"),
)


def as_text(found: Stragglers) -> Group:
    """The verdict first, then what it stands on."""
    mode = f" ({clean(found.mode)})" if found.mode else ""
    parts: list[Any] = [Text(clean(found.verdict), style="bold")]
    parts.append(Text(clean(f"Job {found.job}{mode}" + (f"; {found.barrier}" if found.barrier else ""))))
    if found.causes:
        parts += ["", Text("Causes, worst first", style="bold")]
        for number, cause in enumerate(found.causes, 1):
            parts += _cause(number, cause)
    if found.ranks:
        rows = [(rank.rank, rank.host, rank.values) for rank in found.ranks]
        parts += ["", _table("Where the time of a step goes (means)", RANK_TITLES, rows)]
    if found.imbalance:
        parts += ["", _over_time(found.imbalance)]
    if any(v.value is not None for server in found.servers for v in server.values.values()):
        rows = [(server.rank, server.host, _without_payload(server.values)) for server in found.servers]
        parts += ["", _table("Parameter servers", SERVER_TITLES, rows)]
        parts += [line for server in found.servers if (line := _payload(server.rank, server.values))]
    if found.notes:
        parts += ["", Text("Notes", style="bold"), *(Text(clean(f"  - {note}")) for note in found.notes)]
    return Group(*parts)


def _cause(number: int, cause: Cause) -> list[Text]:
    where = f" @{cause.host}" if cause.host else ""
    last = f", last in {cause.steps:,} of {cause.of_steps:,} steps" if cause.of_steps else ""
    cost = f"costs {units.show(cause.cost)} a step ({units.share(cause.share)})"
    head = Text(clean(f"  {number}. {cause.rank}{where}: {cause.kind}, {cost}{last}"))
    return [head, *(Text(clean(f"       {line}")) for line in cause.evidence)]


def _without_payload(values: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if not name.startswith("payload.")}


def _payload(rank: str, values: Mapping[str, Value]) -> Text | None:
    """What a server holds, by size class: "small 4 in 1.3 KiB, medium 5 in 878 KiB"."""
    told = []
    for size in SIZES:
        count, held = (values.get(f"payload.{size}.{what}") for what in ("variables", "bytes"))
        if count is not None and held is not None and count.value:
            told.append(f"{size} {count.value:.0f} in {units.show(held)}")
    return Text(clean(f"  {rank} holds variables: {', '.join(told)}")) if told else None


def _table(
    title: str, titles: Mapping[str, str], rows: Sequence[tuple[str, str, dict[str, Value]]]
) -> Columns:
    """A row each of (rank, host, values), a column for every value that anybody has."""
    known = {name for *_, values in rows for name, value in values.items() if value.value is not None}
    names = [name for name in titles if name in known] + sorted(known - set(titles))
    columns = [Column(titles.get(name, name.replace("_", " ")), right=True) for name in names]
    table = Columns(title, [Column(""), *columns])
    for rank, host, values in rows:
        show = {name: units.share if name in SHARES else units.show for name in names}
        table.add(f"{rank} @{host or '?'}", *(show[name](values.get(name)) for name in names))
    return table


def _over_time(stretches: Sequence[Imbalance]) -> Columns:
    heads = [
        Column("from", right=True),
        Column("to", right=True),
        Column("begin"),
        Column("mean wait", right=True),
    ]
    table = Columns(
        "Waiting over time", [Column(""), *heads, Column("last most often"), Column("in", right=True)]
    )
    most = max((s.wait.value or 0.0 for s in stretches), default=0.0)
    for s in stretches:
        steps = (str(s.first_step), str(s.last_step), units.moment(s.begin_ns))
        table.add(_bar(s.wait, most), *steps, units.show(s.wait), s.last or "-", units.share(s.share))
    return table


def _bar(wait: Value, most: float) -> str:
    """A bar as high as the wait is against the longest; "-" for one nobody measured."""
    if wait.value is None:
        return "-"
    return BARS[round((len(BARS) - 1) * wait.value / most)] if most > 0 else BARS[0]


def as_json(found: Stragglers) -> str:
    """JSON (docs/stragglers.schema.json). Raises ClientError for a number that JSON cannot hold."""
    return document(**found._asdict())


def rows(found: Stragglers) -> Iterator[tuple[Any, ...]]:
    """One row per subject and metric, in the order of CSV_COLUMNS; an absent value is None."""
    for c in found.causes:
        whose = (found.job, "cause", c.rank, c.host, c.kind, None, None)
        yield (*whose, "cost", *c.cost)
        yield (*whose, "share", *c.share)
        yield (*whose, "steps", c.steps, "1", "measured", "", None, f"of {c.of_steps}")
    for kind, members in (("rank", found.ranks), ("server", found.servers)):
        for m in members:
            for metric, value in m.values.items():
                yield (found.job, kind, m.rank, m.host, "", None, None, metric, *value)
    for s in found.imbalance:
        about = (found.job, "stretch", s.last, "", "", s.first_step, s.last_step)
        yield (*about, "wait", *s.wait)
        yield (*about, "share", *s.share)


def as_csv(found: Stragglers) -> str:
    """CSV; an absent value is an empty cell with its reason in the last column."""
    return flat.as_csv(flat.Table(CSV_COLUMNS, list(rows(found)), {}))
