"""Who may do what: the server's authority and certificate, tokens, and the guard before its services."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = "access"  # of the data directory
AUTHORITY = "authority.pem"


def is_set_up(data: Path) -> bool:
    """Whether `roofline-server init` has turned TLS and tokens on for this data."""
    return os.path.exists(data / FOLDER / AUTHORITY)  # False also where another user's folder is closed
