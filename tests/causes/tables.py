"""The tables of docs/accuracy.md, between two markers there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .plans import CAUSES, FRAMEWORKS, HEALTHY, Plan, reason_against
from .score import (
    FALSE,
    FOREIGN,
    MISSED,
    OTHER,
    RIGHT,
    Scored,
    Summary,
    grouped,
    scored,
    summary,
    upper_bound,
)

BEGIN, END = "<!-- begin: written by `make causes` -->", "<!-- end: written by `make causes` -->"
COLUMNS = (
    "runs",
    "no effect",
    "precision",
    "recall",
    "in the first line",
    "right cause",
    "cost off by",
    "step without it off by",
    "interval holds",
)


# A run that somebody looked at before a rule was changed proves little of the rule: move this with a change.
RULES_SINCE = "2026-11-26T16:24"


def page(results: Iterable[dict[str, Any]], cores: int) -> str:
    """Everything between the markers."""
    results = list(results)
    earlier, seen, results = divided(results)
    runs = [scored(one) for one in results]
    planted = [one for one in runs if one.cause != HEALTHY]
    healthy = [one for one in runs if one.cause == HEALTHY]
    return "\n\n".join(
        [
            of_what(results),
            "### Planted, by severity and load\n\n"
            + by(planted, lambda one: (one.load, one.severity), load_and_severity),
            "### Planted, by cause (10 % and more)\n\n"
            + by(strong(planted), lambda one: (one.cause, one.load), ", ".join),
            "### Planted, by framework (10 % and more)\n\n"
            + by(strong(planted), lambda one: (one.framework, one.load), ", ".join),
            "### What was said for what was planted (10 % and more)\n\n" + confusion(strong(planted)),
            "### Healthy trainings\n\n" + alarms(healthy),
            "### Wrong or missed\n\n" + wrong(runs),
            "### Runs that the rules were changed after\n\n" + in_short(seen),
            "### Runs held against a training without the profiler\n\n" + in_short(earlier),
            "### What is run, and why not\n\n" + combinations(cores),
        ]
    )


def divided(results: Sequence[dict[str, Any]]) -> tuple[list[dict], list[dict], list[dict]]:
    """Those that were compared with a training without the profiler, those that somebody had looked at when a
    rule was changed, and the others."""
    earlier = [one for one in results if "bare" in one["truth"]]
    others = [one for one in results if "bare" not in one["truth"]]
    seen = [one for one in others if one["date"] < RULES_SINCE]
    return earlier, seen, [one for one in others if one["date"] >= RULES_SINCE]


def in_short(results: Sequence[dict[str, Any]]) -> str:
    runs = [scored(one) for one in results]
    planted = [one for one in runs if one.cause != HEALTHY]
    healthy = [one for one in runs if one.cause == HEALTHY]
    false = sum(one.outcome == FALSE for one in healthy)
    return "\n\n".join(
        [
            of_what(results),
            by(planted, lambda one: (one.load, one.severity), load_and_severity),
            f"Of the {len(healthy)} healthy ones {false} had a rank named.",
        ]
    )


def into(text: str, page_text: str) -> str:
    """A document with what is between its markers replaced. Raises ValueError where it has no markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the document has no markers")
    return f"{before}{BEGIN}\n\n{page_text}\n\n{END}{after}"


def of_what(results: Sequence[dict[str, Any]]) -> str:
    planted = sum(one["plan"]["cause"] != HEALTHY for one in results)
    dates = sorted(one["date"][:10] for one in results)
    machines = {f"{one['machine']['cpus']} cores ({one['machine']['processor']})" for one in results}
    frameworks = sorted({one["versions"]["framework"] for one in results})
    when = f", {dates[0]} to {dates[-1]}" if results else ""
    runs = f"{planted} planted and {len(results) - planted} healthy runs{when}"
    return f"{runs}, on {', '.join(sorted(machines))}; {', '.join(frameworks)}."


def strong(runs: Iterable[Scored]) -> list[Scored]:
    return [one for one in runs if one.severity >= 0.1]


def load_and_severity(group: tuple[str, float]) -> str:
    return f"{group[0]}, {group[1]:.0%}"


def by(runs: Iterable[Scored], key: Callable[[Scored], Any], name: Callable[[Any], str]) -> str:
    runs = list(runs)
    groups = grouped(runs, key)
    rows = [[name(group), *cells(summary(members))] for group, members in groups.items()]
    return table(["", *COLUMNS], [*rows, ["all", *cells(summary(runs))]])


def cells(one: Summary) -> list[str]:
    held, of = one.holding
    felt = one.runs - one.unfelt
    return [
        str(one.runs),
        str(one.unfelt or "-"),
        share(one.precision),
        share(one.recall),
        share(one.in_first_line / felt if felt else None),
        share(one.cause),
        share(one.cost_error),
        share(one.without_error),
        f"{held} of {of}" if of else "-",
    ]


def confusion(runs: Iterable[Scored]) -> str:
    rows = []
    for cause, members in grouped(runs, lambda one: one.cause).items():
        said = grouped((one for one in members if one.outcome == RIGHT), lambda one: one.said.split()[0])
        right = ", ".join(
            f"{kind} {len(found)}" for kind, found in sorted(said.items(), key=lambda g: -len(g[1]))
        )
        others = [sum(one.outcome == outcome for one in members) for outcome in (OTHER, FOREIGN, MISSED)]
        rows.append([cause, right or "-", *(str(count or "-") for count in others)])
    return table(["planted", "of the right rank", "another rank", "foreign load", "nothing"], rows)


def alarms(runs: Iterable[Scored]) -> str:
    runs = list(runs)
    rows = []
    groups = {**grouped(runs, lambda one: (one.framework, one.load)), ("all", ""): runs}
    for group, members in groups.items():
        false, foreign = (sum(one.outcome == outcome for one in members) for outcome in (FALSE, FOREIGN))
        bound = f"{upper_bound(false, len(members)):.1%}" if members else "-"
        rows.append([", ".join(filter(None, group)), str(len(members)), str(false), bound, str(foreign)])
    return table(["", "runs", "false alarms", "at most (95 %)", "foreign load that fell on the rank"], rows)


def wrong(runs: Iterable[Scored]) -> str:
    bad = [
        one
        for one in runs
        if one.outcome in (OTHER, FALSE) or (one.outcome == MISSED and one.severity >= 0.1)
    ]
    bad += [one for one in runs if one.outcome == RIGHT and not one.is_right_cause]
    rows = [[f"`{one.key}`", one.outcome if one.outcome != RIGHT else "cause", one.said] for one in bad]
    return table(["run", "what is wrong", "said"], sorted(rows)) if rows else "None."


def combinations(cores: int) -> str:
    rows = []
    for cause in CAUSES:
        reasons = [reason_against(framework, cause, cores) for framework in FRAMEWORKS]
        rows.append([cause, *(reason or "yes" for reason in reasons)])
    return table(["", *FRAMEWORKS], rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def listing(plans: Iterable[Plan], done: Iterable[str]) -> str:
    finished = set(done)
    return "\n".join(f"{'done' if one.key in finished else 'open'}  {one.key}" for one in plans)
