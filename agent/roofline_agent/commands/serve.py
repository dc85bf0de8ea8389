"""The daemon in a fresh interpreter: what reads the command line holds 10 MB that it would keep for life."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import sys
from dataclasses import asdict
from typing import NoReturn

from roofline.log_lines import AGENTS, log_to_stderr
from roofline.signals import ending_signals

from ..config import Config
from ..schedule import give_way

SERVE = "serve"  # the hidden command
NAME = b"roofline-agent"
PR_SET_NAME = 15


def restart(config: Config, quiet: bool) -> NoReturn:
    """Become the daemon: the same process, without all that was loaded to read its command line."""
    # The interpreter's own options, and how the program was found: a script, or -m.
    words = sys.orig_argv[1 : 1 + len(sys.orig_argv) - len(sys.argv)]
    settings = json.dumps({"quiet": quiet, **asdict(config)})
    os.execv(sys.executable, [sys.executable, *words, SERVE, settings])


def serve() -> None:
    """Be the daemon, with the settings that `restart` has put into the command line. Raises AgentError."""
    settings = json.loads(sys.argv[2])
    quiet = settings.pop("quiet")
    config = Config(**{**settings, "sources": tuple(settings["sources"])})
    log_to_stderr("roofline-agent", logging.WARNING if quiet else logging.INFO, AGENTS)
    # Shown by ps and pgrep as the script it was started by.
    ctypes.CDLL(None).prctl(PR_SET_NAME, NAME, 0, 0, 0)
    give_way()
    from ..daemon import Daemon

    agent = Daemon(config)
    for number in ending_signals():
        signal.signal(number, lambda *_: agent.stop())
    agent.run()
