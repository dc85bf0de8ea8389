"""The measuring process: writes each ceiling, note and sweep of one part as a line of JSON (see `child`)."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys

from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.machine import this_machine
from roofline_agent.calibrate.measure import PARTS, Listener, measure
from roofline_agent.calibrate.records import Ceiling, SweepPoint, ceiling_to_json
from roofline_agent.calibrate.runs import PLANS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m roofline_agent.calibrate", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--effort", choices=PLANS, default="normal")
    arguments = parser.parse_args()
    # An interrupt ends this process at once: it holds nothing but memory, and Python would wait for threads.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        machine = this_machine()
        plan = PLANS[arguments.effort]._replace(limit=machine.cpu_limit)
        listener = Listener(_write_ceiling, lambda note: _write({"note": note}), _write_sweep)
        measure(arguments.part, machine, plan, listener)
        _write({"end": True})
    except CalibrationError as error:
        _write({"error": str(error)})
        return 1
    except BrokenPipeError:
        # Nobody listens any more. Python would try to flush once more at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _write_ceiling(ceiling: Ceiling) -> None:
    _write({"ceiling": ceiling_to_json(ceiling)})


def _write_sweep(points: list[SweepPoint]) -> None:
    _write({"sweep": [point._asdict() for point in points]})


def _write(message: dict[str, object]) -> None:
    print(json.dumps(message, allow_nan=False), flush=True)


if __name__ == "__main__":
    sys.exit(main())
