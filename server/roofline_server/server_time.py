"""The server's own time: UNIX time as it was when first asked, continued by a clock that cannot be set.

UNIX time jumps when NTP or a person sets it, which would look as if all nodes' clocks had jumped.
CLOCK_BOOTTIME only runs, through a suspension too. Its distance to UNIX time is kept in the catalog by boot,
so that a server started again goes on in the same time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# When UNIX time was set by more than this since, a starting server takes the new one: dates matter too.
TOLERANCE_NS = 1_000_000_000


class ServerTime:
    """Calling it gives the server's time in ns. See `resumed`."""

    def __init__(
        self,
        base_ns: int | None = None,
        steady: Callable[[], int] = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        unix: Callable[[], int] = time.time_ns,
    ) -> None:
        """base_ns: what an earlier server of this boot added to the steady clock, if one is known."""
        # UNIX time less steady time, by the quickest of a few readings: others were interrupted.
        readings = []
        for _ in range(5):
            before, unix_ns, after = steady(), unix(), steady()
            readings.append((after - before, unix_ns - (before + after) // 2))
        now = min(readings)[1]
        if base_ns is not None and abs(now - base_ns) > TOLERANCE_NS:
            log.warning(
                "the clock of this machine was set by %.1f s since a server first ran here after its boot; "
                "going on with the new time, jobs that run now show a jump",
                (now - base_ns) / 1e9,
            )
            base_ns = None
        self.base_ns = now if base_ns is None else base_ns
        self._steady = steady

    def __call__(self) -> int:
        return self._steady() + self.base_ns


def boot() -> str:
    """Identity of this boot of the machine."""
    return BOOT_ID.read_text().strip()
