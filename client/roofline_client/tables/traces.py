"""What became of traces of ranks, as text and as tables."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import NamedTuple

from rich.console import Group
from rich.text import Text
from roofline.answers.traces import RankTrace

from . import about, flat
from .columns import Column, Columns
from .names import clean

NEXT = (
    "`roofline-client roofline --job {job} --points layer` and `plot --kind layers` show their layers; "
    "`--points kernel --steps FIRST:LAST` and `timeline --kernels` the traced steps themselves"
)


class Traces(NamedTuple):
    """The traces of the ranks of one job, in the order in which they were done."""

    job: str
    ranks: list[RankTrace]
    notes: list[str]

    @property
    def recorded(self) -> bool:
        """Whether there is anything of any rank."""
        return any(rank.recorded for rank in self.ranks)


def gathered(job: str, events: Iterable[str | RankTrace], progress: Callable[[str], None]) -> Traces:
    """All that comes of a request, texts of progress going to `progress`. Raises what `events` raises."""
    ranks: list[RankTrace] = []
    for event in events:
        if isinstance(event, str):
            progress(event)
        else:
            ranks.append(event)
    found = Traces(job, ranks, [])
    return found._replace(notes=[NEXT.format(job=shlex.quote(job))]) if found.recorded else found


def as_text(found: Traces) -> Group:
    """A line for each rank."""
    table = Columns("Ranks", [Column(""), Column("trace", folds=True)])
    for rank in found.ranks:
        table.add(f"  {clean(rank.rank)}", clean(rank.text))
    return Group(
        Text(clean(f"Job {found.job}: steps traced on demand"), style="bold"),
        "",
        table,
        *about.notes(found.notes),
    )


def as_json(found: Traces) -> str:
    return about.as_json("trace", found)


def as_csv(found: Traces) -> str:
    return flat.as_csv(tables(found)["ranks"])


def tables(found: Traces) -> dict[str, flat.Table]:
    """ranks: a row each."""
    return {
        "ranks": flat.Table(("job", *RankTrace._fields), [(found.job, *rank) for rank in found.ranks], {})
    }
