"""The account of each rank on the first screen: where its steady steps go, how it ended, what it used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from roofline.answers.values import Value
from roofline.answers.verdict import RankAccount, Verdict

from . import units, wording
from .columns import GAP, Column, Columns
from .labelled import WIDTH
from .names import clean, short_hosts

NAME = 28  # columns of a rank's name
PARTS = 7  # parts of an account that have columns of their own
SMALL = 0.005  # largest share of a part that has none
OTHER = "other"
EXIT = "exit code"


class _Cells(NamedTuple):
    """A column of the account: its title, and a cell for each rank shown."""

    title: str
    cells: list[str]

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.title, *self.cells))) + GAP


def account_table(verdict: Verdict, most_ranks: int) -> Columns:
    """A row for each of at most so many ranks, as they come: worst first. The first rank that the bottleneck
    names is always among them."""
    named = verdict.bottleneck.rank.split(", ") if verdict.bottleneck else []
    shown = list(verdict.accounts[:most_ranks])
    for account in verdict.accounts[most_ranks:]:
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
    longest = max(
        (a.step for a in accounts if a.step.value is not None), key=lambda v: v.value or 0.0, default=None
    )
    return "" if longest is None else f"<= {units.show(longest)}"


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
    """As many columns as fit next to each other; what does not is part of the other time, or left out. The
    first two have a cell more where there are ranks that are not shown, for all of these."""
    steps = [units.show(account.step) for account in shown]
    if rest:
        names, steps = [*names, wording.more_ranks(len(rest))], [*steps, _steps_of(rest)]
    begin = [_Cells(wording.ACCOUNT, names), _Cells("step", steps)]
    ends = _ends(shown)
    for most in range(PARTS, 0, -1):
        least = 0 if most == 1 else min(1, len(ends))
        for kept in range(len(ends), least - 1, -1):
            # How they ended is what is kept longest, and stands last: it is no part of the step.
            behind = sorted(ends[:kept], key=lambda one: one.title == EXIT)
            columns = [*begin, *_parts(shown, most), *behind]
            if sum(one.width for one in columns) <= WIDTH:
                return columns
    return begin


def _ends(shown: Sequence[RankAccount]) -> list[_Cells]:
    """How they ended, what they used; the most important first."""
    found = []
    if any(account.exit for account in shown):
        found.append(_Cells(EXIT, [account.exit or "-" for account in shown]))
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
