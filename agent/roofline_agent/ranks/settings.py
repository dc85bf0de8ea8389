"""Facts about ranks from their environment: tags, and settings that matter for speed, to compare runs by.

Only variables that RELEVANT lists, and those that tags come from (tags.py, slurm.py, pods.py,
traceparent.py), leave the node: none of them holds a secret, an address or the rank's own number. What a
program sets for itself after its start is not seen.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from roofline.facts import CLAIMED, LEFT
from roofline.texts import printable

from ..records import Event, EventKind, Rank
from . import pods, slurm, tags, traceparent
from .askable import problem_of

log = logging.getLogger(__name__)

# Names behind a prefix, as their documentation lists them. What somebody made up stays on the node.
_FAMILIES = {
    "HOROVOD_": """
        ADASUM_MPI_CHUNK_SIZE AUTOTUNE AUTOTUNE_BAYES_OPT_MAX_SAMPLES AUTOTUNE_GAUSSIAN_PROCESS_NOISE
        AUTOTUNE_STEPS_PER_SAMPLE AUTOTUNE_WARMUP_SAMPLES BATCH_D2D_MEMCOPIES CACHE_CAPACITY CONTROLLER
        CPU_OPERATIONS CYCLE_TIME DISABLE_GROUP_FUSION DYNAMIC_PROCESS_SETS ELASTIC_TIMEOUT ENABLE_XLA_OPS
        FUSION_THRESHOLD GLOO_IFACE GLOO_TIMEOUT_SECONDS GPU_ALLGATHER GPU_ALLREDUCE GPU_ALLTOALL
        GPU_BROADCAST GPU_OPERATIONS GPU_REDUCESCATTER HIERARCHICAL_ALLGATHER HIERARCHICAL_ALLREDUCE LOG_LEVEL
        MPI_THREADS_DISABLE NUM_NCCL_STREAMS STALL_CHECK_DISABLE STALL_CHECK_TIME_SECONDS
        STALL_SHUTDOWN_TIME_SECONDS THREAD_AFFINITY TIMELINE TIMELINE_MARK_CYCLES TORQUE_SHARED_MEMORY
    """,
    "NCCL_": """
        ALGO BUFFSIZE CGA_CLUSTER_SIZE CHECKS_DISABLE CHECK_POINTERS COLLNET_ENABLE COLLNET_NODE_THRESHOLD
        COMM_BLOCKING COMM_SPLIT_SHARE_RESOURCES CREATE_THREAD_CONTEXT CROSS_NIC CTA_POLICY CUMEM_ENABLE
        CUMEM_HOST_ENABLE DEBUG DEBUG_SUBSYS DMABUF_ENABLE GRAPH_MIXING_SUPPORT GRAPH_REGISTER IB_AR_THRESHOLD
        IB_CUDA_SUPPORT IB_DISABLE IB_GID_INDEX IB_HCA IB_MERGE_NICS IB_PCI_RELAXED_ORDERING
        IB_QPS_PER_CONNECTION IB_RETRY_CNT IB_SL IB_SPLIT_DATA_ON_QPS IB_TC IB_TIMEOUT IGNORE_CPU_AFFINITY
        LAUNCH_MODE LL_THRESHOLD LOCAL_REGISTER MAX_CTAS MAX_NCHANNELS MAX_NRINGS MIN_CTAS MIN_NCHANNELS
        MIN_NRINGS MNNVL_ENABLE NCHANNELS_PER_NET_PEER NET NET_GDR_LEVEL NET_GDR_READ NET_PLUGIN
        NET_SHARED_BUFFERS NET_SHARED_COMMS NSOCKS_PERTHREAD NTHREADS NVB_DISABLE NVLS_ENABLE
        P2P_DIRECT_DISABLE P2P_DISABLE P2P_LEVEL P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE
        P2P_PXN_LEVEL P2P_USE_CUDA_MEMCPY PROTO PXN_DISABLE RAS_ENABLE RUNTIME_CONNECT SHM_DISABLE
        SHM_USE_CUDA_MEMCPY SINGLE_RING_THRESHOLD SOCKET_FAMILY SOCKET_IFNAME SOCKET_NTHREADS SOCKET_RETRY_CNT
        THREAD_THRESHOLDS TREE_THRESHOLD TUNER_PLUGIN WORK_FIFO_DEPTH
    """,
    "TORCH_NCCL_": """
        ASYNC_ERROR_HANDLING AVOID_RECORD_STREAMS BLOCKING_WAIT CUDA_EVENT_CACHE DESYNC_DEBUG DUMP_ON_TIMEOUT
        ENABLE_MONITORING ENABLE_TIMING HEARTBEAT_TIMEOUT_SEC HIGH_PRIORITY TRACE_BUFFER_SIZE
        USE_COMM_NONBLOCKING USE_TENSOR_REGISTER_ALLOCATOR_HOOK
    """,
    "GLOO_": "DEVICE_TRANSPORT SOCKET_IFNAME",
    "KMP_": """
        AFFINITY BLOCKTIME DUPLICATE_LIB_OK DYNAMIC_MODE HW_SUBSET INIT_AT_FORK LIBRARY SETTINGS STACKSIZE
        TASKING TOPOLOGY_METHOD
    """,
    "": """
        CUDA_DEVICE_MAX_CONNECTIONS CUDA_LAUNCH_BLOCKING CUDA_VISIBLE_DEVICES DNNL_DEFAULT_FPMATH_MODE
        DNNL_MAX_CPU_ISA FI_PROVIDER GOMP_CPU_AFFINITY GOMP_SPINCOUNT MKL_DYNAMIC MKL_ENABLE_INSTRUCTIONS
        MKL_NUM_THREADS NVIDIA_TF32_OVERRIDE OMP_DYNAMIC OMP_NUM_THREADS OMP_PLACES OMP_PROC_BIND OMP_SCHEDULE
        OMP_WAIT_POLICY ONEDNN_DEFAULT_FPMATH_MODE ONEDNN_MAX_CPU_ISA OPENBLAS_NUM_THREADS PYTORCH_ALLOC_CONF
        PYTORCH_CUDA_ALLOC_CONF TF_DETERMINISTIC_OPS TF_ENABLE_ONEDNN_OPTS TF_FORCE_GPU_ALLOW_GROWTH
        TF_GPU_THREAD_COUNT TF_GPU_THREAD_MODE TF_NUM_INTEROP_THREADS TF_NUM_INTRAOP_THREADS TF_XLA_FLAGS
        TORCHDYNAMO_DISABLE TORCH_ALLOW_TF32_CUBLAS_OVERRIDE TORCH_COMPILE_DISABLE TORCH_DISTRIBUTED_DEBUG
        UCX_NET_DEVICES UCX_TLS XLA_FLAGS
    """,
}
RELEVANT = frozenset(prefix + name for prefix, names in _FAMILIES.items() for name in names.split())
MAX_SETTINGS, MAX_VALUE = 64, 200


def relevant_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to report, by name."""
    names = sorted(RELEVANT.intersection(environ))[:MAX_SETTINGS]
    return {name: environ[name][:MAX_VALUE] for name in names}


NOT_THIS_RANK = f"{LEFT}=it is another rank, or has started ranks"


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
            facts.append(fact_of(rank, f"{CLAIMED}={who}", now))
    return facts


class RankFacts:
    """Makes the facts about ranks that are known as soon as they are found."""

    def __init__(self) -> None:
        self._most: dict[Rank, int] = {}  # of ranks that live: ranks of their job on this node at one time
        self._of_slurm: dict[str, Rank] = {}  # by the number of the job: the rank found last

    def of_started(
        self, started: Iterable[tuple[Rank, Mapping[str, str]]], alive: list[Rank], now: int
    ) -> list[Event]:
        """Facts of ranks that have just been found, with their environments; alive: all of this node."""
        facts = []
        for rank, environ in started:
            for name, value in relevant_settings(environ).items():
                facts.append(fact_of(rank, f"setting.{name}={value}", now))
            # A wrapper sends the same tags; of a rank without one they are known from here only.
            found = tags.from_environ(environ)
            problems = list(found.problems)
            if problem := problem_of(environ.get("ROOFLINE_JOB", "")):
                problems.append(f"ROOFLINE_JOB: {problem}")
            for problem in problems:
                log.warning("%s of job %s: %s", rank.key, rank.job, problem)
            by_others = slurm.attributes(environ) | pods.attributes(environ) | traceparent.attributes(environ)
            self._keep(slurm.number_of(environ), rank)
            for name, value in (by_others | found.tags).items():
                facts.append(fact_of(rank, f"{tags.FACT}{name}={value}", now))
        by_job: dict[str, list[Rank]] = {}
        for rank in alive:
            by_job.setdefault(rank.job, []).append(rank)
        # Reported to all ranks of a job again while it grows on this node, not as it ends. Of a run that has
        # ended none lives: the next one of the name is counted again.
        before, self._most = self._most, {}
        for ranks in by_job.values():
            most = max([len(ranks), *(before.get(rank, 0) for rank in ranks)])
            self._most.update(dict.fromkeys(ranks, most))
            grown = [rank for rank in ranks if before.get(rank) != most]
            facts += [fact_of(rank, f"setting.processes_per_node={most}", now) for rank in grown]
        return facts

    def _keep(self, number: str, rank: Rank) -> None:
        if number:
            self._of_slurm.pop(number, None)
            self._of_slurm[number] = rank
            while len(self._of_slurm) > slurm.MOST_JOBS:
                del self._of_slurm[next(iter(self._of_slurm))]

    def of_ended(self, ends: Iterable[slurm.End], now: int) -> list[Event]:
        """Facts of jobs that Slurm has ended, where ranks of them were here."""
        known = ((self._of_slurm.pop(end.job, None), end) for end in ends)
        return [
            fact_of(rank, f"{tags.FACT}{name}={value}", now)
            for rank, end in known
            if rank is not None
            for name, value in end.tags().items()
        ]


def fact_of(rank: Rank, text: str, now: int) -> Event:
    """What is known of a rank, for people and for the server."""
    return Event(EventKind.FACT, now, now, rank, text=printable(text))
