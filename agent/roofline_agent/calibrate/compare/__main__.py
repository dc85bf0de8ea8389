"""Our own kernels as one of the contenders: a test's name on standard input, its rate on standard output.

Usage: python -m roofline_agent.calibrate.compare BYTES. Tests: those that `ours.serve` names.
"""

from __future__ import annotations

import signal
import sys

from roofline_agent.calibrate.compare.ours import serve
from roofline_agent.calibrate.errors import CalibrationError


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        for rate in serve(int(sys.argv[1]), sys.stdin):
            print(f"{rate:.6e}", flush=True)
    except CalibrationError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
