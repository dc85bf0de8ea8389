"""The first screen of a report: the verdict, what it is based on, and what to ask next. No formula.

At most 30 lines of 100 columns, whatever the job is like; `--full` and the other forms have the rest.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, Group
from rich.segment import Segment
from rich.text import Text
from roofline.answers.report import Report
from roofline.answers.values import Value
from roofline.answers.verdict import Finding, Gain, LeftOut, Verdict
from roofline.phrases import steps_left_out

from . import reports, units
from .accounts import account_table
from .columns import Columns
from .labelled import APART, LABEL, WIDTH, Labelled
from .reports import as_csv as as_csv
from .reports import as_json as as_json
from .reports import tables as tables

LINES = 30
BRIEF = 10
REST = "... (the rest needs a larger terminal; `report` without --watch has it)"
SHARE_BETWEEN, NOTABLE = "between.share", 0.02
# Kinds of findings that lie between steps.
BREAKS = ("evaluates", "saves", "busy_alone", "evaluation", "checkpoint", "without_gradients", "between")
OTHER_RATE = 0.1  # so much more or less is worth a line
BETWEEN = {  # kind -> of one, of several
    "evaluation": ("evaluation", "evaluations"),
    "checkpoint": ("checkpoint", "checkpoints"),
    "without_gradients": ("stretch without gradients", "stretches without gradients"),
    "trace": ("trace", "traces"),
    "other": ("other stretch", "other stretches"),
}


class Limits(NamedTuple):
    """How much of each is shown."""

    ranks: int
    lines: int  # of evidence, and of what to try
    also: int
    roles: int
    text: int = 600  # columns of a sentence; a longer one is cut


# From all that there is room for at best to what always fits.
LIMITS = (
    Limits(8, 4, 3, 3),
    Limits(8, 3, 3, 3),
    Limits(8, 3, 2, 2),
    Limits(6, 3, 2, 2),
    Limits(5, 2, 2, 2),
    Limits(4, 2, 1, 2),
    Limits(3, 1, 1, 1, 170),
    Limits(2, 1, 1, 1, 80),
    Limits(1, 1, 0, 1, 60),
)


def as_text(report: Report) -> Group:
    """The first screen; of a server that sends no verdict the whole report."""
    if report.verdict is None:
        return reports.as_text(report)
    return Group(*_spaced(_fitting_blocks(report, report.verdict)))


class OnTerminal:
    """The first screen on a terminal that is redrawn and does not scroll: as much as it has room for."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        height = options.height or console.size.height
        lines = self._lines(console, options.update(height=None), height)
        if len(lines) > height:
            more = console.render_lines(Text(REST), options.update(height=None))
            lines = [*lines[: max(0, height - len(more))], *more]
        for line in lines:
            yield from (*line, Segment.line())

    def _lines(self, console: Console, options: ConsoleOptions, height: int) -> list[list[Segment]]:
        verdict = self._report.verdict
        if verdict is None:
            return console.render_lines(as_text(self._report), options)
        for limits in LIMITS:
            lines = console.render_lines(Group(*_spaced(_blocks(self._report, verdict, limits))), options)
            if len(lines) <= min(height, LINES):
                break
        return lines


def in_brief(report: Report) -> Group:
    """The verdict alone in at most BRIEF lines: for the end of a job's output."""
    if report.verdict is None:
        return reports.as_text(report)
    for limits in LIMITS:
        blocks = _brief_blocks(report, report.verdict, limits)
        if sum(len(block.lines(WIDTH)) for block in blocks) <= BRIEF:
            break
    return Group(*blocks)


def _brief_blocks(report: Report, verdict: Verdict, limits: Limits) -> list[Labelled]:
    blocks = [_head(report, verdict), _verdict(verdict, limits)]
    if verdict.also and limits.also:
        blocks.append(_also(verdict, limits))
    more = Labelled()
    more.add("More", f"roofline-client {_report_of(report.job)}")
    return [block for block in (*blocks, more) if block.rows]


def newest(report: Report) -> Labelled:
    """What holds a running job up, in a line, by the report of its newest steps; empty: that is not known."""
    block, verdict = Labelled(), report.verdict
    if verdict is None or verdict.kind == "unknown":
        return block
    found = verdict.bottleneck
    words = verdict.headline if found is None else f"{_where(found, verdict)}, {_cost(found)}"
    style = "bold green" if verdict.kind == "healthy" else "bold"
    block.add("NOW", words, style=style)
    if found is not None and verdict.also:
        block.add("  also", f"{_where(verdict.also[0], verdict)}, {_cost(verdict.also[0])}")
    return block


def in_full(report: Report) -> Group:
    """The first screen, and below it all tables."""
    tables = reports.as_text(report)
    return tables if report.verdict is None else Group(as_text(report), "", tables)


def _fitting_blocks(report: Report, verdict: Verdict) -> list[Labelled | Columns]:
    """As much as there is room for."""
    for limits in LIMITS:
        blocks = _blocks(report, verdict, limits)
        if _height(blocks) <= LINES:
            break
    return blocks


def _spaced(blocks: Sequence[Labelled | Columns]) -> list[Any]:
    return [part for block in blocks for part in ("", block)][1:]


def _height(blocks: Sequence[Labelled | Columns]) -> int:
    lines = [len(b.lines(WIDTH)) if isinstance(b, Labelled) else len(b.rows) + 1 for b in blocks]
    return sum(lines) + len(lines) - 1


def _blocks(report: Report, verdict: Verdict, limits: Limits) -> list[Labelled | Columns]:
    blocks = [_head(report, verdict), _verdict(verdict, limits)]
    if verdict.also and limits.also:
        blocks.append(_also(verdict, limits))
    found: list[Labelled | Columns] = [block for block in blocks if block.rows]
    if any(account.parts or account.step.value is not None for account in verdict.accounts):
        found.append(account_table(verdict, limits.ranks))
    found.append(_foot(report, verdict, limits))
    return found


# -- lines ------------------------------------------------------------------------------------------


def _head(report: Report, verdict: Verdict) -> Labelled:
    block = Labelled()
    hosts = {host for role in report.roles for host in role.hosts if host}
    seconds = units.number((report.end_ns - report.begin_ns) / 1e9, "s")
    roles = " + ".join(_members(role.role, role.ranks) for role in report.roles)
    # Of one rank alone it says nothing.
    mode = report.mode if len(report.ranks) > 1 else ""
    ranks = ", ".join(text for text in (roles, mode) if text)
    nodes = "1 node" if len(hosts) == 1 else f"{len(hosts)} nodes"
    facts = [verdict.state, seconds, ranks, nodes if hosts else ""]
    block.add(f"Job {report.job}", APART.join(fact for fact in facts if fact))
    if report.first_step is not None or report.last_step is not None:
        first = "the first" if report.first_step is None else report.first_step
        last = "the last" if report.last_step is None else report.last_step
        block.add("Steps", f"only {first}" if first == last else f"only {first} to {last}")
    block.add("Throughput", _throughput(verdict))
    if whole := _whole_run(verdict):
        block.add("  whole run", whole)
    if verdict.left_out:
        block.add("  left out", "; ".join(map(_left_out, verdict.left_out)))
    if between := _between(report, verdict):
        block.add("  between", between)
    return block


def _members(role: str, count: int) -> str:
    if role == "ps":
        return f"{count} PS"
    if role in ("worker", "chief", "evaluator"):
        return f"{count} {role}" + ("s" if count > 1 else "")
    return f"{count} {role} rank" + ("s" if count > 1 else "")


def _throughput(verdict: Verdict) -> str:
    steps = [
        f"{units.show(value)} {name}"
        for name, value in (
            ("median", verdict.step_median),
            ("mean", verdict.step_mean),
            ("p95", verdict.step_p95),
        )
        if value.value is not None
    ]
    rate = verdict.examples_per_second
    found = [
        units.rate(rate) if rate.value is not None else f"examples/s unknown: {rate.reason}",
        f"step {', '.join(steps)}" if steps else f"step time unknown: {verdict.step_median.reason}",
    ]
    return APART.join(found)


def _whole_run(verdict: Verdict) -> str:
    """Examples/s of the whole run where they are clearly others than those of the steady steps; else ""."""
    steady, whole = verdict.examples_per_second.value, verdict.examples_per_second_of_run
    if whole is None or not whole.value or not steady or abs(whole.value / steady - 1) < OTHER_RATE:
        return ""
    return f"{units.rate(whole)}, from the first step to the last"


def _left_out(left: LeftOut) -> str:
    cost = f", {units.show(left.cost)}" if left.cost.value is not None else ""
    return f"{steps_left_out(left.steps, left.reason)}{cost}"


def _between(report: Report, verdict: Verdict) -> str:
    """What a rank does between its steps for much of its time; "": none does. Named where others differ."""
    stepping = {account.rank for account in verdict.accounts if account.steps}
    ranks = [rank for rank in report.ranks if rank.rank in stepping]
    shares = [_number(rank.summary.values.get(SHARE_BETWEEN)) for rank in ranks]
    share = max(shares, default=0.0)
    if share < NOTABLE:
        return ""
    rank = ranks[shares.index(share)]
    most = rank.summary.values
    kinds = []
    for kind, (one, several) in BETWEEN.items():
        count = _number(most.get(f"between.{kind}.count"))
        if count:
            name = one if count == 1 else several
            kinds.append(f"{count:.0f} {name} of {units.show(most.get(f'between.{kind}.time'))}")
    text = f"is between steps: {', '.join(kinds)}"
    if min(shares) > share / 2:
        return f"{share:.0%} of the time {text}"
    waits = "; the others wait meanwhile" if report.mode == "synchronous" else ""
    return f"{share:.0%} of the time of {rank.rank} {text}{waits}"


def _number(value: Value | None) -> float:
    return value.value or 0.0 if value else 0.0


def _verdict(verdict: Verdict, limits: Limits) -> Labelled:
    block = Labelled()
    bottleneck = verdict.bottleneck
    if bottleneck is None:
        style = "bold green" if verdict.kind == "healthy" else "bold"
        block.add("VERDICT", _cut(verdict.headline, limits), style=style)
        return block
    aside = f"confidence: {bottleneck.confidence}" if bottleneck.confidence else ""
    block.add("BOTTLENECK", _cut(_where(bottleneck, verdict), limits), aside, style="bold red")
    block.add("  costs", _cost(bottleneck))
    if bottleneck.gain is not None:
        block.add("  if fixed", _gain(bottleneck, bottleneck.gain))
    if bottleneck.why:
        block.add("  why", _cut(f"low confidence: {bottleneck.why}", limits))
    _several(block, "  evidence", bottleneck.evidence[: limits.lines], limits)
    tries = bottleneck.tries[: limits.lines]
    if len(tries) > 1:
        tries = [f"{number}. {text}" for number, text in enumerate(tries, 1)]
    _several(block, "  try", tries, limits)
    return block


def _where(found: Finding, verdict: Verdict) -> str:
    """The sentence, with the node where there are several."""
    several = len({account.host for account in verdict.accounts if account.host}) > 1
    return f"{found.sentence} (on {found.host})" if several and found.host else found.sentence


def _several(block: Labelled, label: str, lines: Iterable[str], limits: Limits) -> None:
    for number, line in enumerate(lines):
        block.add("" if number else label, _cut(line, limits))


def _cut(text: str, limits: Limits) -> str:
    return text if len(text) <= limits.text else f"{text[: limits.text - 3]}..."


def _cost(found: Finding) -> str:
    whole = "time" if found.kind in BREAKS else "step"
    share = f" ({units.percent(found.share.value)} of the {whole})" if found.share.value is not None else ""
    if found.cost.value is None:
        return f"unknown: {found.cost.reason}"
    return f"{units.show(found.cost)} a step{share}"


def _gain(found: Finding, gain: Gain) -> str:
    text = f"{units.number(gain.without, 's')} a step ({units.between(gain.low, gain.high, 's')})"
    return text if found.rate.value is None else f"{text}, about {units.rate(found.rate)}"


def _also(verdict: Verdict, limits: Limits) -> Labelled:
    block = Labelled()
    shown, healthy = verdict.also[: limits.also], verdict.kind == "healthy"
    last = ""
    for found in shown:
        # What a healthy job has of some ranks costs these much, and the job hardly anything.
        minor = healthy and bool(found.rank)
        label = "NEXT GAIN" if healthy and not minor else "ALSO"
        cost = f", {_cost(found)}" if found.cost.value is not None else ""
        fixed = found.gain if verdict.bottleneck is None and not minor else None
        gain = f"; if fixed {_gain(found, fixed)}" if fixed else ""
        unsure = f"; low confidence: {found.why}" if found.why and verdict.bottleneck is not None else ""
        line = _cut(f"{_where(found, verdict)}{cost}{gain}{unsure}", limits)
        block.add("" if label == last else label, line)
        last = label
    first = shown[-1 if healthy else 0] if shown else None
    if verdict.bottleneck is None and first is not None and first.tries:
        block.add("  try", _cut(first.tries[0], limits))
    return block


def _foot(report: Report, verdict: Verdict, limits: Limits) -> Labelled:
    block = Labelled()
    _several(block, "Roofline", verdict.roofline[: limits.roles], limits)
    if verdict.quality:
        more = len(verdict.quality) - 2
        text = _cut("; ".join(verdict.quality[:2]), limits)
        block.add("Data", text + (f"; and {more} more (--full)" if more > 0 else ""))
    lines = [""]
    for command in _commands(report, verdict):
        longer = f"{lines[-1]}{APART}{command}" if lines[-1] else command
        lines[-1:] = [longer] if len(longer) <= WIDTH - LABEL else [lines[-1], command]
    _several(block, "More", lines, limits)
    return block


def _report_of(job: str) -> str:
    """The command, in which a name that begins with "-" would be taken for an option."""
    return f"report {'--job ' if job.startswith('-') else ''}{shlex.quote(job)}"


def _commands(report: Report, verdict: Verdict) -> list[str]:
    job = shlex.quote(report.job)
    commands = [f"{_report_of(report.job)} --full"]
    if verdict.kind in ("bottleneck", "unclear") and len(report.ranks) > 1:
        commands.append(f"stragglers --job {job}")
    named = verdict.bottleneck
    # What fixing several ranks at once would give cannot be asked for.
    if named is not None and named.rank and "," not in named.rank and named.kind not in BREAKS:
        commands.append(f"what-if --job {job} --fix {shlex.quote(named.rank)}")
    commands.append(f"breakdown --job {job}")
    if any(account.parts for account in verdict.accounts):
        commands.append(f"plot --job {job} -o FILE.png")
    return commands
