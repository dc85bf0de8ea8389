"""Facts about ranks from their environment: tags, and settings that matter for speed, to compare runs by.

Only variables that RELEVANT lists leave the node, and none whose name sounds like a secret, an address or the
rank's own number. What a program sets for itself after its start is not seen.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping

from ..records import Event, EventKind, Rank
from ..uplink.bounds import printable
from . import tags

log = logging.getLogger(__name__)

RELEVANT = re.compile(
    "|".join(
        (
            r"HOROVOD_\w+",
            r"NCCL_\w+|TORCH_NCCL_\w+|GLOO_\w+|UCX_TLS|UCX_NET_DEVICES|FI_PROVIDER",
            r"OMP_NUM_THREADS|OMP_PROC_BIND|OMP_PLACES|OMP_DYNAMIC|OMP_SCHEDULE|OMP_WAIT_POLICY",
            r"KMP_\w+|GOMP_CPU_AFFINITY|GOMP_SPINCOUNT",
            r"MKL_NUM_THREADS|MKL_DYNAMIC|MKL_ENABLE_INSTRUCTIONS|OPENBLAS_NUM_THREADS",
            r"ONEDNN_MAX_CPU_ISA|DNNL_MAX_CPU_ISA|ONEDNN_DEFAULT_FPMATH_MODE|DNNL_DEFAULT_FPMATH_MODE",
            r"TF_NUM_INTRAOP_THREADS|TF_NUM_INTEROP_THREADS|TF_ENABLE_ONEDNN_OPTS|TF_DETERMINISTIC_OPS",
            r"TF_GPU_THREAD_MODE|TF_GPU_THREAD_COUNT|TF_FORCE_GPU_ALLOW_GROWTH|TF_XLA_FLAGS|XLA_FLAGS",
            r"TORCH_DISTRIBUTED_DEBUG|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|TORCH_COMPILE_DISABLE",
            r"TORCHDYNAMO_DISABLE|PYTORCH_CUDA_ALLOC_CONF|PYTORCH_ALLOC_CONF",
            r"CUDA_VISIBLE_DEVICES|CUDA_LAUNCH_BLOCKING|CUDA_DEVICE_MAX_CONNECTIONS|NVIDIA_TF32_OVERRIDE",
        )
    )
)
SECRET = re.compile(r"KEY|SECRET|TOKEN|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
# Where a rank is and which one it is: known from elsewhere, and different from rank to rank.
LOCATION = re.compile(
    r".*(_ADDR|_ADDRESS|_PORT|_PORTS|_HOST|_HOSTS|_HOSTNAME|_URL|_COMM_ID|_FILE|_PATH)"
    r"|HOROVOD_(LOCAL_|CROSS_)?(RANK|SIZE)"
)
MAX_SETTINGS, MAX_VALUE = 64, 200


def relevant_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to report, by name."""
    relevant = [name for name in sorted(environ) if RELEVANT.fullmatch(name)]
    names = [name for name in relevant if not SECRET.search(name) and not LOCATION.fullmatch(name)]
    return {name: environ[name][:MAX_VALUE] for name in names[:MAX_SETTINGS]}


LEFT = "rank.left=it is another rank, or has started ranks"  # fact of a process: it is not this rank
CLAIMED = "rank.claimed"  # fact: the processes that say they are this rank


def facts_of_claims(claims: Iterable[list[Rank]], known: dict[str, str], now: int) -> list[Event]:
    """Facts about ranks that several processes claim, the one that has it first. known: what was reported
    before, which is updated."""
    facts = []
    for ranks in claims:
        rank = ranks[0]
        who = "; ".join(
            f"pid {one.pid}" + (f", here {one.key}" if one.index != rank.index else "") for one in ranks
        )
        name = f"{rank.job} {rank.key}"
        if known.get(name) != who:
            known[name] = who
            facts.append(_fact(rank, f"{CLAIMED}={who}", now))
    return facts


class RankFacts:
    """Makes the facts about ranks that are known as soon as they are found."""

    def __init__(self) -> None:
        self._most: dict[str, int] = {}  # ranks of a job on this node at one time

    def of_started(
        self, started: Iterable[tuple[Rank, Mapping[str, str]]], alive: list[Rank], now: int
    ) -> list[Event]:
        """Facts of ranks that have just been found, with their environments; alive: all of this node."""
        facts = []
        for rank, environ in started:
            for name, value in relevant_settings(environ).items():
                facts.append(_fact(rank, f"setting.{name}={value}", now))
            # A wrapper sends the same tags; of a rank without one they are known from here only.
            found = tags.from_environ(environ)
            for problem in found.problems:
                log.warning("%s of job %s: %s", rank.key, rank.job, problem)
            for name, value in found.tags.items():
                facts.append(_fact(rank, f"{tags.FACT}{name}={value}", now))
        by_job: dict[str, list[Rank]] = {}
        for rank in alive:
            by_job.setdefault(rank.job, []).append(rank)
        # Reported to all ranks of a job again while it grows on this node, not as it ends.
        before, self._most = self._most, {job: self._most.get(job, 0) for job in by_job}
        for job, ranks in by_job.items():
            if len(ranks) > before.get(job, 0):
                self._most[job] = len(ranks)
                facts += [_fact(rank, f"setting.processes_per_node={len(ranks)}", now) for rank in ranks]
        return facts


def _fact(rank: Rank, text: str, now: int) -> Event:
    return Event(EventKind.FACT, now, now, rank, text=printable(text))
