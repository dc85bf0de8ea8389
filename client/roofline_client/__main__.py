"""`python -m roofline_client` and the `roofline-client` command."""

import os

# gRPC's C core would print its own view of every error beside ours; it reads this when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from roofline_client.cli import main

if __name__ == "__main__":
    main()
