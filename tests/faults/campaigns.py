"""Results of campaigns of kills: text for people, JSON to keep, and a table of docs/reliability.md."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .campaign import CampaignResult
from .check import Tally


def said(one: CampaignResult) -> str:
    """One campaign."""
    verdict = "ok" if one.is_good else "FAILED"
    tally = one.tally
    counts = (
        f"{tally.acked:,} rows acknowledged, {tally.lost} lost, {tally.doubled} doubled, "
        f"{tally.unknown} never sent; {tally.steps:,} steps, {tally.steps_lost} lost, "
        f"{tally.steps_doubled + tally.steps_unknown} too many"
        if tally
        else "not counted"
    )
    more = f"; {one.tracebacks} tracebacks" if one.tracebacks else ""
    more += f"; forgotten {one.forgotten}" if one.forgotten else ""
    more += f"; {one.apart} repairs left copies in quarantine/" if one.apart else ""
    more += f"; {one.problem}" if one.problem else ""
    killed = "".join(f"\n    {count:>5} {name}" for name, count in sorted(one.killed.items()))
    return (
        f"{verdict} {_name(one)}: {one.kills} kills, {one.missed} calls did not come, {one.starts} starts "
        f"of a server, {one.checks} times verified, {one.seconds / 60:.1f} min, "
        f"{one.cpu_seconds / 60:.1f} min of CPU, seed {one.seed}; {counts}{more}{killed}"
    )


def campaign_json(one: CampaignResult) -> str:
    """A line."""
    return json.dumps({**one._asdict(), "tally": one.tally._asdict() if one.tally else None})


def campaign_of(line: str) -> CampaignResult:
    row = json.loads(line)
    tally = row.pop("tally")
    return CampaignResult(**row, tally=Tally(**tally) if tally else None)


def campaign_table(results: Sequence[CampaignResult]) -> list[str]:
    """Markdown: a line for each point, all its campaigns together."""
    lines = [
        "| point | kills | places and kinds | verified | rows acknowledged | steps | lost | doubled "
        "| never sent | CPU min | good |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    names = dict.fromkeys(map(_name, results))
    lines += [_row(name, [one for one in results if _name(one) == name]) for name in names]
    return [*lines, _row("**all**", results)]


def _name(one: CampaignResult) -> str:
    return f"{one.point}, power cuts" if one.power else one.point


def _row(name: str, mine: Sequence[CampaignResult]) -> str:
    tallies = [one.tally for one in mine if one.tally]
    kinds = {kind for one in mine for kind in one.killed}
    lost = sum(t.lost + t.steps_lost for t in tallies)
    doubled = sum(t.doubled + t.steps_doubled for t in tallies)
    unknown = sum(t.unknown + t.steps_unknown for t in tallies)
    good = sum(one.is_good for one in mine)
    return (
        f"| {name} | {sum(one.kills for one in mine):,} | {len(kinds)} | {sum(one.checks for one in mine)} "
        f"| {sum(t.acked for t in tallies):,} | {sum(t.steps for t in tallies):,} | {lost} | {doubled} "
        f"| {unknown} | {sum(one.cpu_seconds for one in mine) / 60:.1f} | {good} of {len(mine)} |"
    )
