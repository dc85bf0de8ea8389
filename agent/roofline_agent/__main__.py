"""`python -m roofline_agent` and the `roofline-agent` command: runs it, with errors as exit codes."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable

from .commands.serve import SERVE, serve
from .errors import AgentError


def main() -> None:
    """Run the command line; every known error is one line and its own exit code."""
    if sys.argv[1:2] == [SERVE] and len(sys.argv) == 3:
        command: Callable[[], None] = serve
    else:
        from .cli import app as command
    try:
        command()
    except AgentError as error:
        print(f"roofline-agent: {error}", file=sys.stderr)
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
