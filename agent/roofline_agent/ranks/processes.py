"""Reads from /proc what decides whether a process is a rank, with as few system calls as possible.

The agent reads all processes of a node again and again: opened, read and closed by hand, a file takes a tenth
of its time through pathlib.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_CHUNK = 1 << 15
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of linux/sched.h


class ProcessStatus(NamedTuple):
    """What /proc/PID/stat says about a running process."""

    parent: int
    start_ticks: int  # since boot
    of_kernel: bool  # a kernel thread, which never becomes anything else
    session: int = 0  # the process that leads its session
    terminal: bool = False  # whether it has one


class Processes:
    """The processes below one /proc."""

    def __init__(self, proc: str = "/proc") -> None:
        self.root = Path(proc)
        self._proc = proc

    def pids(self) -> set[int]:
        """All processes that run now."""
        return {int(name) for name in os.listdir(self._proc) if name.isdigit()}

    def newest(self) -> bytes | None:
        """The pid given out last (proc_loadavg(5)): while it does not change no process has begun. None where
        it is unknown, as in a container that shows its host's processes."""
        try:
            if os.readlink(f"{self._proc}/self") != str(os.getpid()):
                return None
            return self._at(f"{self._proc}/loadavg").split()[4]
        except (OSError, IndexError):
            return None

    def boot(self) -> str:
        """Identity of this boot of the machine; "" where it is hidden."""
        try:
            return self._at(f"{self._proc}/sys/kernel/random/boot_id").decode(errors="replace").strip()
        except OSError:
            return ""

    def status(self, pid: int) -> ProcessStatus | None:
        """None if it has gone or is a zombie."""
        try:
            text = self._read(pid, "stat")
        except OSError:
            return None
        # The name in parentheses may hold anything, also parentheses. Fields as proc(5) has them, from 3 on.
        fields = text[text.rindex(b")") + 2 :].split(b" ", 20)
        if fields[0] in b"ZX":
            return None
        of_kernel = bool(int(fields[6]) & _KERNEL_THREAD)
        return ProcessStatus(int(fields[1]), int(fields[19]), of_kernel, int(fields[3]), fields[4] != b"0")

    def environ(self, pid: int) -> bytes:
        """Its variables, for `parse_environ`. Raises OSError when it has gone or is not ours to read."""
        return self._read(pid, "environ")

    def arguments(self, pid: int) -> list[bytes]:
        """Its command line. Raises OSError."""
        return self._read(pid, "cmdline").split(b"\0")

    def owner(self, pid: int) -> int:
        """The user it belongs to. Raises OSError."""
        return os.stat(f"{self._proc}/{pid}").st_uid

    def ancestry(self, pid: int) -> Iterator[int]:
        """The process, its parent, and so on, without init."""
        for _ in range(64):
            if pid <= 1:
                return
            yield pid
            status = self.status(pid)
            if status is None:
                return
            pid = status.parent

    def child_called(self, number: int, parent: int) -> int | None:
        """The pid here of the child that `parent` knows as `number`; None when there is no such child.

        They differ in a container, where processes have pids of their own.
        """
        if len(self._numbers(parent)) <= 1:
            return number
        for pid in self.pids():
            status = self.status(pid)
            if status is not None and status.parent == parent and self._numbers(pid)[-1:] == [number]:
                return pid
        return None

    def _numbers(self, pid: int) -> list[int]:
        """The pids of a process in each PID namespace from ours to its own."""
        try:
            lines = self._read(pid, "status").splitlines()
        except OSError:
            return []
        return [int(word) for line in lines if line.startswith(b"NSpid:") for word in line.split()[1:]]

    def _read(self, pid: int, name: str) -> bytes:
        return self._at(f"{self._proc}/{pid}/{name}")

    def _at(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = part = os.read(descriptor, _CHUNK)
            while len(part) == _CHUNK:
                part = os.read(descriptor, _CHUNK)
                data += part
            return data
        finally:
            os.close(descriptor)


def parse_environ(data: bytes) -> dict[str, str]:
    """The variables in /proc/PID/environ."""
    pairs = (entry.partition(b"=") for entry in data.split(b"\0"))
    return {
        name.decode(errors="replace"): value.decode(errors="replace") for name, mid, value in pairs if mid
    }
