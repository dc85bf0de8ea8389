"""Which signals end a service, as whoever started it wants it."""

from __future__ import annotations

import signal


def ending_signals() -> list[signal.Signals]:
    """SIGTERM and SIGINT, and SIGHUP unless it was ignored as this process was started.

    `nohup` ignores it, so that what it starts goes on when the terminal closes.
    """
    ignorable = (signal.SIGHUP,)
    kept = [number for number in ignorable if signal.getsignal(number) is not signal.SIG_IGN]
    return [signal.SIGTERM, signal.SIGINT, *kept]
