"""Ceilings, roofs, the places they are of, and the points compared with them."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.texts import listed

from .wording import duration, many, number, place, title

# -- ceilings that lack -------------------------------------------------------------------------------------

NO_PRECISION = "no precision has most of its FLOPs, so no compute ceiling is its roof"


def _calibrate(host: str) -> str:
    return f"run `roofline-agent calibrate` on {host} while it is idle"


def no_ceilings(host: str, device: str) -> str:
    return f"{place(host, device)} was never calibrated: {_calibrate(host)}"


def no_ceilings_of_host(host: str) -> str:
    return f"{host} was never calibrated: run `roofline-agent calibrate` there while it is idle"


def no_network_ceiling(host: str) -> str:
    return f"no network ceiling of {host}"


def no_compute_ceiling(host: str, device: str, precision: str) -> str:
    where = place(host, device)
    return f"no compute ceiling of {where} was measured in {title(precision)}: {_calibrate(host)}"


def no_bandwidth(host: str, device: str, level: str) -> str:
    return f"no {level.upper()} bandwidth of {place(host, device)} was measured: {_calibrate(host)}"


def no_way_to_measure(level: str) -> str:
    """Of a level of a GPU's memory."""
    return f"{level.upper()} bandwidth of a GPU is not measured: `roofline-agent calibrate` cannot"


# -- what is to be known of ceilings ------------------------------------------------------------------------

THEORY = "theoretical ceilings: none of this GPU was measured"


def other_fp8(precision: str, roof: str) -> str:
    return (
        f"{title(precision)} is compared with the ceiling of {title(roof)}, which GPUs compute equally fast"
    )


def may_be_too_low(where: str, ceilings: Sequence[str], caveat: str) -> str:
    return (
        f"{where}: {listed(ceilings)} may be too low ({caveat}), so shares of the roof may be too high; "
        "calibrate again while the node is idle"
    )


def some_cpus(some: int, cpus: int) -> str:
    return f"{some} of {cpus} CPUs"


# -- labels of ceilings -------------------------------------------------------------------------------------


def network_ceiling(kind: str, way: str, peer: str, bytes_per_second: float) -> str:
    """ "network TCP to n2 1.17 GB/s". way: "to", "from"; peer "": not known."""
    to = f" {way} {peer}" if peer else ""
    return f"network {kind.upper()}{to} {number(bytes_per_second / 1e9)} GB/s"


def memory_ceiling(level: str, operation: str, bytes_per_second: float) -> str:
    return f"{level.upper()} {operation} {bytes_per_second / 1e9:.1f} GB/s"


def compute_ceiling(precision: str, how: Sequence[str], flops_per_second: float) -> str:
    """ "FP32 512-bit without FMA 2000.0 GFLOP/s". how: width, or unit, and operation."""
    return f"{' '.join((title(precision), *how))} {flops_per_second / 1e9:.1f} GFLOP/s"


def theoretical(label: str) -> str:
    return f"theoretical: {label}"


# -- roofs --------------------------------------------------------------------------------------------------


def roof_of_gpu(device: str, host: str, theory: bool) -> str:
    what = f"; {THEORY}" if theory else ""
    return f"{device} of {host}{what}; the whole GPU, shared by all ranks on it"


def roof_of_cpus(model: str, cpus: int, part: str) -> str:
    """part: of `some_cpus`; "": all."""
    what = f"measured on {part}" if part else "the whole node"
    return f"{model}, {many(cpus, 'CPU')}; {what}, shared by all its ranks"


# -- what a share of a roof is of ---------------------------------------------------------------------------

WHOLE_GPU = "of the whole GPU"
WHOLE_NODE = "of the whole node"


def of_gpus(gpus: int) -> str:
    return f"of all {gpus} GPUs"


def of_gpus_and_network(gpus: str) -> str:
    return f"{gpus}, and of the node's one network, which all its GPUs and ranks share"


def of_part(part: str) -> str:
    return f"of {part}: ceilings were measured on no more"


def of_nodes(nodes: int, parts: Sequence[tuple[str, str]]) -> str:
    """parts: (host, of `some_cpus`) of hosts that were not measured as a whole."""
    text = f"of all {nodes} nodes of the role"
    if not parts:
        return text
    return f"{text}: {', '.join(f'of {host} {part}' for host, part in parts)}"


# -- where a rank computes ----------------------------------------------------------------------------------


def several_gpus(gpus: int) -> str:
    return f"its counters are on {gpus} GPUs, which are taken to share its work"


def part_of_gpu(visible: str) -> str:
    return (
        f"it computes on a part of a GPU (MIG), {visible}: what parts can do is not measured, and the "
        "ceilings of a whole GPU are not theirs"
    )


def visible_gpu(device: str) -> str:
    return (
        f"{device} by CUDA_VISIBLE_DEVICES, which counts from 0 where a job sees only its own GPUs (Slurm's "
        "ConstrainDevices)"
    )


def gpu_without_ceilings(host: str) -> str:
    return f"its kernels ran on a GPU, and no GPU of {host} has ceilings"


def different_gpus(gpus: int, host: str) -> str:
    return f"which of the {gpus} GPUs of {host} it used is not known, and they differ"


def alike_gpus(gpus: int, host: str) -> str:
    return f"which of the {gpus} GPUs of {host} it used is not known: their ceilings are alike"


# -- points -------------------------------------------------------------------------------------------------

ALL_STEPS = "steps of all its ranks added up"
DIFFERENT_PRECISIONS = "ranks compute in different precisions: each is compared with the roof of its own"
NO_STEPS = "no steps were seen: points are of all that was recorded"
NO_KERNELS = "no kernels were recorded in these steps: start the ranks with `roofline-agent run`"
ONE_RANKS_KERNELS = (
    "FLOP/s of a kernel are those of one rank while it runs; other ranks share its node's roof"
)
LATER_PHASE = (
    "kernels of a GPU count for the phase in which they ran, which may be later than that which launched them"
)
OUTSIDE = "outside any phase"


def role_on(role: str, host: str) -> str:
    return f"{role} on {host or 'an unknown host'}"


def mean_of_gpus(label: str, gpus: int) -> str:
    return f"{label}, mean of {gpus} GPUs"


def no_whole_step(rank: str) -> str:
    return f"{rank}: no complete step with known FLOPs"


def no_bytes_of_steps(rank: str) -> str:
    return f"{rank}: no step has both FLOPs and bytes known"


def steps_shown(steps: int, shown: int) -> str:
    return (
        f"of up to {steps} steps of a rank {shown} are shown: evenly in order of their FLOP/s, from the "
        "slowest to the fastest"
    )


def replayed_phases(ranks: Sequence[str]) -> str:
    return f"{listed(ranks)}: ncu reports the order of kernels, not in which phase they ran"


def kernels_shown(shown: int) -> str:
    return f"the {shown} kernels that took most time are shown"


def unknown_kernels(seconds: float) -> str:
    return f"kernels of unknown FLOPs took {duration(seconds)} and are not shown"


def kernels_without_flops(seconds: float) -> str:
    return f"kernels that compute nothing (copies, reorders) took {duration(seconds)} and are not shown"


def pooled_hosts(hosts: int) -> str:
    return f"kernels of {hosts} hosts are pooled by role, against the roof where each took most time"


def pooled_gpus(gpus: int, hosts: int) -> str:
    where = f" on {hosts} hosts" if hosts > 1 else ""
    return (
        f"kernels of {gpus} GPUs{where} are pooled by role, against the roof where each took most time: "
        "total times are sums over the GPUs"
    )


def its_part(parts: float, roof: str) -> str:
    """roof: what the whole roof is of, "of the whole node"; "": not said."""
    return f"1/{number(parts)} of the roof" + (f" {roof}" if roof else "")
