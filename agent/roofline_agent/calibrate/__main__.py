"""The measuring process: writes each ceiling, note and sweep of one part as a line of JSON (see `child`)."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from roofline_agent.calibrate.calibration import ceiling_to_json
from roofline_agent.calibrate.compiled.compiler import CompiledLibrary
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import this_hardware
from roofline_agent.calibrate.kernel_sets import kernel_set
from roofline_agent.calibrate.measure import PARTS, Callbacks, measure
from roofline_agent.calibrate.probe import Bench
from roofline_agent.calibrate.runs import PLANS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m roofline_agent.calibrate", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--effort", choices=PLANS, default="normal")
    parser.add_argument("--library", type=Path, help="compiled kernels; else machine code made here")
    parser.add_argument("--compiler", default="", help="by which the library was compiled")
    arguments = parser.parse_args()
    # An interrupt ends this process at once: it holds nothing but memory, and Python would wait for threads.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    callbacks = Callbacks(
        ceiling=lambda ceiling: _write({"ceiling": ceiling_to_json(ceiling)}),
        note=lambda note: _write({"note": note}),
        sweep=lambda points: _write({"sweep": [point._asdict() for point in points]}),
    )
    library = CompiledLibrary(arguments.library, arguments.compiler) if arguments.library else None
    try:
        hardware = this_hardware()
        plan = PLANS[arguments.effort]._replace(limit=hardware.cpu_limit)
        bench = Bench(hardware, kernel_set(hardware, library))
        measure(arguments.part, bench, plan, callbacks)
        _write({"end": True})
    except CalibrationError as error:
        _write({"error": str(error)})
        return 1
    except BrokenPipeError:
        # Nobody reads any more. Python would try to flush once more at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _write(message: dict[str, object]) -> None:
    print(json.dumps(message, allow_nan=False), flush=True)


if __name__ == "__main__":
    sys.exit(main())
