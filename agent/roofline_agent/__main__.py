"""`python -m roofline_agent` and the `roofline-agent` command: runs it, with errors as exit codes."""

from __future__ import annotations

import os
import signal

_at_start = signal.getsignal(signal.SIGINT)
if _at_start is signal.default_int_handler:
    # While the rest is loaded Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

import errno  # noqa: E402 - the above goes before
import io  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402

from .commands.serve import SERVE, serve  # noqa: E402
from .errors import AgentError  # noqa: E402


def main() -> None:
    """Run the command line; every known error is one line and its own exit code."""
    if sys.argv[1:2] == [SERVE] and len(sys.argv) == 3:
        command: Callable[[], None] = serve
    else:
        from .cli import app as command
    try:
        signal.signal(signal.SIGINT, _at_start)
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A name may hold what the terminal's or file's encoding lacks.
            sys.stdout.reconfigure(errors="replace")
        command()
    except AgentError as error:
        from roofline.log_lines import before_error

        print(f"{before_error()}roofline-agent: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EPIPE):
            raise
        print(f"roofline-agent: the output cannot be written ({error.strerror})", file=sys.stderr)
        # What is still buffered goes nowhere; Python would write it at its exit and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


if __name__ == "__main__":
    main()
