"""How the scheduler treats our processes: a training comes before them, a calibration before all others."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_MOST = -20


def give_way() -> None:
    """Let this thread, and what it starts from now on, never take a CPU from a thread that runs: SCHED_BATCH
    (sched(7)) waits until one is free, or until it is its turn. Where that is refused nothing changes."""
    with contextlib.suppress(OSError):
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def prefer(pid: int, proc: Path = Path("/proc")) -> None:
    """Let the process, and what it starts from now on, come before all others that share the CPUs, where we
    may: as root.

    It must lead a session of its own (`start_new_session`): with autogroups the kernel weighs sessions
    against each other, and only then the processes in each.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _MOST)
    with contextlib.suppress(OSError):
        (proc / str(pid) / "autogroup").write_text(str(_MOST), encoding="ascii")
