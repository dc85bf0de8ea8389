"""`python -m roofline_server` and the `roofline-server` command."""

import os
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until the server runs (serve.py has a handler of its own) Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

# gRPC's C core would print its own view of every error next to ours; it reads this when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from roofline_server import lean

lean.begin()

try:
    from roofline_server.cli import main
except ModuleNotFoundError as error:
    # The program is there wherever the agent is, and what it needs only where a server shall run.
    if error.name not in ("cryptography", "numpy", "pyarrow", "sqlalchemy"):
        raise
    sys.exit(f"roofline-server: {error.name} is not installed; pip install 'roofline-profiler[server]'")

if __name__ == "__main__":
    main()
