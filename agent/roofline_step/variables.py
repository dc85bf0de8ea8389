"""The variables that name the job and rank of this process, for an agent that cannot read them in /proc.

It cannot once the process has written a title over them (setproctitle), which Python's own copy outlives.
"""

from __future__ import annotations

import json
import os
from typing import Mapping, Optional

from ._signals import raise_again
from .packets import MAX_FACT

# fmt: off
NAMES = frozenset([
    "TF_CONFIG", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
    "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_GLOO_RENDEZVOUS_PORT", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES",
    "JAX_COORDINATOR_ADDRESS", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMIX_SIZE",
    "PMIX_NAMESPACE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "HYDI_CONTROL_FD",
    "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_USER",
    "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
])
# fmt: on
OURS = "ROOFLINE_"  # how the names of our own begin
_MOST = MAX_FACT - 64  # bytes, with the name of the fact


def is_overwritten(data: bytes) -> bool:
    """Whether a title stands where /proc/PID/environ shows variables. The kernel ends the last variable with
    a single NUL."""
    return data == b"\0" or data.endswith(b"\0\0")


def lost_variables(
    environ: Mapping[str, str] = os.environ, path: str = "/proc/self/environ"
) -> Optional[str]:
    """Those of this process as JSON; None: the agent can read them, or there are too many."""
    try:
        with open(path, "rb") as file:
            if not is_overwritten(file.read()):
                return None
        found = {name: text for name, text in environ.items() if name in NAMES or name.startswith(OURS)}
        text = json.dumps(found)
        return text if found and len(text) <= _MOST else None
    except Exception:
        raise_again()
        return None
