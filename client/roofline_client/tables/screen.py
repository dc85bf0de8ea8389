"""The first screen of a report: the verdict, what it stands on, and what to ask next. No formula.

At most 30 lines of 100 columns, whatever the job is like; `--full` and the other forms have the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from roofline.answers.report import Report
from roofline.answers.values import Value
from roofline.answers.verdict import Finding, Gain, LeftOut, RankAccount, Verdict

from . import reports, units, wording
from .columns import GAP, Column, Columns
from .labelled import LABEL, WIDTH, Labelled
from .names import clean, short_hosts
from .reports import as_csv as as_csv
from .reports import as_json as as_json
from .reports import tables as tables

LINES = 30
BRIEF = 10
NAME = 28  # columns of a rank's name
PARTS = 7  # parts of an account that have columns of their own
SMALL = 0.005  # largest share of a part that has none
OTHER = "other"
SHARE_BETWEEN, NOTABLE = "between.share", 0.02


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
    more.add("More", f"roofline-client report {report.job}")
    return [block for block in (*blocks, more) if block.rows]


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
        found.append(_account(verdict, limits))
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
    block.add(f"Job {report.job}", "   ".join(fact for fact in facts if fact))
    if report.first_step is not None or report.last_step is not None:
        first = "the first" if report.first_step is None else report.first_step
        last = "the last" if report.last_step is None else report.last_step
        block.add("Steps", f"{first} to {last} only")
    block.add("Throughput", _throughput(verdict))
    if verdict.left_out:
        block.add("  left out", "; ".join(map(_left_out, verdict.left_out)))
    if between := _between(report):
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
        _rate(rate) if rate.value is not None else f"examples/s unknown: {rate.reason}",
        f"step {', '.join(steps)}" if steps else f"step time unknown: {verdict.step_median.reason}",
    ]
    return "   ".join(found)


def _rate(rate: Value) -> str:
    number = rate.value or 0.0
    return f"{number:,.0f} {rate.unit}" if number >= 100 else f"{number:.3g} {rate.unit}"


def _left_out(left: LeftOut) -> str:
    cost = f", {units.show(left.cost)}" if left.cost.value is not None else ""
    steps = "step" if left.steps == 1 else "steps"
    named = f"{steps} {left.reason}" if left.reason.startswith("after ") else f"{left.reason} {steps}"
    return f"{left.steps} {named}{cost}"


def _between(report: Report) -> str:
    """What a rank does much of its time in no step at all; "" if none does."""
    values = [rank.summary.values for rank in report.ranks]
    most = max(values, key=lambda of: _number(of.get(SHARE_BETWEEN)), default={})
    share = _number(most.get(SHARE_BETWEEN))
    if share < NOTABLE:
        return ""
    kinds = []
    for kind in ("evaluation", "checkpoint", "trace", "other"):
        count = _number(most.get(f"between.{kind}.count"))
        if count:
            name = kind if kind == "other" or count == 1 else f"{kind}s"
            kinds.append(f"{count:.0f} {name} of {units.show(most.get(f'between.{kind}.time'))}")
    return f"{share:.0%} of the time is in no step: {', '.join(kinds)}"


def _verdict(verdict: Verdict, limits: Limits) -> Labelled:
    block = Labelled()
    found = verdict.bottleneck
    if found is None:
        style = "bold green" if verdict.kind == "healthy" else "bold"
        block.add("VERDICT", _cut(verdict.headline, limits), style=style)
        return block
    aside = f"confidence: {found.confidence}" if found.confidence else ""
    block.add("BOTTLENECK", _cut(_where(found, verdict), limits), aside, style="bold red")
    block.add("  costs", _cost(found))
    if found.gain is not None:
        block.add("  if fixed", _gain(found, found.gain))
    if found.why:
        block.add("  doubt", _cut(found.why, limits))
    _several(block, "  evidence", found.evidence[: limits.lines], limits)
    tries = found.tries[: limits.lines]
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
    share = f" ({found.share.value:.0%} of the step)" if found.share.value is not None else ""
    if found.cost.value is None:
        return f"unknown: {found.cost.reason}"
    return f"{units.show(found.cost)} a step{share}"


def _gain(found: Finding, gain: Gain) -> str:
    text = f"{units.number(gain.without, 's')} a step ({units.between(gain.low, gain.high, 's')})"
    return text if found.rate.value is None else f"{text}, about {_rate(found.rate)}"


def _also(verdict: Verdict, limits: Limits) -> Labelled:
    block = Labelled()
    label = "NEXT GAIN" if verdict.kind == "healthy" else "ALSO"
    shown = verdict.also[: limits.also]
    lines = []
    for found in shown:
        cost = f", {_cost(found)}" if found.cost.value is not None else ""
        gain = f"; if fixed {_gain(found, found.gain)}" if found.gain and verdict.bottleneck is None else ""
        lines.append(f"{_where(found, verdict)}{cost}{gain}")
    _several(block, label, lines, limits)
    if verdict.bottleneck is None and shown and shown[0].tries:
        block.add("  try", _cut(shown[0].tries[0], limits))
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
        longer = f"{lines[-1]} | {command}" if lines[-1] else command
        lines[-1:] = [longer] if len(longer) <= WIDTH - LABEL else [lines[-1], command]
    _several(block, "More", lines, limits)
    return block


def _commands(report: Report, verdict: Verdict) -> list[str]:
    job = report.job
    commands = [f"report {job} --full"]
    if verdict.kind in ("bottleneck", "unclear") and len(report.ranks) > 1:
        commands.append(f"stragglers --job {job}")
    if verdict.bottleneck is not None and verdict.bottleneck.rank:
        commands.append(f"what-if --job {job} --fix {verdict.bottleneck.rank.partition(',')[0]}")
    commands.append(f"breakdown --job {job}")
    if any(account.parts for account in verdict.accounts):
        commands.append(f"plot --job {job} -o FILE.png")
    return commands


# -- the account ------------------------------------------------------------------------------------


class _Cells(NamedTuple):
    """A column of the account: its title, and a cell for each rank shown."""

    title: str
    cells: list[str]

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.title, *self.cells))) + GAP


def _account(verdict: Verdict, limits: Limits) -> Columns:
    """A row a rank, as they come: worst first. The first rank that is named is always among them."""
    named = verdict.bottleneck.rank.split(", ") if verdict.bottleneck else []
    shown = list(verdict.accounts[: limits.ranks])
    for account in verdict.accounts[limits.ranks :]:
        if [account.rank] == named[:1]:
            shown[-1] = account
    rest = [account for account in verdict.accounts if account not in shown]
    columns = _fitting(shown, _names(shown, verdict), rest)

    heads = [Column(columns[0].title), *(Column(one.title, right=True) for one in columns[1:])]
    table = Columns("", heads)
    for at, account in enumerate(shown):
        table.add(*(one.cells[at] for one in columns), style="bold" if account.rank in named else "")
    if rest:
        table.add(*(one.cells[-1] for one in columns[:2]), *[""] * (len(columns) - 2))
    return table


def _steps_of(accounts: Sequence[RankAccount]) -> str:
    """The longest of their steps: none of them is later."""
    longest = max((a.step for a in accounts if a.step.value is not None), key=_number, default=None)
    return "" if longest is None else f"<= {units.show(longest)}"


def _number(value: Value | None) -> float:
    return value.value or 0.0 if value else 0.0


def _names(shown: Sequence[RankAccount], verdict: Verdict) -> list[str]:
    hosts = sorted({account.host for account in verdict.accounts if account.host})
    short = short_hosts(hosts)
    names = []
    for account in shown:
        name = f"  {clean(account.rank)}"
        if len(hosts) > 1 and account.host:
            name += f" @{clean(short[account.host])}"
        names.append(name if cell_len(name) <= NAME else f"{set_cell_size(name, NAME - 3)}...")
    return names


def _fitting(shown: Sequence[RankAccount], names: list[str], rest: Sequence[RankAccount]) -> list[_Cells]:
    """As many columns as fit beside each other; what does not is part of the other time, or left out. The
    first two have a cell more where there are ranks that are not shown, for all of these."""
    steps = [units.show(account.step) for account in shown]
    if rest:
        names, steps = [*names, wording.more_ranks(len(rest))], [*steps, _steps_of(rest)]
    begin = [_Cells(wording.ACCOUNT, names), _Cells("step", steps)]
    ends = _ends(shown)
    for most in range(PARTS, 0, -1):
        for kept in range(len(ends), -1 if most == 1 else 0, -1):
            columns = [*begin, *_parts(shown, most), *ends[:kept]]
            if sum(one.width for one in columns) <= WIDTH:
                return columns
    return begin


def _ends(shown: Sequence[RankAccount]) -> list[_Cells]:
    """How they ended, what they used; the most important first."""
    found = []
    if any(account.exit for account in shown):
        found.append(_Cells("exit", [account.exit or "-" for account in shown]))
    if any(account.cores.value is not None for account in shown):
        found.append(_Cells("cores", [_one_place(account.cores, 1.0) for account in shown]))
    if any(v.value is not None for account in shown for v in (account.received, account.sent)):
        cells = [f"{_one_place(a.received, 1e6)}/{_one_place(a.sent, 1e6)}" for a in shown]
        found.append(_Cells("in/out MB/s", cells))
    return found


def _one_place(value: Value, scale: float) -> str:
    if value.value is None:
        return "-"
    number = value.value / scale
    return f"{number:.1f}" if number < 10 else f"{number:.0f}"


def _parts(shown: Sequence[RankAccount], most: int) -> list[_Cells]:
    """The largest parts of anybody's account in the order of the account, then all others together."""
    shares = [{part.part: part.share.value for part in account.parts} for account in shown]
    order = [*dict.fromkeys(part.part for account in shown for part in account.parts)]
    largest = {name: max((of.get(name) or 0.0) for of in shares) for name in order}
    own = [name for name in order if name != OTHER and largest[name] >= SMALL]
    own = sorted(own, key=lambda name: -largest[name])[:most]
    columns = [
        _Cells(wording.part(name), [units.percent(of.get(name)) for of in shares])
        for name in order
        if name in own
    ]
    rest = [[share for name, share in of.items() if name not in own and share is not None] for of in shares]
    if any(sum(of) >= SMALL for of in rest):
        columns.append(_Cells(OTHER, [units.percent(sum(of) if of else None) for of in rest]))
    return columns
