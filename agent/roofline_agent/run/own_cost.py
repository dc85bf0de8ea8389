"""What this wrapper and the agent take of the node's CPUs while a rank runs."""

from __future__ import annotations

import os
import time
from pathlib import Path

EVERY_NS = 5_000_000_000


class OwnCost:
    """Measured every few seconds, by the CPU time of both processes."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._cpus = os.cpu_count() or 1
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._agent = 0
        self._agent_cpu_s: float | None = None
        self._began_ns, self._wrapper_ns = time.monotonic_ns(), time.process_time_ns()

    def is_due(self, now_ns: int) -> bool:
        return now_ns - self._began_ns >= EVERY_NS

    def share(self, now_ns: int, agent: int) -> float:
        """The share of the CPUs since the last call; agent: its process id here, 0: not known.

        An agent's part is left out when it cannot be read, and of the first stretch.
        """
        wrapper_ns = time.process_time_ns()
        spent_s = (wrapper_ns - self._wrapper_ns) / 1e9
        agent_s = self._cpu_of(agent)
        if agent == self._agent and agent_s is not None and self._agent_cpu_s is not None:
            spent_s += agent_s - self._agent_cpu_s
        seconds = (now_ns - self._began_ns) / 1e9
        self._agent, self._agent_cpu_s = agent, agent_s
        self._began_ns, self._wrapper_ns = now_ns, wrapper_ns
        return spent_s / (seconds * self._cpus) if seconds > 0 else 0.0

    def _cpu_of(self, pid: int) -> float | None:
        try:
            text = (self._proc / str(pid) / "stat").read_text(errors="replace")
            fields = text.rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / self._ticks
        except (OSError, ValueError, IndexError):
            return None
