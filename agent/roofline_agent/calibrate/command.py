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
from roofline_agent.calibrate.calibration import Calibration, Ceiling, to_json
from roofline_agent.calibrate.compare import files, table, tools
from roofline_agent.calibrate.compare.table import Theirs
from roofline_agent.calibrate.earlier import with_earlier
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import this_hardware
from roofline_agent.calibrate.interference import cpu_times, disturbance
from roofline_agent.calibrate.node import calibrate
from roofline_agent.records import Rank

TOOLS = "tools"


class CalibrateOptions(NamedTuple):
    """What the user asked for."""

    path: Path  # where the calibration is kept
    effort: str  # "quick", "normal", "full"
    compare: str | None  # a file, or "tools"
    python: str | None  # that has torch, cupy or numpy
    as_json: bool
    force: bool = False  # also while a training runs, and on GPUs that others use
    compiled: bool = False  # by compiled kernels, even where machine code can be made


def run(options: CalibrateOptions, out: IO[str], report: Callable[[str], None]) -> None:
    """Measure; what is kept is replaced at the end, but for what was not measured this time. Raises
    CalibrationError, and Busy while a training runs.

    report: gets what is not the result (which round of a comparison it is).
    """
    ranks = running_ranks()
    if not options.force:
        refuse_beside(ranks)
    elif ranks and options.compare == TOOLS:
        raise Busy(f"tools are not compared beside a training, also not with --force: {named(ranks)}")
    # What cannot be compared is better reported before the measurement than after it.
    theirs: tuple[Theirs, ...] = ()
    if options.compare not in (None, TOOLS):
        theirs = files.read_theirs(options.compare)

    def show(ceiling: Ceiling) -> None:
        if not options.as_json:
            _print(out, text.row(ceiling))

    if not options.as_json:
        _print(out, text.HEADER)
    measured = _measure(options, show, ranks)
    result, not_kept = _keep(options, measured)
    compared = _compare(options, measured, theirs, report)
    if not options.as_json:
        _show_rest(options, result, compared, not_kept, out)
        return
    if not_kept:
        report(f"roofline-agent calibrate: {not_kept}")
    fields = to_json(result)
    if compared is not None:
        fields["comparison"] = [{**row._asdict(), "ratio": row.ratio} for row in compared.rows]
        fields["comparison_notes"] = list(compared.notes)
    _print(out, json.dumps(fields, indent=2))


def _measure(
    options: CalibrateOptions, show: Callable[[Ceiling], None], ranks: Sequence[Rank]
) -> Calibration:
    """CPUs, then GPUs and the framework's dispatch; a failure of either costs the other nothing."""
    from roofline_agent.calibrate.gpu import measure_gpus

    failure: CalibrationError | None = None
    try:
        result = calibrate(show, options.effort, prefer=not ranks, compiled=options.compiled)
    except CalibrationError as error:
        failure = error
        result = Calibration(platform.node(), "", 0, time.time_ns(), (), (str(error),), is_complete=False)
    try:
        ceilings, notes = measure_gpus(show, options.python, options.effort == "quick", options.force)
    except CalibrationError as error:
        ceilings, notes = (), (str(error),)
    if failure is not None and not ceilings:
        raise failure
    found, notes = (*result.ceilings, *ceilings), (*result.notes, *notes)
    if ranks:
        found = caveats.also(found, "measured beside a training")
        notes = (f"measured beside a training, which makes it too low: {named(ranks)}", *notes)
    if options.effort == "quick":
        found = caveats.also(found, "from --quick calibration")
    return result._replace(ceilings=found, notes=notes)


def _keep(options: CalibrateOptions, measured: Calibration) -> tuple[Calibration, str]:
    """What is kept now; else what was measured, and why it is not kept."""
    try:
        before = store.load(options.path)
    except CalibrationError:
        before = None
    if options.effort == "quick" and before is not None and before.effort != "quick":
        why = f"not kept: --quick is only for a look, and {options.path} has a thorough calibration"
        return measured, why
    result = with_earlier(measured, before)
    store.save(result, options.path)
    return result, ""


def _compare(
    options: CalibrateOptions, result: Calibration, theirs: tuple[Theirs, ...], report: Callable[[str], None]
) -> tools.Compared | None:
    if options.compare is None:
        return None
    if options.compare != TOOLS:
        return tools.Compared(table.compare(result, theirs), ())
    hardware = this_hardware()
    if hardware.cpu_limit is not None:
        why_not = "no tools are compared within a cgroup's limit, which stops them by chance"
        return tools.Compared([], (why_not,))
    before = cpu_times(hardware.cpus)
    compared = tools.compare_tools(hardware, options.python, options.effort == "quick", report)
    return compared._replace(notes=(*compared.notes, *disturbance(before, cpu_times(hardware.cpus))))


def _show_rest(
    options: CalibrateOptions,
    result: Calibration,
    compared: tools.Compared | None,
    not_kept: str,
    out: IO[str],
) -> None:
    lines = [*text.theory_lines(result)]
    if options.effort == "full":
        lines += text.sweep_lines(result.sweep)
    lines += text.note_lines(result)
    lines.append(not_kept or f"kept in {options.path}")
    if compared is not None:
        lines += ["", *table.lines(compared.rows)]
        if options.compare == TOOLS and compared.rows:
            lines += ["", *table.verdicts(compared.rows)]
            lines.append("(best of rounds taken in turn; kept is what stands above)")
        lines += [f"note: {note}" for note in compared.notes]
    for line in lines:
        _print(out, line)


def _print(out: IO[str], line: str) -> None:
    out.write(line + "\n")
    out.flush()
