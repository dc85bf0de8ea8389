"""What Slurm says of a job: in the variables of its tasks while it runs, and to the epilog when it has ended.

No I/O. Variables: srun(1), sbatch(1) and prolog_epilog.html of Slurm 22.05.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

ENDED = "slurm.ended"  # fact from the epilog: an End as JSON
PREFIX = "slurm."  # how the names of tags begin that Slurm gives
MOST_JOBS = 256
MAX_VALUE = 256  # characters
# Of the whole job, by deploy/slurm/task_prolog.sh: a step has an SLURM_NTASKS of its own.
TASKS = "ROOFLINE_SLURM_TASKS"

# Tag -> the variables that may hold it, the first that is there.
_ATTRIBUTES = {
    "job": ("SLURM_JOB_ID",),
    "user": ("SLURM_JOB_USER",),
    "account": ("SLURM_JOB_ACCOUNT",),
    "partition": ("SLURM_JOB_PARTITION",),
    "name": ("SLURM_JOB_NAME",),
    "nodes": ("SLURM_JOB_NUM_NODES",),
    "tasks": (TASKS, "SLURM_NTASKS"),
    "gpus_per_node": ("SLURM_GPUS_ON_NODE",),
    "restarts": ("SLURM_RESTART_COUNT",),
}


class End(NamedTuple):
    """How a job ended. state: in Slurm's words, as COMPLETED or TIMEOUT. exit: "3", of a signal "0:15".
    "": not known."""

    job: str
    state: str
    exit: str
    tasks: str = ""

    def tags(self) -> dict[str, str]:
        found = {"state": self.state, "exit": self.exit, "tasks": self.tasks}
        return {f"{PREFIX}{name}": text for name, text in found.items() if text}


def number_of(environ: Mapping[str, str]) -> str:
    """The number of a process's job, of a heterogeneous one that of its first part; "": it is in none."""
    for name in ("SLURM_HET_JOB_ID", "SLURM_JOB_ID_HET_GROUP_0", "SLURM_JOB_ID"):
        if environ.get(name):
            return environ[name]
    return ""


def attributes(environ: Mapping[str, str]) -> dict[str, str]:
    """A job's attributes as tags, by the variables of one of its tasks; none of what runs without Slurm."""
    number = number_of(environ)
    if not number:
        return {}
    found = {name: _first(environ, names) for name, names in _ATTRIBUTES.items()}
    found["job"] = number
    if array := environ.get("SLURM_ARRAY_JOB_ID"):
        found["array"] = f"{array}_{environ.get('SLURM_ARRAY_TASK_ID', '')}"
    if parts := environ.get("SLURM_HET_SIZE"):
        found["parts"] = parts
    return {
        f"{PREFIX}{name}": text[:MAX_VALUE] for name, text in found.items() if text and text.isprintable()
    }


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def ended(environ: Mapping[str, str], shown: Mapping[str, str], began_as: str) -> End | None:
    """How the job of an epilog ended; None: that of another part of a heterogeneous job says it.

    shown: what `scontrol show job` says; empty: it did not answer. began_as: how often the job had been
    started again when it began, as the prolog saw it; "": not known.
    """
    number = environ.get("SLURM_JOB_ID", "")
    if not number or number != number_of(environ):
        return None
    # The epilog's own variable has 0:0 also for a job that was cancelled.
    code = shown.get("ExitCode", "")
    requeued = began_as and began_as != environ.get("SLURM_JOB_RESTART_COUNT", began_as)
    state = "REQUEUED" if requeued else _state(code, shown)
    status, _, by_signal = code.partition(":")
    written = code if by_signal not in ("", "0") else status
    return End(number, state, "" if requeued else written, environ.get("SLURM_JOB_NTASKS", ""))


def _state(code: str, shown: Mapping[str, str]) -> str:
    """While an epilog runs the state is COMPLETING, whatever the job comes to."""
    state, reason = shown.get("JobState", ""), shown.get("Reason", "None")
    if state not in ("COMPLETING", ""):
        return state
    if not code:
        return ""
    if reason in ("TimeLimit", "OutOfMemory"):
        return {"TimeLimit": "TIMEOUT", "OutOfMemory": "OUT_OF_MEMORY"}[reason]
    if code == "0:0":
        return "COMPLETED"
    return "CANCELLED" if reason == "None" and code.startswith("0:") else "FAILED"


def parse_shown(text: str, job: str) -> dict[str, str]:
    """What `scontrol -o show job` prints of a job; empty: nothing.

    By the number of an array, which is that of one of its tasks too, it shows all tasks, and by that of a
    heterogeneous job all parts.
    """
    for line in text.splitlines():
        found = dict(word.split("=", 1) for word in line.split(" ") if "=" in word)
        if found.get("JobId") == job:
            return found
    return {}


def packed(end: End) -> str:
    return json.dumps(end)


def parse_end(text: str) -> End:
    """Raises ValueError or TypeError for what is none."""
    found = End(*json.loads(text))
    if not all(isinstance(one, str) and len(one) <= MAX_VALUE for one in found):
        raise ValueError("not the end of a job")
    return found
