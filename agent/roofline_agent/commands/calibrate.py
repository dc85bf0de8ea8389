"""`roofline-agent calibrate`: what is to be measured, and what another result is put next to it."""

from __future__ import annotations

import shutil
import sys
from typing import Annotated

import typer

from .options import check_format, load_config


def calibrate(
    context: typer.Context,
    full: Annotated[bool, typer.Option("--full", help="measure everything, in a minute or two")] = False,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="measure for a second or two; never replaces a thorough calibration"),
    ] = False,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|tools", help="compare with another result; tools: run those installed here"
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Python that has torch or cupy, and numpy for --compare tools"),
    ] = None,
    output: Annotated[str, typer.Option("--format", help="text or json")] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="the same as --format json")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="measure even while a training runs; ceilings are then too low")
    ] = False,
    compiled: Annotated[bool, typer.Option("--compiled", hidden=True, help="C on x86-64 too")] = False,
) -> None:
    """Measure and store this node's ceilings. A running daemon reads them at once.

    Peak FLOP/s by precision and vector width; bandwidth of each cache, of DRAM, and of GPUs if there are any.
    Takes about 20 s on all CPUs: run it while the node is idle. Each ceiling is the best of several runs; the
    table also shows the median, the spread and the clock of the cores.

    Examples:

    \b
      roofline-agent calibrate
      roofline-agent calibrate --full              also one core, no FMA, sweep
      roofline-agent calibrate --python PATH       GPUs, with its framework
      roofline-agent calibrate --compare tools     STREAM, likwid-bench, GEMM
      roofline-agent calibrate --compare b.json    or output of STREAM, ERT
      roofline-agent calibrate --format json > node.json

    The format of a file to compare with is recognised by its content. Stored ceilings are replaced at the
    end; Ctrl-C keeps the old ones. What cannot be measured this time, as a GPU without its framework or a
    part that fails, stays as it was with its date. Each ceiling is explained in docs/ceilings.md.
    Exit codes: 1 nothing could be measured or stored, or the file to compare with has no ceiling; 6 a
    training runs on this node (see --force).
    """
    from ..calibrate import command
    from ..ceilings import ceilings_path

    check_format(output)
    if full and quick:
        raise typer.BadParameter("not together with --quick", param_hint="--full")
    if python is not None and shutil.which(python) is None:
        # Before anything is measured: what an earlier run found with it would be replaced by nothing.
        raise typer.BadParameter(f"{python!r} cannot be run as a program", param_hint="--python")
    state = load_config(context).state_directory()
    effort = "full" if full else "quick" if quick else "normal"
    options = command.CalibrateOptions(
        ceilings_path(state), effort, compare, python, as_json or output == "json", force, compiled
    )
    try:
        command.run(options, sys.stdout, lambda line: print(line, file=sys.stderr))
    except KeyboardInterrupt:
        print("roofline-agent calibrate: interrupted; the stored result is unchanged", file=sys.stderr)
        raise
