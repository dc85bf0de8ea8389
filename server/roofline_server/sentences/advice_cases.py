"""What is known of a finding, and the conditions under which a piece of advice helps with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

ENOUGH_THREADS = 0.75  # of the CPUs: fewer threads leave some of them idle
SMALL_KERNEL_S = 50e-6  # mean time of kernels whose start counts
UNPINNED_BYTES_PER_SECOND = 5e9  # that a copy from memory which is not pinned reaches: 38 MB took 7 ms (H100)
COPYING = 0.25  # of the time in which a GPU is idle
IN_TURNS = 0.3  # of the time
LITTLE_TENSOR = 0.2  # of the time: tensor cores do little of what they could
NARROW = 0.3  # share of FLOPs in narrow vectors that matters
AT_ROOF = 0.8  # of its part of the roof: what computes as fast gains little on this machine
TORCH, TENSORFLOW, HOROVOD, JAX = "torch", "tensorflow", "horovod", "jax"
CYCLE_TIME, FUSION = "HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD"
AUTOTUNE = "HOROVOD_AUTOTUNE"


class Case(NamedTuple):
    """What is known of a finding; None and "" where it is not known."""

    kind: str  # of a cause, or the part of the account that bounds a healthy job
    job: str = "last"
    ranks: Sequence[str] = ()  # (): it is about all
    only: str = ""  # the rank of a job that has one
    host: str = ""
    frameworks: frozenset[str] = frozenset()
    settings: Mapping[str, str] = {}  # environment variables of the ranks
    workers: int = 0  # ranks that train
    servers: int = 0
    hosts: int = 0
    per_node: int = 1  # ranks that compute on one node
    on_node: int = 1  # ranks of any kind there
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
    gpus: int = 1  # that one rank uses, the most
    gpu_busy: float | None = None  # share of the time in which the busiest GPU computed
    held_clock: str = ""  # what held the clock of a GPU down, and for how long
    stretched: bool = False  # all phases of these ranks take longer than those of others, about alike
    tensor: float | None = None  # in which its tensor cores did
    copied: float | None = None  # bytes/s from the host to it


def uses(*names: str) -> Callable[[Case], bool]:
    return lambda case: bool(case.frameworks.intersection(names))


def of_some_ranks(case: Case) -> bool:
    """Some ranks, not all of them."""
    return bool(case.ranks)


def may_do_more(case: Case) -> bool:
    """Whether some ranks may be slow because of something that only they do: that stretches no optimizer."""
    return of_some_ranks(case) and not case.stretched


def has_one_server(case: Case) -> bool:
    return case.servers == 1


def has_uneven_servers(case: Case) -> bool:
    return case.servers > 1 and case.bytes_share is not None and case.bytes_share > 1.5 / case.servers


def has_too_many_threads(case: Case) -> bool:
    """More computing threads than CPUs; a rank cannot have less than one."""
    many = (case.threads or 0) > 1 and bool(case.cpus)
    return many and (case.threads or 0) * case.per_node > (case.cpus or 0)


def has_more_ranks_than_cpus(case: Case) -> bool:
    return bool(case.cpus) and case.per_node > (case.cpus or 0)


def has_idle_cpus(case: Case) -> bool:
    busy = (case.threads or 0) * case.per_node
    return bool(case.threads and case.cpus) and not case.on_gpu and busy < ENOUGH_THREADS * (case.cpus or 0)


def shares_its_node(case: Case) -> bool:
    return case.on_node > 1 and not case.on_gpu


def is_merged(case: Case) -> bool:
    """Whether it is about a part of the account of which it is not known which of several it is."""
    return "|" in case.kind


def shares_with_others(case: Case) -> bool:
    return case.foreign is not None and case.foreign >= 0.1


def has_slow_cycle(case: Case) -> bool:
    return HOROVOD in case.frameworks and (_cycle_ms(case) or 0.0) > 1


def _cycle_ms(case: Case) -> float | None:
    """None: what is set is no number."""
    try:
        return float(case.settings.get(CYCLE_TIME, "1"))
    except ValueError:
        return None


def has_small_fusion(case: Case) -> bool:
    size = case.settings.get(FUSION, "")
    return HOROVOD in case.frameworks and size.isdecimal() and int(size) < 2**26


def may_be_tuned(case: Case) -> bool:
    """A job of Horovod of which neither is plainly wrong, and that does not try others by itself."""
    tunes = case.settings.get(AUTOTUNE, "0") not in ("", "0")
    wrong = has_slow_cycle(case) or has_small_fusion(case) or _cycle_ms(case) is None
    return HOROVOD in case.frameworks and not (tunes or wrong)


def averages_by_ddp(case: Case) -> bool:
    return TORCH in case.frameworks and HOROVOD not in case.frameworks


def has_small_kernels(case: Case) -> bool:
    return case.kernel_s is not None and case.kernel_s < SMALL_KERNEL_S


def has_kernels(case: Case) -> bool:
    """Recorded ones, with FLOPs if they ran on a GPU. A part that may be kernels, or something else, needs
    none."""
    recorded = case.kernel_s is not None or not is_merged(case)
    return recorded and bool(case.binding or not case.on_gpu)


def is_memory_bound(case: Case) -> bool:
    return case.binding == "memory"


def has_narrow_vectors(case: Case) -> bool:
    return case.narrow is not None and case.narrow >= NARROW and bool(case.widest)


def is_at_roof(case: Case) -> bool:
    return case.of_roof is not None and case.of_roof >= AT_ROOF


def waits_for_copies(case: Case) -> bool:
    """Whether copies from ordinary memory may explain a good part of the time in which a GPU is idle."""
    idle = 1 - (case.gpu_busy or 0.0)
    return case.copied is not None and case.copied / UNPINNED_BYTES_PER_SECOND >= COPYING * idle


def may_work_in_turns(case: Case) -> bool:
    """Whether it is so if the GPUs of a rank are idle for much of the time, each while others are busy."""
    busy = case.gpu_busy or 0.0
    return min(1.0, case.gpus * busy) - busy >= IN_TURNS


def has_idle_tensor_cores(case: Case) -> bool:
    return case.tensor is not None and case.tensor < LITTLE_TENSOR


def has_several_hosts(case: Case) -> bool:
    return case.hosts > 1
