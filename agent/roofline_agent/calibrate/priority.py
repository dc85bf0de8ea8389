"""The scheduler's best treatment for a measuring process, where it is to be had: for root."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_MOST = -20


def prefer(pid: int) -> None:
    """Let the process, and what it starts from now on, come before all others that share the CPUs.

    It must lead a session of its own (`start_new_session`): with autogroups the kernel weighs sessions
    against each other, and only then the processes in each.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _MOST)
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(_MOST), encoding="ascii")
