"""Which signals end a service, as whoever started it wants it."""

from __future__ import annotations

import signal


def ending_signals() -> list[signal.Signals]:
    """SIGTERM, and those of SIGINT and SIGHUP that were not ignored as this process was started.

    `nohup` ignores SIGHUP, so that what it starts goes on when the terminal closes; a shell that runs a
    script ignores SIGINT in what it starts in the background, so that Ctrl-C ends only what runs in front.
    """
    ignorable = (signal.SIGINT, signal.SIGHUP)
    kept = [number for number in ignorable if signal.getsignal(number) is not signal.SIG_IGN]
    return [signal.SIGTERM, *kept]
