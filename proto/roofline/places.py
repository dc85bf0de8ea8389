"""Where a user's files are by default: the XDG Base Directory Specification's places."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path


def home(environ: Mapping[str, str]) -> Path:
    """HOME; where it is not set, as in cron jobs and services, the home that the user database has.

    "/" for a user whom that does not know, as in containers.
    """
    if named := environ.get("HOME"):
        return Path(named)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir or "/")
    except KeyError:
        return Path("/")


def state_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_STATE_HOME") or home(environ) / ".local/state")
