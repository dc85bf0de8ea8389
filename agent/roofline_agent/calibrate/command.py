"""`roofline-agent calibrate`: measures, adds what GPUs give, keeps the result, compares it."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from roofline_agent.calibrate import caveats, store, text
from roofline_agent.calibrate.busy import Busy, named, refuse_beside, running_ranks
from roofline_agent.calibrate.compare import files, table, tools
from roofline_agent.calibrate.compare.table import Row, Theirs
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.interference import cpu_times, disturbance
from roofline_agent.calibrate.machine import this_machine
from roofline_agent.calibrate.node import calibrate
from roofline_agent.calibrate.records import Calibration, Ceiling, to_json
from roofline_agent.records import Rank

TOOLS = "tools"


class Order(NamedTuple):
    """What the user asked for."""

    path: Path  # where the calibration is kept
    effort: str  # "quick", "normal", "full"
    compare: str | None  # a file, or "tools"
    python: str | None  # that has torch, cupy or numpy
    as_json: bool
    force: bool = False  # also beside a training, and on GPUs that others use


def carry_out(order: Order, out: IO[str], say: Callable[[str], None]) -> None:
    """Do it; what is kept is replaced at the end alone. Raises CalibrationError, and Busy beside a training.

    say: hears what is not the result (which round of a comparison it is).
    """
    ranks = running_ranks()
    if not order.force:
        refuse_beside(ranks)
    elif ranks and order.compare == TOOLS:
        raise Busy(f"tools are not compared beside a training, also not with --force: {named(ranks)}")
    # What cannot be compared is better said before the measurement than after it.
    theirs = files.read_theirs(order.compare) if order.compare not in (None, TOOLS) else ()
    show = _nothing if order.as_json else lambda ceiling: _print(out, text.row(ceiling))
    if not order.as_json:
        _print(out, text.HEADER)
    result = _measure(order, show, ranks)
    why_not = _keep(order, result)
    compared = _compare(order, result, theirs, say)
    if order.as_json:
        if why_not:
            say(f"roofline-agent calibrate: {why_not}")
        _print(out, json.dumps({**to_json(result), **_rows_to_json(compared)}, indent=2))
    else:
        _show_rest(order, result, compared, why_not, out)


def _keep(order: Order, result: Calibration) -> str:
    """Replace what is kept; else why not."""
    if order.effort == "quick":
        try:
            kept = store.load(order.path)
        except CalibrationError:
            kept = None
        if kept is not None and kept.effort != "quick":
            return f"not kept: --quick is only for a look, and {order.path} has a thorough calibration"
    store.save(result, order.path)
    return ""


def _nothing(ceiling: Ceiling) -> None:
    pass


def _measure(order: Order, show: Callable[[Ceiling], None], ranks: Sequence[Rank]) -> Calibration:
    """CPUs, then GPUs and the framework's dispatch; a failure of either costs the other nothing."""
    from roofline_agent.calibrate.gpu import measure_gpus

    why: CalibrationError | None = None
    try:
        result = calibrate(show, order.effort, prefer=not ranks)
    except CalibrationError as error:
        why, result = error, Calibration(platform.node(), "", 0, time.time_ns(), (), (str(error),))
    try:
        ceilings, notes = measure_gpus(show, order.python, order.effort == "quick", order.force)
    except CalibrationError as error:
        ceilings, notes = (), (str(error),)
    if why is not None and not ceilings:
        raise why
    beside = (f"measured beside a training, which makes it too low: {named(ranks)}",) if ranks else ()
    found = (*result.ceilings, *ceilings)
    if ranks:
        found = caveats.also(found, "measured beside a training")
    if order.effort == "quick":
        found = caveats.also(found, "measured in a hurry (--quick)")
    return result._replace(ceilings=found, notes=(*beside, *result.notes, *notes))


def _compare(
    order: Order, result: Calibration, theirs: tuple[Theirs, ...], say: Callable[[str], None]
) -> tools.Compared | None:
    if order.compare is None:
        return None
    if order.compare != TOOLS:
        return tools.Compared(table.rows(result, theirs), ())
    machine = this_machine()
    if machine.cpu_limit is not None:
        return tools.Compared(
            [], ("no tools are compared within a cgroup's limit, which stops them by chance",)
        )
    before = cpu_times(machine.cpus)
    compared = tools.compare_tools(machine, order.python, order.effort == "quick", say)
    return compared._replace(notes=(*compared.notes, *disturbance(before, cpu_times(machine.cpus))))


def _rows_to_json(compared: tools.Compared | None) -> dict[str, object]:
    if compared is None:
        return {}
    rows = [{**row._asdict(), "ratio": row.ratio} for row in compared.rows]
    return {"comparison": rows, "comparison_notes": list(compared.notes)}


def _show_rest(
    order: Order, result: Calibration, compared: tools.Compared | None, why_not: str, out: IO[str]
) -> None:
    sweep = text.sweep_lines(result.sweep) if order.effort == "full" else ()
    for line in (*text.theory_lines(result), *sweep, *text.note_lines(result)):
        _print(out, line)
    _print(out, why_not or f"kept in {order.path}")
    if compared is not None:
        rows: list[Row] = compared.rows
        in_turn = order.compare == TOOLS and rows
        told = ("", *table.verdicts(rows), "(best of rounds taken in turn; kept is what stands above)")
        for line in ("", *table.lines(rows), *(told if in_turn else ())):
            _print(out, line)
        for note in compared.notes:
            _print(out, f"note: {note}")


def _print(out: IO[str], line: str) -> None:
    out.write(line + "\n")
    out.flush()
