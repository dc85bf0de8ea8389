"""What to try: one table, of when an advice holds, what shows that it does, what to do, and who says so.

What an advice would give is no part of it: that is the replay's gain of the finding it stands beside. A
sentence may name any field of `Case` in braces; of those that hold the first are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from .wording import duration, listed, quantity

SHOWN = 4
ENOUGH_THREADS = 0.75  # of the CPUs: fewer threads leave some of them idle
SMALL_KERNEL_S = 50e-6  # mean time of kernels whose start counts
UNPINNED_BYTES_PER_SECOND = 5e9  # that a copy from memory which is not pinned reaches: 38 MB took 7 ms (H100)
COPYING = 0.25  # of the time in which a GPU is idle
LITTLE_TENSOR = 0.2  # of the time: tensor cores do little of what they could
NARROW = 0.3  # share of FLOPs in narrow vectors that matters
AT_ROOF = 0.8  # of its part of the roof: what computes as fast gains little on this machine
TORCH, TENSORFLOW, HOROVOD, JAX = "torch", "tensorflow", "horovod", "jax"
OURS = "none: it follows from what the finding says"
CYCLE_TIME, FUSION = "HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD"


class Case(NamedTuple):
    """What is known of a finding; None and "" where it is not known."""

    kind: str  # of a cause, or the part of the account that bounds a healthy job
    job: str = "42"
    ranks: Sequence[str] = ()  # (): it is about all
    host: str = ""
    frameworks: frozenset[str] = frozenset()
    settings: Mapping[str, str] = {}  # environment variables of the ranks
    workers: int = 0  # ranks that train
    servers: int = 0
    hosts: int = 0
    per_node: int = 1  # ranks that compute on one node
    cpus: int | None = None  # of that node
    threads: int | None = None  # of a rank, that compute
    foreign: float | None = None  # CPUs that other processes keep busy
    bytes_share: float | None = None  # of a parameter server, of what workers send
    binding: str = ""  # kind of the ceiling that binds: compute, memory
    of_roof: float | None = None  # reached, of their part of the roof
    narrow: float | None = None  # share of FLOPs in narrow vectors
    widest: int | None = None  # bits
    kernel_s: float | None = None  # mean time of a kernel
    on_gpu: bool = False
    gpu_busy: float | None = None  # share of the time in which the busiest GPU computed
    tensor: float | None = None  # in which its tensor cores did
    copied: float | None = None  # bytes/s from the host to it


class Advice(NamedTuple):
    kinds: tuple[str, ...]  # for which it is meant
    tries: str
    source: str  # who says so; OURS: nobody else
    evidence: str = ""  # sentence that shows why it holds here; "": the finding's own does
    holds: Callable[[Case], bool] = lambda case: True


class Advised(NamedTuple):
    evidence: list[str]
    tries: list[str]


def advise(case: Case) -> Advised:
    """What to try, and what beside the finding's own evidence shows that it may help."""
    found = _for_kinds(case, {case.kind}) or _for_kinds(case, set(case.kind.split("|")))
    words = _words(case)
    evidence = dict.fromkeys(one.evidence.format(**words) for one in found if one.evidence)
    return Advised(list(evidence), [one.tries.format(**words) for one in found])


def _for_kinds(case: Case, kinds: set[str]) -> list[Advice]:
    """Of a merged part, of which it is not known which of several it is, what is meant for any of them."""
    return [one for one in ADVICE if kinds.intersection(one.kinds) and one.holds(case)][:SHOWN]


def _words(case: Case) -> dict[str, object]:
    """The fields as they stand in a sentence, and what follows from several of them."""
    return {
        **case._asdict(),
        "rank": listed(case.ranks, 3) or "every rank",
        "node": f"node {case.host}" if case.host else "its node",
        "all_threads": (case.threads or 0) * case.per_node,
        "fair_threads": max(1, (case.cpus or case.per_node) // max(1, case.per_node)),
        "more_servers": case.servers + 1,
        "cycle_ms": case.settings.get(CYCLE_TIME, "1"),
        "fusion_mb": _megabytes(case.settings.get(FUSION, "")),
        "busy": f"{case.gpu_busy:.0%}" if case.gpu_busy is not None else "",
        "copied_rate": quantity(case.copied, "B/s") if case.copied is not None else "",
        "tensor_share": f"{case.tensor:.0%}" if case.tensor is not None else "",
        "kernel": duration(case.kernel_s) if case.kernel_s is not None else "",
        "narrow_share": f"{case.narrow:.0%}" if case.narrow is not None else "",
        "part": f"{case.bytes_share:.0%}" if case.bytes_share is not None else "",
        "even": f"{1 / max(1, case.servers):.0%}",
        "foreign_cpus": f"{case.foreign:.1f}" if case.foreign is not None else "",
    }


def _megabytes(setting: str) -> str:
    return f"{ceil(int(setting) / 2**20)}" if setting.isdecimal() else "128"


# -- conditions ---------------------------------------------------------------------------------------------


def _uses(*names: str) -> Callable[[Case], bool]:
    return lambda case: bool(case.frameworks.intersection(names))


def _alone(case: Case) -> bool:
    """Some ranks, not all of them."""
    return bool(case.ranks)


def _everywhere(case: Case) -> bool:
    return not case.ranks


def _lone_server(case: Case) -> bool:
    return case.servers == 1


def _uneven(case: Case) -> bool:
    return case.servers > 1 and case.bytes_share is not None and case.bytes_share > 1.5 / case.servers


def _crowded(case: Case) -> bool:
    """More computing threads than CPUs."""
    return bool(case.threads and case.cpus) and (case.threads or 0) * case.per_node > (case.cpus or 0)


def _idle_cpus(case: Case) -> bool:
    busy = (case.threads or 0) * case.per_node
    return bool(case.threads and case.cpus) and not case.on_gpu and busy < ENOUGH_THREADS * (case.cpus or 0)


def _shared_by_many(case: Case) -> bool:
    return case.per_node > 1 and not case.on_gpu


def _others_run(case: Case) -> bool:
    return case.foreign is not None and case.foreign >= 0.1


def _slow_cycle(case: Case) -> bool:
    try:
        return HOROVOD in case.frameworks and float(case.settings.get(CYCLE_TIME, "1")) > 1
    except ValueError:
        return False


def _small_fusion(case: Case) -> bool:
    size = case.settings.get(FUSION, "")
    return HOROVOD in case.frameworks and size.isdecimal() and int(size) < 2**26


def _small_kernels(case: Case) -> bool:
    return case.kernel_s is not None and case.kernel_s < SMALL_KERNEL_S


def _memory_bound(case: Case) -> bool:
    return case.binding == "memory"


def _narrow(case: Case) -> bool:
    return case.narrow is not None and case.narrow >= NARROW and bool(case.widest)


def _at_roof(case: Case) -> bool:
    return case.of_roof is not None and case.of_roof >= AT_ROOF


def _copies(case: Case) -> bool:
    """Whether copies from ordinary memory may explain a good part of the time in which a GPU is idle."""
    idle = 1 - (case.gpu_busy or 0.0)
    return case.copied is not None and case.copied / UNPINNED_BYTES_PER_SECOND >= COPYING * idle


def _idle_tensor_cores(case: Case) -> bool:
    return case.tensor is not None and case.tensor < LITTLE_TENSOR


def _several_hosts(case: Case) -> bool:
    return case.hosts > 1


# -- the table: most promising first ------------------------------------------------------------------------

ADVICE: tuple[Advice, ...] = (
    # Parameter servers.
    Advice(
        ("server_overloaded",),
        "add a parameter server and spread the variables over all (what-if --job {job} --ps {more_servers})",
        "Li et al., Scaling Distributed Machine Learning with the Parameter Server (OSDI 2014)",
        "it is the only parameter server, for {workers} workers",
        _lone_server,
    ),
    Advice(
        ("server_overloaded", "server_skewed"),
        "spread the variables evenly: partition the large ones (tf.distribute MinSizePartitioner)",
        "TensorFlow tutorial, Parameter server training: variable sharding",
        "it gets {part} of the bytes, an even part would be {even}",
        _uneven,
    ),
    Advice(
        ("server_skewed",),
        "split the largest variables over all {servers} servers, or place variables by size",
        "TensorFlow tutorial, Parameter server training: variable sharding",
        holds=lambda case: not _uneven(case),
    ),
    Advice(
        ("server_overloaded",),
        "one server more (what-if --job {job} --ps {more_servers} gives the range)",
        "Li et al., Scaling Distributed Machine Learning with the Parameter Server (OSDI 2014)",
        holds=lambda case: case.servers > 1 and not _uneven(case),
    ),
    Advice(
        ("server_overloaded", "wait_ps"),
        "larger batches: fewer updates a second for the same examples/s",
        "Denning and Buzen, The Operational Analysis of Queueing Network Models (1978)",
    ),
    Advice(
        ("server_overloaded", "server_slow"),
        "give {rank} CPUs of its own: taskset, a cgroup, or a node without workers",
        "Linux manual, sched_setaffinity(2)",
        holds=_shared_by_many,
    ),
    Advice(
        ("server_work",),
        "what else does {rank} compute? operations that are placed on it (tf.device) can move to the workers",
        "TensorFlow guide, Use a GPU: manual device placement",
    ),
    Advice(
        ("server_slow",),
        "look for what else runs on {node}: top, pressure in /proc/pressure/cpu",
        "Linux kernel documentation, PSI",
    ),
    Advice(
        ("server_slow",),
        "has something stopped {rank}, or does it swap? (STAT and MAJFLT of ps on {node})",
        "Linux manual, ps(1)",
    ),
    # Network.
    Advice(
        ("slow_link",),
        "look at the link of {node}: ethtool DEVICE (speed, duplex), ip -s link (errors), tc qdisc (shaping)",
        "Linux manual, ethtool(8), ip-link(8), tc(8)",
    ),
    Advice(
        ("slow_link",),
        "is it the right interface? GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME, HOROVOD_GLOO_IFACE choose one",
        "PyTorch documentation, torch.distributed: common environment variables",
        holds=lambda case: not case.servers,
    ),
    Advice(
        ("transfer", "network", "wait_ps", "slow_link"),
        "is it the link? roofline-client bench net --from HOST --to HOST measures what it can do",
        "docs/ceilings.md: the network's ceiling",
        holds=_several_hosts,
    ),
    Advice(
        ("transfer",),
        "HOROVOD_CYCLE_TIME=1: gradients that are ready wait for the next cycle",
        "Horovod documentation, Tensor Fusion",
        "a cycle takes {cycle_ms} ms",
        _slow_cycle,
    ),
    Advice(
        ("transfer",),
        "HOROVOD_FUSION_THRESHOLD=134217728: fewer, larger allreduces",
        "Horovod documentation, Tensor Fusion",
        "the fusion buffer has {fusion_mb} MiB",
        _small_fusion,
    ),
    Advice(
        ("transfer",),
        "overlap more: bucket_cap_mb of DistributedDataParallel, static_graph=True; no_sync() to "
        "accumulate gradients",
        "Li et al., PyTorch Distributed (VLDB 2020)",
        holds=_uses(TORCH),
    ),
    Advice(
        ("transfer", "network", "slow_link"),
        "send fewer bytes: larger batches, gradients in FP16 or bf16 (a compression hook)",
        "Horovod documentation, Compression.fp16; PyTorch documentation, DDP communication hooks",
    ),
    # Input.
    Advice(
        ("input", "input|blocked"),
        "what differs in the input of {rank}: file system, sizes of files, number of loader workers",
        "Mohan et al., Analyzing and Mitigating Data Stalls in DNN Training (VLDB 2021)",
        holds=_alone,
    ),
    Advice(
        ("input", "input|blocked"),
        "DataLoader: num_workers=N, prefetch_factor=4, persistent_workers=True",
        "PyTorch documentation, torch.utils.data",
        holds=_uses(TORCH),
    ),
    Advice(
        ("input", "input|blocked"),
        "tf.data: .prefetch(tf.data.AUTOTUNE), .map(..., num_parallel_calls=tf.data.AUTOTUNE), .cache()",
        "TensorFlow guide, Better performance with the tf.data API",
        holds=_uses(TENSORFLOW),
    ),
    Advice(
        ("input", "input|blocked"),
        "prepare batches in advance, in threads or processes beside the training",
        "Mohan et al., Analyzing and Mitigating Data Stalls in DNN Training (VLDB 2021)",
        holds=lambda case: not case.frameworks & {TORCH, TENSORFLOW},
    ),
    Advice(
        ("input", "disk", "input|blocked"),
        "decode and resize once and store the result; keep it on a local disk or in memory (/dev/shm)",
        "Mohan et al., Analyzing and Mitigating Data Stalls in DNN Training (VLDB 2021)",
    ),
    Advice(
        ("disk",),
        "read ahead: more loader workers, larger files read in sequence",
        "Linux manual, posix_fadvise(2)",
    ),
    # GPUs.
    Advice(
        ("gpu_idle", "host", "compute"),
        "copies that overlap: DataLoader(pin_memory=True) and batch.to(device, non_blocking=True)",
        "PyTorch Performance Tuning Guide; CUDA C++ Best Practices Guide, Pinned Memory",
        "{copied_rate} are copied to the GPU, which waits for them unless they come from pinned memory",
        lambda case: _copies(case) and TORCH in case.frameworks,
    ),
    Advice(
        ("gpu_idle",),
        'torch.compile(model, mode="reduce-overhead") or torch.cuda.make_graphed_callables: a CUDA graph '
        "starts many kernels at once",
        "PyTorch documentation, CUDA semantics: CUDA Graphs",
        "the GPU computes {busy} of the time",
        lambda case: TORCH in case.frameworks and case.gpu_busy is not None,
    ),
    Advice(
        ("gpu_idle",),
        "do not wait for the GPU in each step: .item(), .cpu(), print of losses, torch.cuda.synchronize()",
        "PyTorch Performance Tuning Guide",
        holds=_uses(TORCH),
    ),
    Advice(
        ("gpu_idle",),
        "several steps in one call: jax.lax.scan over a few batches; device_put the next batch beforehand",
        "JAX documentation, asynchronous dispatch",
        holds=_uses(JAX),
    ),
    Advice(
        ("gpu_idle",),
        "larger batches: the host starts as many kernels, and each does more",
        "Wang et al., Time-Based Roofline for Deep Learning Performance Analysis (2020)",
    ),
    Advice(
        ("compute",),
        'tensor cores: torch.set_float32_matmul_precision("high") (TF32), torch.autocast("cuda", '
        "torch.bfloat16)",
        "NVIDIA, Train With Mixed Precision; PyTorch documentation, torch.amp",
        "its tensor cores are active {tensor_share} of the time",
        lambda case: _idle_tensor_cores(case) and TORCH in case.frameworks,
    ),
    Advice(
        ("compute",),
        "roofline-agent run --ncu 100 -- COMMAND counts FLOPs and bytes of each kernel of a step",
        "docs/metrics.md: GPU kernels",
        holds=lambda case: case.on_gpu and not case.binding,
    ),
    # Stragglers.
    Advice(
        ("more_work",),
        "balance the batches: as many examples and tokens for each rank (batches sorted by length)",
        "Lin et al., Understanding Stragglers in Large Model Training Using What-if Analysis (OSDI 2025)",
    ),
    Advice(
        ("more_work",),
        "is the work divided unevenly on purpose: pipeline stages, experts, the last batch (drop_last=True)?",
        "Lin et al., Understanding Stragglers in Large Model Training Using What-if Analysis (OSDI 2025)",
    ),
    Advice(
        ("slower",),
        "compare the nodes: roofline-client machines --compare HOST HOST (clock, memory, ceilings)",
        "Hoefler et al., Characterizing the Influence of System Noise (SC 2010)",
        holds=_several_hosts,
    ),
    Advice(
        ("slower",),
        "check {node} for a low clock (governor, heat) and for CPUs shared as hyperthreads with other work",
        "Linux kernel documentation, CPU performance scaling",
    ),
    Advice(
        ("slower", "host"),
        "does {rank} do something the others do not: logging, metrics, checkpoints, a debugger?",
        OURS,
        holds=_alone,
    ),
    Advice(
        ("memory_bandwidth",),
        "move other work off that socket, and keep each rank in the memory of its own: "
        "numactl --cpunodebind=N --membind=N",
        "Treibig, Hager, Wellein, LIKWID (2010)",
    ),
    Advice(
        ("host", "gpu_idle"),
        "see where the Python time goes: py-spy record --pid PID of {rank}",
        "py-spy documentation",
    ),
    Advice(
        ("host",),
        "move what each step does not need out of it: .item() and print of losses, metrics, augmentation",
        "PyTorch Performance Tuning Guide",
        holds=_uses(TORCH),
    ),
    Advice(
        ("host",),
        "put the whole step into one tf.function, several steps into one call (steps_per_execution)",
        "TensorFlow guide, Better performance with tf.function; Keras documentation, Model.compile",
        holds=_uses(TENSORFLOW),
    ),
    Advice(
        ("gc",),
        "gc.freeze() once the model is built, gc.disable(), and gc.collect() every N steps on all ranks "
        "at once",
        "Python documentation, gc; Lin et al., Understanding Stragglers (OSDI 2025)",
    ),
    # CPUs.
    Advice(
        ("contention",),
        "move or end the other processes on {node}",
        "Linux kernel documentation, schedstat",
        "other processes keep {foreign_cpus} CPUs busy",
        _others_run,
    ),
    Advice(
        ("contention_unknown",),
        "look at what runs on {node}: top, pressure in /proc/pressure/cpu",
        "Linux kernel documentation, PSI",
    ),
    Advice(
        ("contention", "contention_unknown"),
        "reserve CPUs for the ranks: a cpuset, taskset, or the whole node (sbatch --exclusive)",
        "Hoefler et al., Characterizing the Influence of System Noise (SC 2010)",
    ),
    Advice(
        ("contention_own", "contention", "contention_unknown", "compute"),
        "OMP_NUM_THREADS={fair_threads}: one thread per CPU over all ranks of a node",
        "OpenMP specification, OMP_NUM_THREADS",
        "{per_node} ranks of {threads} threads each on {cpus} CPUs",
        _crowded,
    ),
    Advice(
        ("contention_own",),
        "fewer threads: OMP_NUM_THREADS={fair_threads}, fewer loader workers, intra-op and inter-op threads",
        "PyTorch Performance Tuning Guide; TensorFlow API documentation, tf.config.threading",
        holds=lambda case: not _crowded(case),
    ),
    Advice(
        ("contention_own",),
        "fewer ranks per node, each with more CPUs",
        "Jain et al. 2019 (docs/methodology.md): processes per node, threads",
        "{per_node} ranks share {cpus} CPUs",
        lambda case: _shared_by_many(case) and bool(case.cpus),
    ),
    Advice(
        ("throttled",),
        "raise the CPU limit: cpu.max of the cgroup, limits.cpu in Kubernetes, --cpus of docker",
        "Linux kernel documentation, cgroup v2: cpu.max",
    ),
    Advice(
        ("throttled",),
        "as many threads as the limit allows (OMP_NUM_THREADS): more use it up in bursts, then all wait",
        "Linux kernel documentation, CFS bandwidth control",
    ),
    Advice(
        ("stopped",),
        "find what stops {rank}: a debugger, SIGSTOP, a scheduler that suspends jobs, a frozen container",
        "Linux manual, signal(7)",
    ),
    Advice(
        ("paging",),
        "free memory on {node}: smaller batches, fewer loader workers, no other large process; check swap",
        "Linux kernel documentation, PSI: memory",
    ),
    Advice(
        ("paging",),
        "memory.high of the cgroup, and data mapped from files that do not fit into memory, also do this",
        "Linux kernel documentation, cgroup v2: memory.high",
    ),
    Advice(
        ("blocked", "input|blocked", "other"),
        "see what it waits for: py-spy dump --pid PID of {rank}, several times (locks, sleeps, sockets)",
        "py-spy documentation",
    ),
    Advice(
        ("blocked", "input|blocked", "wait_ranks", "stopped"),
        "roofline-client timeline --job {job} -o {job}.json.gz shows all ranks on one clock",
        "Perfetto documentation",
    ),
    # Healthy, and bound by its kernels.
    Advice(
        ("compute",),
        "raise the intensity: fuse element-wise operations (torch.compile, XLA), larger batches, bf16",
        "Williams, Waterman, Patterson, Roofline (CACM 2009)",
        "its kernels are on the memory side of the roof",
        _memory_bound,
    ),
    Advice(
        ("compute",),
        "let the library use {widest}-bit vectors: no ONEDNN_MAX_CPU_ISA or MKL_ENABLE_INSTRUCTIONS limit, "
        "batch and channels in multiples of the vector",
        "oneDNN documentation, CPU dispatcher control; oneMKL developer guide, MKL_ENABLE_INSTRUCTIONS",
        "{narrow_share} of its FLOPs are narrower than {widest} bits",
        _narrow,
    ),
    Advice(
        ("compute", "host"),
        "fewer, larger kernels: larger batches, fused operations (torch.compile, XLA), CUDA graphs on GPUs",
        "Wang et al., Time-Based Roofline for Deep Learning Performance Analysis (2020)",
        "its kernels take {kernel} each on average, little more than their start",
        _small_kernels,
    ),
    Advice(
        ("compute", "host"),
        "use all CPUs: OMP_NUM_THREADS={fair_threads}, or more ranks per node",
        "Jain et al. 2019 (docs/methodology.md): processes per node, threads",
        "{per_node} ranks of {threads} threads each leave CPUs idle: the node has {cpus}",
        _idle_cpus,
    ),
    Advice(
        ("compute",),
        "only less work, a cheaper precision (bf16) or more machines would make it faster",
        "Williams, Waterman, Patterson, Roofline (CACM 2009)",
        holds=_at_roof,
    ),
    Advice(
        ("compute",),
        "roofline-client plot --job {job} --points kernel -o FILE.png shows which kernels are far below it",
        "Williams, Waterman, Patterson, Roofline (CACM 2009)",
        holds=lambda case: not _at_roof(case) and bool(case.binding or not case.on_gpu),
    ),
)

# -- too little data ----------------------------------------------------------------------------------------

NO_STEPS = "start the ranks with `roofline-agent run -- COMMAND`, or mark steps with roofline_step"
FEW_STEPS = "train some 50 steps, then ask again"
NOT_MEASURED = "`roofline-agent doctor` on its nodes tells what is not measured, and why"


def to_know_more(headline: str, steps: int, least: int) -> str:
    """steps: how many steady ones there are of the rank that has most; least: that a verdict needs."""
    if not steps:
        return f"{headline}; {NO_STEPS}"
    return f"{headline}; {FEW_STEPS if steps < least else NOT_MEASURED}"
