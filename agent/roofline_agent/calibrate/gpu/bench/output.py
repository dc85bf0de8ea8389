"""Lines of JSON that the agent reads: a ceiling, a note, the facts of a GPU.

A ceiling is an object with the fields of `calibrate.calibration.Ceiling`, which is not imported: this may be
an older Python than the agent's.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import IO, Any

from .timing import Timing

_out: IO[str] | None = None


def keep_output() -> None:
    """From here on standard output is for these lines alone; what a framework prints goes elsewhere."""
    global _out
    _out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)


def write(message: dict[str, Any]) -> None:
    out = _out or sys.stdout
    out.write(json.dumps(message, allow_nan=False) + "\n")
    out.flush()


def note(text: str) -> None:
    write({"note": text})


def ceiling(name: str, kind: str, unit: str, measured: Timing, method: str, **more: Any) -> None:
    """more: other fields of a ceiling."""
    fields = {
        "name": name,
        "kind": kind,
        "level": "",
        "precision": "",
        "width": 0,
        "value": measured.best,
        "unit": unit,
        "spread": measured.spread,
        "method": method,
        "time_ns": time.time_ns(),
        "median": measured.median,
        "clock_hz": measured.clock_hz,
        **more,
    }
    write({"ceiling": fields})
