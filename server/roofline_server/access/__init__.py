"""Who may do what: the server's authority and certificate, tokens, and the guard before its services."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = "access"  # of the data directory
AUTHORITY = "authority.pem"
CERTIFICATE, KEY = "server.pem", "server.key"  # what the server shows
MUTUAL = "mutual"  # a file: who connects shows a certificate too, instead of a token


def is_set_up(data: Path) -> bool:
    """Whether `roofline-server init` has turned TLS and tokens on for this data."""
    return os.path.exists(data / FOLDER / AUTHORITY)  # False also where another user's folder is closed


def is_mutual(folder: Path) -> bool:
    """Whether `roofline-server init --mutual` was run for this folder of access."""
    return os.path.exists(folder / MUTUAL)
