"""Outcomes as tables: text for people, JSON to keep, and the section of docs/reliability.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .check import Tally
from .rounds import Outcome

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def line(outcome: Outcome) -> str:
    """One round."""
    verdict = "ok" if outcome.is_good else "FAILED"
    if not outcome.is_reached:
        verdict = "not reached"
    tally = outcome.tally
    counts = (
        f"{tally.acked} acked, {tally.lost} lost, {tally.doubled} doubled; steps {tally.steps}, "
        f"{tally.steps_lost} lost, {tally.steps_doubled + tally.steps_unknown} too many"
        if tally
        else "not counted"
    )
    name = f"{outcome.place}: {outcome.fault}"
    more = f"; {outcome.tracebacks} tracebacks" if outcome.tracebacks else ""
    more += f"; forgotten {outcome.forgotten}" if outcome.forgotten else ""
    more += f"; exit code {outcome.exit_code}" if outcome.exit_code else ""
    more += f"; {outcome.problem}" if outcome.problem else ""
    return f"{verdict:<11} {name:<44} x{outcome.fired:<5} {outcome.seconds:5.1f} s  {counts}{more}"


def to_json(outcomes: Sequence[Outcome]) -> str:
    rows: list[dict[str, Any]] = [
        {**one._asdict(), "tally": one.tally._asdict() if one.tally else None, "good": one.is_good}
        for one in outcomes
    ]
    return json.dumps(rows, indent=1)


def from_json(text: str) -> list[Outcome]:
    found = []
    for row in json.loads(text):
        row.pop("good")
        tally = row.pop("tally")
        found.append(Outcome(**row, tally=Tally(**tally) if tally else None))
    return found


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Markdown: a line for each place, faults and rounds together."""
    lines = [
        "| place | faults | rounds | fault happened | rows acknowledged | lost | doubled | good |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    places = list(dict.fromkeys((one.group, one.place) for one in outcomes))
    for group, place in places:
        lines.append(_row(place, [one for one in outcomes if (one.group, one.place) == (group, place)]))
    lines.append(_row("**all**", outcomes, all_faults=False))
    return lines


def _row(name: str, mine: Sequence[Outcome], all_faults: bool = True) -> str:
    tallies = [one.tally for one in mine if one.tally]
    faults = dict.fromkeys(one.fault for one in mine)
    said = ", ".join(faults) if all_faults else f"{len(faults)} kinds"
    reached, good = sum(one.is_reached for one in mine), sum(one.is_good for one in mine)
    rows, lost = sum(t.acked for t in tallies), sum(t.lost + t.steps_lost for t in tallies)
    doubled = sum(t.doubled + t.steps_doubled for t in tallies)
    return f"| {name} | {said} | {len(mine)} | {reached} | {rows:,} | {lost} | {doubled} | {good} |"


def write_section(page: Path, name: str, lines: Sequence[str]) -> None:
    """Put lines between the two comments of this name in a page. Raises ValueError where they are not."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = page.read_text()
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} lacks the comments {begin} and {end}")
    page.write_text("\n".join([before + begin, "", *lines, "", end + after]))
