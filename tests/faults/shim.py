"""Steers shim.c: builds it, and says which calls of a process should fail, while that runs."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import struct
import subprocess
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("shim.c")
RULES = 8
CLOCK = struct.Struct("=q")
RULE = struct.Struct("=ii16s128sqqqqq")
COUNTS = struct.Struct("=qq")  # at the end of a rule: seen, fired
ALWAYS = 1 << 60


class Action(IntEnum):
    """As in shim.c."""

    OFF = 0
    ERROR = 1
    SHORT = 2  # half of it is done
    TORN = 3  # half of it is done, then SIGKILL
    KILL_BEFORE = 4
    KILL_AFTER = 5
    DELAY = 6


class Fault(NamedTuple):
    """What happens to a call. error: an errno, of Action.ERROR alone."""

    name: str
    action: Action
    error: int = 0
    milliseconds: int = 0
    cuts_power: bool = False  # what no fsync has made durable goes with the process

    @property
    def kills(self) -> bool:
        return self.action in (Action.TORN, Action.KILL_BEFORE, Action.KILL_AFTER)


KILL_BEFORE = Fault("kill before", Action.KILL_BEFORE)
KILL_AFTER = Fault("kill after", Action.KILL_AFTER)
POWER_BEFORE = Fault("power cut before", Action.KILL_BEFORE, cuts_power=True)
POWER_AFTER = Fault("power cut after", Action.KILL_AFTER, cuts_power=True)
TORN = Fault("torn, then kill", Action.TORN)
SHORT = Fault("short", Action.SHORT)
EIO = Fault("EIO", Action.ERROR, errno.EIO)
ENOSPC = Fault("ENOSPC", Action.ERROR, errno.ENOSPC)
EINTR = Fault("EINTR", Action.ERROR, errno.EINTR)
EMFILE = Fault("EMFILE", Action.ERROR, errno.EMFILE)
SLOW = Fault("slow", Action.DELAY, milliseconds=300)


class Rule(NamedTuple):
    """Which calls a fault concerns. pattern: of fnmatch, over the whole path; `*` goes beyond slashes.

    skip: so many calls are left alone first; most: so many are then concerned at most.
    """

    call: str
    pattern: str
    fault: Fault
    skip: int = 0
    most: int = ALWAYS


class CannotBuild(Exception):
    """There is no C compiler, or it fails."""


def build(folder: Path) -> Path:
    """The shared library, in this folder. Raises CannotBuild."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise CannotBuild("no C compiler (cc, gcc, clang) is on $PATH")
    library = folder / "shim.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"{compiler} cannot compile {SOURCE.name}: {done.stderr.strip()[:500]}")
    return library


class Control:
    """The rules for processes that were started with `environ`."""

    def __init__(self, path: Path, library: Path) -> None:
        size = CLOCK.size + RULES * RULE.size
        path.write_bytes(bytes(size))
        descriptor = os.open(path, os.O_RDWR)
        self._memory = mmap.mmap(descriptor, size)
        os.close(descriptor)
        self.environ = {"ROOFLINE_FAULTS": str(path), "LD_PRELOAD": str(library)}

    def arm(self, *rules: Rule) -> None:
        """Have these rules and no others, none of them used yet."""
        self.clear()
        for number, (call, pattern, fault, skip, most) in enumerate(rules):
            packed = RULE.pack(
                0, fault.error, call.encode(), pattern.encode(), skip, most, fault.milliseconds, 0, 0
            )
            at = CLOCK.size + number * RULE.size
            self._memory[at : at + RULE.size] = packed
            # Last: from now on it holds.
            self._memory[at : at + 4] = struct.pack("=i", fault.action)

    def clear(self) -> None:
        """No call is concerned any more. What was counted stays."""
        for number in range(RULES):
            at = CLOCK.size + number * RULE.size
            self._memory[at : at + 4] = bytes(4)

    @property
    def is_armed(self) -> bool:
        return any(self._memory[CLOCK.size :: RULE.size])

    def seen(self, number: int = 0) -> int:
        """Calls that a rule was about, also those that it left alone."""
        return self._counts(number)[0]

    def fired(self, number: int = 0) -> int:
        """Calls that a rule concerned."""
        return self._counts(number)[1]

    def _counts(self, number: int) -> tuple[int, int]:
        seen, fired = COUNTS.unpack_from(self._memory, CLOCK.size + (number + 1) * RULE.size - COUNTS.size)
        return seen, fired

    def move_clock(self, seconds: float) -> None:
        """UNIX time of the processes is from now on so much later than it is."""
        self._memory[: CLOCK.size] = CLOCK.pack(round(seconds * 1e9))
