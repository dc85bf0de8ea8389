"""`roofline-agent validate`: checks the sources, keeps the result, shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from ..calibrate.busy import named, running_ranks
from ..errors import Unavailable
from . import kept, text
from .node import ValidateRequest, validate
from .validation import Check, Unchecked, to_json

FORMATS = ("text", "json", "md")


class Outcome(NamedTuple):
    """The whole result in the form that was asked for, and an exit code."""

    document: str
    status: int  # 1: a source is off, or nothing could be checked


class _Lines:
    """The text form, a line shown as soon as it is known."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._last_work = ""
        self.all: list[str] = []

    def add(self, line: str) -> None:
        self.all.append(line)
        self._show(line)

    def add_result(self, one: Check | Unchecked) -> None:
        """A row below the name of its work. What could not be checked is listed at the end."""
        if isinstance(one, Unchecked):
            return
        if one.work != self._last_work:
            self.add(one.work)
            self._last_work = one.work
        self.add(text.row(one))


def run(
    request: ValidateRequest,
    form: str,
    force: bool,
    show: Callable[[str], None],
    progress: Callable[[str], None],
) -> Outcome:
    """Check and keep; kept results of other metrics stay, and all if the node was busy and something is off.
    show: gets lines of text as they are known.

    Raises Unavailable while a training runs, ValidationError.
    """
    ranks = running_ranks()
    if ranks and not force:
        raise Unavailable(
            f"nothing is checked, as a training runs on this node: {named(ranks)}. The known work would slow "
            "it down, and be disturbed by it: validate when it has ended, or with --force"
        )
    lines = _Lines(show)
    lines.add(text.HEADER)
    validation = validate(request, lines.add_result, progress)
    if ranks:
        validation = validation._replace(disturbance=f"a training ran meanwhile ({named(ranks)})")
    # Off for now: not marked for good.
    if validation.off and validation.disturbance:
        place = f"not kept: {validation.disturbance}; validate again while the node is idle"
    else:
        place = f"kept in {kept.keep(request.state, validation)}"
    for line in text.unchecked_lines(validation.unchecked):
        lines.add(line)
    for note in validation.notes:
        lines.add(f"note: {note}")
    lines.add(f"{text.summary(validation)}; {place}")
    if form == "json":
        document = json.dumps(to_json(validation), indent=2, allow_nan=False)
    else:
        document = "\n".join(text.markdown(validation) if form == "md" else lines.all)
    return Outcome(document + "\n", 1 if validation.off or not validation.checks else 0)
