"""`python -m roofline_client` and the `roofline-client` command."""

import os

from roofline_client import interrupts

interrupts.end_at_once()

# gRPC's C core would print its own view of every error next to ours; it reads this when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from roofline_client.cli import main  # noqa: E402 - all of the above goes before

if __name__ == "__main__":
    main()
