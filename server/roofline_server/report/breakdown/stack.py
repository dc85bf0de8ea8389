"""Where the mean step of ranks goes by layer of the software, the launcher's work before it included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.answers.values import Scope, Value, value

from ...correlate.steps import OWN
from ...model.account.account import Account
from ...model.account.stack import LAUNCHER, stack
from ...model.evidence import NS
from ...model.roofline import compose
from ...model.roofline.compose import Part
from ...records import rows
from ...sentences import breakdowns as texts
from ...store.view import JobView
from ..evidence.tables import by_rank, where
from ..ranks.members import on_clock

KIND = "stack_by_time"


def parts_of(
    view: JobView, numbers: Sequence[int], accounts: Mapping[int, Account], scope: Scope
) -> list[Part]:
    """Nothing of ranks without steps of their own."""
    some = [number for number in numbers if number in accounts and len(accounts[number].duration)]
    if not some:
        return []
    own = by_rank({"steps": where(view.steps.get("steps", {}), "window", OWN)})
    steps = [rows(own[number]["steps"]) for number in some]
    before = [_before_s(view, number, int(own[number]["steps"]["begin_ns"].min())) for number in some]
    layers = stack([accounts[number] for number in some], before, steps)
    parts = {one.name: value(one.seconds, "s", one.provenance, scope) for one in layers}
    launcher = parts.pop(LAUNCHER, None)
    of_step = compose.parted(parts)
    if launcher is None:
        return of_step
    started = [one for one in before if one is not None]
    words = texts.launched(sum(started) / len(started), max(steps))
    return [Part(LAUNCHER, launcher, Value(None, "1", reason=texts.ONCE), words), *of_step]


def _before_s(view: JobView, number: int, first_ns: int) -> float | None:
    """From the start of a rank, as its agent saw it, to its first step; None: it was not seen before."""
    begins = [on_clock(view, who)[0] for who in view.process_lifetimes if who.rank == number]
    return (first_ns - min(begins)) / NS if begins and min(begins) < first_ns else None
