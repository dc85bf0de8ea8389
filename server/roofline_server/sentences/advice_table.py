"""The table of advice: for which causes it is meant, when it holds, what shows that it does, and who says so.

The most promising of each kind comes first. What a piece of advice would gain is not in the table: that is
the replay's gain of the finding it belongs to. A sentence may name any field of `Case` in braces, and what
`advice` adds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .advice_cases import (
    HOROVOD,
    JAX,
    TENSORFLOW,
    TORCH,
    Case,
    averages_by_ddp,
    has_idle_cpus,
    has_idle_tensor_cores,
    has_kernels,
    has_more_ranks_than_cpus,
    has_narrow_vectors,
    has_one_server,
    has_several_hosts,
    has_slow_cycle,
    has_small_fusion,
    has_small_kernels,
    has_too_many_threads,
    has_uneven_servers,
    is_at_roof,
    is_memory_bound,
    is_merged,
    may_be_tuned,
    may_do_more,
    may_work_in_turns,
    of_some_ranks,
    shares_its_node,
    shares_with_others,
    uses,
    waits_for_copies,
)

OURS = "none: it follows from what the finding says"


class Advice(NamedTuple):
    kinds: tuple[str, ...]  # for which it is meant
    tries: str
    source: str  # who says so; OURS: nobody else
    evidence: str = ""  # sentence that shows why it holds here; "": the finding's own does
    holds: Callable[[Case], bool] = lambda case: True


ADVICE: tuple[Advice, ...] = (
    # Parameter servers.
    Advice(
        ("server_overloaded",),
        "add a parameter server and spread the variables over all (what-if --job {job} --ps {more_servers})",
        "Li et al., Scaling Distributed Machine Learning with the Parameter Server (OSDI 2014)",
        "it is the only parameter server, for {all_workers}",
        has_one_server,
    ),
    Advice(
        ("server_overloaded", "server_skewed"),
        "spread the variables evenly: partition the large ones (tf.distribute MinSizePartitioner)",
        "TensorFlow tutorial, Parameter server training: variable sharding",
        "it gets {part} of the bytes, an even part would be {even}",
        has_uneven_servers,
    ),
    Advice(
        ("server_skewed",),
        "split the largest variables over all {servers} servers, or place variables by size",
        "TensorFlow tutorial, Parameter server training: variable sharding",
        holds=lambda case: not has_uneven_servers(case),
    ),
    Advice(
        ("server_overloaded",),
        "add one parameter server (what-if --job {job} --ps {more_servers} gives the range)",
        "Li et al., Scaling Distributed Machine Learning with the Parameter Server (OSDI 2014)",
        holds=lambda case: case.servers > 1 and not has_uneven_servers(case),
    ),
    Advice(
        ("server_overloaded", "wait_ps"),
        "larger batches: fewer updates/s for the same examples/s",
        "Denning and Buzen, The Operational Analysis of Queueing Network Models (1978)",
    ),
    Advice(
        ("server_overloaded", "server_slow"),
        "keep workers off the CPUs of {rank}: taskset, a cgroup, or another node",
        "Linux manual, sched_setaffinity(2)",
        holds=shares_its_node,
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
        ("unseen_ranks",),
        "have all ranks seen: roofline-agent on every node, roofline-agent run around every rank",
        OURS,
    ),
    Advice(
        ("transfer", "network", "wait_ps", "slow_link", "unseen_ranks"),
        "is it the link? roofline-client bench net --from HOST --to HOST measures what it can do",
        "docs/ceilings.md: the network's ceiling",
        holds=has_several_hosts,
    ),
    Advice(
        ("transfer",),
        "HOROVOD_CYCLE_TIME=1: gradients that are ready wait for the next cycle",
        "Horovod documentation, Tensor Fusion",
        "a cycle takes {cycle_ms} ms",
        has_slow_cycle,
    ),
    Advice(
        ("transfer",),
        "HOROVOD_FUSION_THRESHOLD=134217728: fewer, larger allreduces",
        "Horovod documentation, Tensor Fusion",
        "the fusion buffer has {fusion_mb} MiB",
        has_small_fusion,
    ),
    Advice(
        ("transfer",),
        "HOROVOD_AUTOTUNE=1: it tries cycle times and sizes of the fusion buffer, and keeps the fastest",
        "Horovod documentation, Autotune",
        "a cycle takes {cycle_ms} ms, the fusion buffer has {fusion_mb} MiB{as_it_is}",
        may_be_tuned,
    ),
    Advice(
        ("transfer",),
        "accumulate gradients: DistributedOptimizer(backward_passes_per_step=N), one allreduce for N batches",
        "Horovod documentation, API: DistributedOptimizer",
        holds=uses(HOROVOD),
    ),
    Advice(
        ("transfer",),
        "overlap more: bucket_cap_mb of DistributedDataParallel, static_graph=True; no_sync() to "
        "accumulate gradients",
        "Li et al., PyTorch Distributed (VLDB 2020)",
        holds=averages_by_ddp,
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
        holds=of_some_ranks,
    ),
    Advice(
        ("input", "input|blocked"),
        "DataLoader: num_workers=N, prefetch_factor=4, persistent_workers=True",
        "PyTorch documentation, torch.utils.data",
        holds=uses(TORCH),
    ),
    Advice(
        ("input", "input|blocked"),
        "tf.data: .prefetch(tf.data.AUTOTUNE), .map(..., num_parallel_calls=tf.data.AUTOTUNE), .cache()",
        "TensorFlow guide, Better performance with the tf.data API",
        holds=uses(TENSORFLOW),
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
        lambda case: waits_for_copies(case) and TORCH in case.frameworks,
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
        holds=uses(TORCH),
    ),
    Advice(
        ("gpu_idle",),
        "several steps in one call: jax.lax.scan over a few batches; device_put the next batch beforehand",
        "JAX documentation, asynchronous dispatch",
        holds=uses(JAX),
    ),
    Advice(
        ("gpu_idle",),
        "larger batches: the host starts as many kernels, and each does more",
        "Wang et al., Time-Based Roofline for Deep Learning Performance Analysis (2020)",
    ),
    Advice(
        ("slower", "compute"),
        "look at the cooling and the power supply of the GPU: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
        "NVIDIA, NVML API Reference Guide: nvmlClocksEventReasons",
        "{held_clock}",
        lambda case: bool(case.held_clock),
    ),
    Advice(
        ("compute",),
        'do the GPUs of a rank work in turns (layers spread over them, device_map="auto")? Use a rank per '
        "GPU (FSDP), or a pipeline of micro-batches",
        "Huang et al., GPipe (2019); PyTorch documentation, Pipeline Parallelism",
        "each of the {gpus} GPUs of a rank computes {busy} of the time",
        may_work_in_turns,
    ),
    Advice(
        ("compute",),
        'tensor cores: torch.set_float32_matmul_precision("high") (TF32), torch.autocast("cuda", '
        "torch.bfloat16)",
        "NVIDIA, Train With Mixed Precision; PyTorch documentation, torch.amp",
        "its tensor cores are active {tensor_share} of the time",
        lambda case: has_idle_tensor_cores(case) and TORCH in case.frameworks,
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
        ("evaluates",),
        "have every rank evaluate its share (a DistributedSampler of validation data), or do it less often",
        "PyTorch documentation, torch.utils.data.distributed",
    ),
    Advice(
        ("saves",),
        "save in the background (torch.distributed.checkpoint.async_save, an orbax AsyncCheckpointer), each "
        "rank its part, or less often",
        "Mohan et al., CheckFreq (FAST 2021); PyTorch documentation, torch.distributed.checkpoint",
    ),
    Advice(
        ("evaluation",),
        "evaluate less often (validation_freq of fit) or on fewer batches (validation_steps)",
        "Keras documentation, Model.fit",
        holds=uses(TENSORFLOW),
    ),
    Advice(
        ("evaluation",),
        "evaluate less often, on a part of the data, or in a job of its own on saved checkpoints",
        OURS,
        holds=lambda case: TENSORFLOW not in case.frameworks,
    ),
    Advice(
        ("checkpoint",),
        "save less often, or in the background (torch.distributed.checkpoint.async_save, an orbax "
        "AsyncCheckpointer, BackupAndRestore with save_freq)",
        "Mohan et al., CheckFreq (FAST 2021); PyTorch documentation, torch.distributed.checkpoint",
    ),
    Advice(
        ("without_gradients",),
        "roofline-client timeline --job {job} -o {job}.json.gz shows when; run it less often, on larger "
        "batches, or in processes of its own",
        OURS,
    ),
    Advice(
        ("busy_alone", "between", "beside"),
        "roofline-client timeline --job {job} -o timeline.json.gz shows when; move it off the training "
        "thread",
        OURS,
    ),
    Advice(
        ("between",),
        "is it the data loader? roofline_step.mark(k) once an iteration, instead of step(k), has it in the "
        "steps, and the report says more",
        OURS,
    ),
    Advice(
        ("slower",),
        "compare the nodes: roofline-client machines --compare HOST HOST (clock, memory, ceilings)",
        "Hoefler et al., Characterizing the Influence of System Noise (SC 2010)",
        holds=has_several_hosts,
    ),
    Advice(
        ("slower",),
        "check {node} for a low clock (governor, heat), CPUs shared as hyperthreads with other work, and, if "
        "it is a virtual machine, a busy host, which steal does not always show",
        "Linux kernel documentation, CPU performance scaling",
    ),
    Advice(
        ("slower", "host"),
        "{does} {rank} do something the others do not: logging, metrics, checkpoints, a debugger?",
        OURS,
        holds=may_do_more,
    ),
    Advice(
        ("memory_bandwidth",),
        "move other work off that socket, and keep each rank in the memory of its own: "
        "numactl --cpunodebind=N --membind=N",
        "Treibig, Hager, Wellein, LIKWID (2010)",
    ),
    Advice(
        ("host", "gpu_idle", "cpu_time", "after_kernels"),
        "see where the Python time goes: py-spy record --pid PID of {rank}",
        "py-spy documentation",
    ),
    Advice(
        ("host",),
        "move what each step does not need out of it: .item() and print of losses, metrics, augmentation",
        "PyTorch Performance Tuning Guide",
        holds=uses(TORCH),
    ),
    Advice(
        ("host",),
        "put the whole step into one tf.function, several steps into one call (steps_per_execution)",
        "TensorFlow guide, Better performance with tf.function; Keras documentation, Model.compile",
        holds=uses(TENSORFLOW),
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
        "other processes keep {foreign_cpus} CPUs{of_host} busy",
        shares_with_others,
    ),
    Advice(
        ("contention_bound",),
        "which CPUs may {it} use? taskset -cp PID of {rank}; bind each rank to CPUs of its own, or none to "
        "any (srun --cpu-bind, OMP_PLACES, numactl, a cpuset)",
        "Linux manual, taskset(1); Slurm documentation, srun: --cpu-bind",
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
        holds=lambda case: not is_merged(case),
    ),
    Advice(
        ("contention_own", "contention", "contention_unknown", "compute"),
        "OMP_NUM_THREADS={fair_threads}: one thread per CPU over all ranks of a node",
        "OpenMP specification, OMP_NUM_THREADS",
        "{computing} on {all_cpus}",
        has_too_many_threads,
    ),
    Advice(
        ("contention_own",),
        "fewer threads: OMP_NUM_THREADS={fair_threads}, fewer loader workers, intra-op and inter-op threads",
        "PyTorch Performance Tuning Guide; TensorFlow API documentation, tf.config.threading",
        holds=lambda case: not has_too_many_threads(case),
    ),
    Advice(
        ("contention_own",),
        "fewer ranks per node, each with more CPUs",
        "Jain et al. 2019 (docs/methodology.md): processes per node, threads",
        "{all_ranks} share {all_cpus}",
        lambda case: shares_its_node(case) and bool(case.cpus),
    ),
    Advice(
        ("contention", "contention_unknown"),
        "fewer ranks per node, each with a CPU of its own",
        "Jain et al. 2019 (docs/methodology.md): processes per node, threads",
        "{all_ranks} share {all_cpus}",
        has_more_ranks_than_cpus,
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
        "look for memory.high of the cgroup, and mapped files larger than memory: both cause this",
        "Linux kernel documentation, cgroup v2: memory.high",
    ),
    Advice(
        ("blocked", "input|blocked", "other"),
        "see what {it} wait{s} for: py-spy dump --pid PID of {rank}, several times (locks, sleeps, sockets)",
        "py-spy documentation",
    ),
    Advice(
        ("unexplained",),
        "start all ranks by roofline-agent run, or with its hooks: they measure the CPU time of each step",
        OURS,
    ),
    Advice(
        ("unexplained",),
        "see what {it} {does}: py-spy dump --pid PID of {rank}, several times",
        "py-spy documentation",
    ),
    Advice(
        ("blocked", "input|blocked", "wait_ranks", "stopped", "unexplained"),
        "roofline-client timeline --job {job} -o timeline.json.gz shows all ranks on one clock",
        "Perfetto documentation",
    ),
    # Healthy, and bound by its kernels.
    Advice(
        ("compute",),
        "raise the intensity: fuse element-wise operations (torch.compile, XLA), larger batches, bf16",
        "Williams, Waterman, Patterson, Roofline (CACM 2009)",
        "its kernels are on the memory side of the roof",
        is_memory_bound,
    ),
    Advice(
        ("compute",),
        "let the library use {widest}-bit vectors: no ONEDNN_MAX_CPU_ISA or MKL_ENABLE_INSTRUCTIONS limit, "
        "batch and channels in multiples of the vector",
        "oneDNN documentation, CPU dispatcher control; oneMKL developer guide, MKL_ENABLE_INSTRUCTIONS",
        "{narrow_share} of its FLOPs are narrower than {widest} bits",
        has_narrow_vectors,
    ),
    Advice(
        ("compute", "host"),
        "fewer, larger kernels: larger batches, fused operations (torch.compile, XLA), CUDA graphs on GPUs",
        "Wang et al., Time-Based Roofline for Deep Learning Performance Analysis (2020)",
        "its kernels take {kernel} each on average, little more than their start",
        has_small_kernels,
    ),
    Advice(
        ("compute", "host"),
        "use all CPUs: OMP_NUM_THREADS={fair_threads}, or more ranks per node",
        "Jain et al. 2019 (docs/methodology.md): processes per node, threads",
        "CPUs are idle: {computing} on a node of {all_cpus}",
        has_idle_cpus,
    ),
    Advice(
        ("compute",),
        "only less work, a cheaper precision (bf16) or more machines would make it faster",
        "Williams, Waterman, Patterson, Roofline (CACM 2009)",
        holds=is_at_roof,
    ),
    Advice(
        ("compute",),
        "roofline-client plot --job {job} --points kernel -o FILE.png shows which kernels are far below it",
        "Williams, Waterman, Patterson, Roofline (CACM 2009)",
        holds=lambda case: not is_at_roof(case) and has_kernels(case),
    ),
)
