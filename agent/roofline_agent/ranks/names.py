"""Names of jobs that nobody named, and of what started their ranks: the same for all ranks of one launch on a
node, without communication between them, and different for any other launch."""

from __future__ import annotations

import os
import pwd
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from .launchers import LAUNCHER_MODULES, starts_again, starts_all
from .processes import Processes

MAX_SCRIPT, MAX_USER = 40, 64


def launch_of(processes: Processes, pid: int) -> str:
    """The topmost process above this one that would start it again; "": there is none."""
    found = _topmost(processes, pid, starts_again)
    return "" if found is None else f"{found}-{_digest(processes, found)}"


def job_of(processes: Processes, pid: int, of_session: bool) -> str:
    """A name like "alice-train-48213-3fa21b07": user, script, a process and what tells it from others of its
    number. That process is what started all ranks of the job, as torchrun; without one it is the process
    itself. of_session: it is one of several that a user started one by one, so the terminal or script that
    this was done from stands for them."""
    root, script = _topmost(processes, pid, starts_all), ""
    if root is not None:
        script = _script(_arguments(processes, root))
    elif of_session:
        status = processes.status(pid)
        root = status.session if status else None
    else:
        script = _script(_arguments(processes, pid))
    root = root or pid
    return "-".join(filter(None, (user_of(processes, pid), script, str(root), _digest(processes, root))))


def _topmost(processes: Processes, pid: int, what: Callable[[Iterable[bytes]], bool]) -> int | None:
    found = None
    for one in processes.ancestry(pid):
        if one != pid and what(_arguments(processes, one)):
            found = one
    return found


def _arguments(processes: Processes, pid: int) -> list[bytes]:
    try:
        return processes.arguments(pid)
    except OSError:
        return []


def _script(arguments: Iterable[bytes]) -> str:
    """The name of the program that trains, of a command line that may be a launcher's."""
    words = [word.decode(errors="replace") for word in arguments if word]
    scripts = [word for word in words if word.endswith(".py")]
    if not scripts:
        modules = [after for word, after in pairwise(words) if word == "-m" and after not in LAUNCHER_MODULES]
        scripts = [module.replace(".", "/") for module in modules]
    name = os.path.basename((scripts or words or [""])[0]).removesuffix(".py")
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-")[:MAX_SCRIPT]


def user_of(processes: Processes, pid: int) -> str:
    """The name of the user a process belongs to."""
    try:
        return name_of(processes.owner(pid))
    except OSError:
        return ""


def name_of(uid: int) -> str:
    """What this node calls a user; "uid1234" one that it has no name for."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid{uid}"


def submitter(uid: int, environ: Mapping[str, str]) -> str:
    """Who submitted a process: the user it belongs to; of one of root's, as in containers, whom Slurm names.

    A variable gives others no more than what root's process may give away itself.
    """
    by_slurm = environ.get("SLURM_JOB_USER", "") if uid == 0 else ""
    return (by_slurm or name_of(uid))[:MAX_USER]


def _digest(processes: Processes, pid: int) -> str:
    status = processes.status(pid)
    start_ticks = status.start_ticks if status else 0
    return f"{zlib.crc32(f'{processes.boot()} {pid} {start_ticks}'.encode()):08x}"
