"""`python -m roofline_server` and the `roofline-server` command."""

import os
import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until the server runs (serve.py has a handler of its own) Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

# gRPC's C core would print its own view of every error next to ours; it reads this when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from roofline_server import lean

lean.begin()

from roofline_server.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
