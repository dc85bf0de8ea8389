"""Which rank of which job a process is, from the variables that its launcher has set, or that it has itself
reported from inside (what it gave to torch.distributed or jax.distributed). No I/O."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from . import pods, slurm
from .askable import askable

MAX_NAME = 128
MAX_INDEX = 2**31 - 1
SLURM_FIRST_SPECIAL_STEP = 0xFFFFFFF0  # batch, extern and interactive steps lie above it
DISABLE = "ROOFLINE_DISABLE"
NO_JOB = "default"  # nothing names the job: names.py does
LOCAL_JOB = "ROOFLINE_LOCAL_JOB"  # variable: what a wrapper calls the job if nothing else names it
_LOOPBACK = re.compile(r"localhost(\.localdomain)?|127\.[0-9.]+|\[?::1\]?")
_OF_RENDEZVOUS = re.compile(rf"(ddp-|jax-)({_LOOPBACK.pattern})(?=[-:]|$)")
_OF_LOCAL_CLUSTER = "tf-local-"
_OF_NO_LAUNCH = ("openmpi", "pmix", "mpi", "slurm")  # the launcher names none of its launches
_OF_MPI = ("openmpi", "pmix", "mpich", "mvapich")
_OF_HYDRA = ("MPI_LOCALRANKID", "MPI_LOCALNRANKS", "HYDI_CONTROL_FD")  # mpirun of MPICH and Intel MPI
_OF_ONE_RANK = ("ROOFLINE_ROLE", "ROOFLINE_RANK", "ROOFLINE_NAME")
_BY_USER = ("ROOFLINE_ROLE", "ROOFLINE_RANK", "ROOFLINE_WRAPPED")
# What a process may report of itself.
REPORTABLE = frozenset(
    [
        "TF_CONFIG",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "JAX_PROCESS_ID",
        "JAX_NUM_PROCESSES",
        "JAX_COORDINATOR_ADDRESS",
        "HOROVOD_RANK",
        "HOROVOD_SIZE",
    ]
)
# Each launcher sets one of these for its ranks, and has none itself; but a pod may have RANK before torchrun.
OF_RANKS = (
    "TF_CONFIG",
    "HOROVOD_RANK",
    "OMPI_COMM_WORLD_RANK",
    "RANK",
    "LOCAL_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "SLURM_STEP_ID",
    "JAX_PROCESS_ID",
)
# Without one of these an environment names no rank.
_NAMING = tuple(
    f"{name}=".encode()
    for name in (
        "TF_CONFIG",
        "HOROVOD_RANK",
        "OMPI_COMM_WORLD_RANK",
        "MASTER_ADDR",
        "PMIX_RANK",
        "PMI_RANK",
        "MV2_COMM_WORLD_RANK",
        "SLURM_PROCID",
        "JAX_PROCESS_ID",
        *_BY_USER,
    )
)


class Identity(NamedTuple):
    """Which rank of which job a set of environment variables describes."""

    job: str
    role: str
    index: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
    world: int
    framework: str
    name: str = ""


def may_name_a_rank(environ: bytes) -> bool:
    """Whether the bytes of /proc/PID/environ are worth parsing: this rules out most processes."""
    return any(name in environ for name in _NAMING)


def is_disabled(environ: Mapping[str, str]) -> bool:
    """Whether the user wants nothing of this process to be recorded. Empty is as if it were not set."""
    return environ.get(DISABLE, "") not in ("", "0")


def identify(environ: Mapping[str, str], default_job: str = "") -> Identity | None:
    """The rank these variables describe, or None. Malformed values describe nothing.

    What the user says about a rank (ROOFLINE_ROLE, ROOFLINE_JOB, ...) goes before what a launcher says.
    """
    found = _launched(environ)
    if found is None and not any(name in environ for name in _BY_USER):
        return None
    return _as_user_says(found or _unnamed(environ), environ, default_job)


def is_of_slurm_alone(outside: Identity, environ: Mapping[str, str]) -> bool:
    """Whether nothing but a step of Slurm's makes it a rank, as all that is started in an interactive one."""
    return outside.framework == "slurm" and not any(name in environ for name in _BY_USER)


def _unnamed(environ: Mapping[str, str]) -> Identity:
    """A rank that no launcher names: the only one, or that of its pod."""
    place = pods.place_of(environ)
    if place is None:
        return Identity("", "worker", 0, 0, "roofline")
    return Identity("", place.role, place.index or 0, 0, "kubernetes")


def identify_from_inside(
    environ: Mapping[str, str], reported: Mapping[str, str], default_job: str = "", inherited: bool = False
) -> Identity | None:
    """The rank of a process that has reported variables which its environment lacks.

    A launcher that says the same keeps its word, but MPI's starts anything: Horovod is only what it starts as
    a rule. inherited: a process above has the same environment, so what
    the user says there of a rank is said of that one.
    """
    inside, outside = _launched(reported), _launched(environ)
    if inside is None:
        return identify(environ, default_job)
    if outside and (outside.index, outside.world) == (inside.index, inside.world):
        role = inside.role if outside.framework in _OF_MPI else outside.role
        return _as_user_says(outside._replace(role=role), environ, default_job)
    if inherited:
        environ = {name: value for name, value in environ.items() if name not in _OF_ONE_RANK}
    return _as_user_says(inside, environ, default_job)


def _launched(environ: Mapping[str, str]) -> Identity | None:
    """The rank that a launcher's variables describe."""
    for read in _READERS:
        found = read(environ)
        if found is not None:
            return found
    return None


def _as_user_says(base: Identity, environ: Mapping[str, str], default_job: str) -> Identity:
    index = _number(environ.get("ROOFLINE_RANK"))
    job = named_job(environ, default_job) or base.job or environ.get(LOCAL_JOB) or NO_JOB
    return base._replace(
        job=job[:MAX_NAME],
        role=(environ.get("ROOFLINE_ROLE") or base.role)[:MAX_NAME],
        index=base.index if index is None else index,
        name=(environ.get("ROOFLINE_NAME") or environ.get(pods.POD, ""))[:MAX_NAME],
    )


def named_job(environ: Mapping[str, str], default_job: str = "") -> str:
    """The job that the user or the scheduler has named, which counts as it is if one can ask for it so; "":
    none was."""
    return askable((environ.get("ROOFLINE_JOB") or _scheduler_job(environ) or default_job)[:MAX_NAME])


def told_apart(job: str, host: str, user: str) -> str:
    """The name of a job that a launcher gave, with what tells it from those on other nodes or of other users
    that would have the same."""
    if job.startswith(_OF_LOCAL_CLUSTER):
        return f"tf-{host}-{job.removeprefix(_OF_LOCAL_CLUSTER)}"
    if job in _OF_NO_LAUNCH:
        return f"{job}-{user}"
    return _OF_RENDEZVOUS.sub(lambda found: f"{found[1]}{host}", job)


def _scheduler_job(environ: Mapping[str, str]) -> str:
    if name := slurm.number_of(environ) or environ.get(pods.JOB):
        return name
    run_id = environ.get("TORCHELASTIC_RUN_ID", "")
    if run_id and run_id != "none":  # torchrun's default
        return run_id
    return environ.get("PMIX_NAMESPACE", "")


def _from_tf_config(environ: Mapping[str, str]) -> Identity | None:
    try:
        config = json.loads(environ.get("TF_CONFIG", "null"))
        role, index = str(config["task"]["type"]), int(config["task"]["index"])
        cluster = config.get("cluster", {})
        world = len(cluster.get(role, ()))
        name = _OF_LOCAL_CLUSTER if _is_local(cluster) else "tf-"
        job = f"{name}{zlib.crc32(json.dumps(cluster, sort_keys=True).encode()):08x}"
        role.encode()  # half a surrogate pair is valid JSON and no text
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    if not role or not 0 <= index <= MAX_INDEX:
        return None
    return Identity(job, "chief" if role == "master" else role, index, world, "tf_config")


def _is_local(cluster: Mapping[str, list[str]]) -> bool:
    """Whether all tasks of a cluster are on one node, which their addresses do not name."""
    addresses = [str(address) for task in cluster.values() for address in task]
    return bool(addresses) and all(_LOOPBACK.fullmatch(one.rpartition(":")[0]) for one in addresses)


def _from_horovod(environ: Mapping[str, str]) -> Identity | None:
    port = environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT", "")
    return _numbered(environ, "HOROVOD_RANK", "HOROVOD_SIZE", "horovod", "horovod", f"horovod-{port}")


def _from_openmpi(environ: Mapping[str, str]) -> Identity | None:
    return _numbered(environ, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "horovod", "openmpi", "openmpi")


def _from_torchrun(environ: Mapping[str, str]) -> Identity | None:
    # RANK alone is a common word; torch's launchers always set the rendezvous too.
    if "MASTER_ADDR" not in environ or "WORLD_SIZE" not in environ:
        return None
    rendezvous = f"ddp-{environ['MASTER_ADDR']}-{environ.get('MASTER_PORT', '')}"
    return _numbered(environ, "RANK", "WORLD_SIZE", "ddp", "torchrun", rendezvous)


def _from_pmix(environ: Mapping[str, str]) -> Identity | None:
    return _numbered(environ, "PMIX_RANK", "PMIX_SIZE", "horovod", "pmix", "pmix")


def _from_mpich(environ: Mapping[str, str]) -> Identity | None:
    """MPICH, Intel MPI, MVAPICH."""
    if _is_pmi_of_srun(environ):
        return None
    found = _numbered(environ, "PMI_RANK", "PMI_SIZE", "horovod", "mpich", "mpi")
    return found or _numbered(
        environ, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "horovod", "mvapich", "mpi"
    )


def _is_pmi_of_srun(environ: Mapping[str, str]) -> bool:
    """Whether srun has set PMI_RANK. What mpirun starts in a batch script has that script's SLURM_PROCID, 0,
    and in a step of srun's that of mpirun's own proxy."""
    if environ.get("PMI_RANK") != environ.get("SLURM_PROCID", "-"):
        return False
    sizes = None, environ.get("SLURM_NTASKS"), environ.get("SLURM_STEP_NUM_TASKS")
    return environ.get("PMI_SIZE") in sizes and not any(name in environ for name in _OF_HYDRA)


def _from_jax(environ: Mapping[str, str]) -> Identity | None:
    job = f"jax-{environ.get('JAX_COORDINATOR_ADDRESS', '')}"
    return _numbered(environ, "JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "worker", "jax", job)


def _from_slurm(environ: Mapping[str, str]) -> Identity | None:
    step = _number(environ.get("SLURM_STEP_ID"))
    if step is None or step >= SLURM_FIRST_SPECIAL_STEP:
        return None
    return _numbered(environ, "SLURM_PROCID", "SLURM_NTASKS", "worker", "slurm", "slurm")


def _numbered(
    environ: Mapping[str, str], rank: str, size: str, role: str, framework: str, job: str
) -> Identity | None:
    index = _number(environ.get(rank))
    if index is None:
        return None
    return Identity(job, role, index, _number(environ.get(size)) or 0, framework)


_READERS = (
    _from_tf_config,
    _from_horovod,
    _from_openmpi,
    _from_torchrun,
    _from_pmix,
    _from_mpich,
    _from_slurm,
    _from_jax,
)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None
