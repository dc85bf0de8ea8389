"""Agents as text and JSON. Contains words and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.agents import Agent

from . import units, wording
from .columns import Column, Columns
from .documents import document

LATE_S, UNSURE_S = 10.0, 0.01  # from which on it is said


def as_text(agents: Sequence[Agent]) -> Group:
    """A row an agent; what is amiss in words."""
    heads = [Column("host"), Column("state", folds=True)]
    heads += [Column(name, right=True) for name in ("lag", "clock error", "samples every", "batches", "lost")]
    table = Columns("", [*heads, Column("refused", right=True), Column("version")])
    for one in agents:
        table.add(
            one.host,
            state(one),
            *map(units.show, (one.lag, one.clock_error, one.interval)),
            *(f"{count:,}" if one.connected else "-" for count in (one.batches, one.lost, one.refused)),
            one.version or "-",
        )
    sources = Columns(
        "Sources that do not work, or were found off",
        [Column("host"), Column("source"), Column("why", folds=True)],
    )
    for one in agents:
        for source in one.sources:
            why = filter(None, (source.reason, source.caveat, source.advice))
            sources.add(one.host, source.name, "; ".join(why))
    legend = Text(f"counts since the agent connected; lag: age of its newest data; {wording.ABSENT}", "dim")
    parts: list[Any] = [table, *(["", sources] if sources.rows else []), "", legend]
    return Group(*parts)


def state(one: Agent) -> str:
    """In words, worst first."""
    if not one.connected:
        return "not connected"
    amiss = []
    if one.lag.value is not None and one.lag.value > LATE_S:
        amiss.append(f"nothing new for {units.show(one.lag)}")
    if one.lost:
        amiss.append(f"lost {one.lost:,}")
    if one.refused:
        amiss.append(f"{one.refused:,} batches refused")
    if one.clock_error.value is None:
        amiss.append("clock not measured yet")
    elif one.clock_error.value > UNSURE_S:
        amiss.append(f"clock uncertain by {units.show(one.clock_error)}")
    if one.behind:
        amiss.append("sends what it kept")
    if one.busy_with:
        amiss.append(f"busy with {one.busy_with}")
    return "; ".join(amiss) or "healthy"


def as_json(agents: Sequence[Agent]) -> str:
    """JSON. Raises ClientError for a number that JSON cannot hold."""
    return document(agents=list(agents))
