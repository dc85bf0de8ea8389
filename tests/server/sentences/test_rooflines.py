"""Ceilings, roofs and points: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import rooflines as texts


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.no_ceilings("n1", "gpu 0"),
            "n1 gpu 0 was never calibrated: run `roofline-agent calibrate` on n1 while it is idle",
        ),
        (
            texts.no_ceilings_of_host("n1"),
            "n1 was never calibrated: run `roofline-agent calibrate` there while it is idle",
        ),
        (
            texts.no_network_ceiling("n1"),
            "no network ceiling of n1",
        ),
        (
            texts.no_compute_ceiling("n1", "", "bf16"),
            (
                "no compute ceiling of n1 was measured in BF16: run `roofline-agent calibrate` on n1 while "
                "it is idle"
            ),
        ),
        (
            texts.no_bandwidth("n1", "", "dram"),
            ("no DRAM bandwidth of n1 was measured: run `roofline-agent calibrate` on n1 while it is idle"),
        ),
        (
            texts.no_way_to_measure("l1"),
            "L1 bandwidth of a GPU is not measured: `roofline-agent calibrate` cannot",
        ),
        (
            texts.may_be_too_low("n1", ["a", "b", "c", "d", "e"], "others took 86% of the CPUs"),
            (
                "n1: a, b, c, d and 1 more may be too low (others took 86% of the CPUs), so shares of "
                "the roof may be too high; calibrate again while the node is idle"
            ),
        ),
        (
            texts.some_cpus(4, 128),
            "4 of 128 CPUs",
        ),
        (
            texts.network_ceiling("tcp", "to", "n2", 1.17e9),
            "network TCP to n2 1.17 GB/s",
        ),
        (
            texts.network_ceiling("tcp", "from", "", 1.17e9),
            "network TCP 1.17 GB/s",
        ),
        (
            texts.memory_ceiling("dram", "triad", 1e11),
            "DRAM triad 100.0 GB/s",
        ),
        (
            texts.compute_ceiling("f32", ["512-bit", "without FMA"], 2e12),
            "FP32 512-bit without FMA 2000.0 GFLOP/s",
        ),
        (
            texts.theoretical("HBM 3000.0 GB/s"),
            "theoretical: HBM 3000.0 GB/s",
        ),
        (
            texts.roof_of_gpu("gpu 0", "n1", True),
            (
                "gpu 0 of n1; theoretical ceilings: none of this GPU was measured; the whole GPU, shared "
                "by all ranks on it"
            ),
        ),
        (
            texts.roof_of_gpu("gpu 0", "n1", False),
            "gpu 0 of n1; the whole GPU, shared by all ranks on it",
        ),
        (
            texts.roof_of_cpus("EPYC", 128, ""),
            "EPYC, 128 CPUs; the whole node, shared by all its ranks",
        ),
        (
            texts.roof_of_cpus("EPYC", 128, texts.some_cpus(4, 128)),
            "EPYC, 128 CPUs; measured on 4 of 128 CPUs, shared by all its ranks",
        ),
        (
            texts.of_gpus(2),
            "of all 2 GPUs",
        ),
        (
            texts.of_gpus_and_network(texts.WHOLE_GPU),
            "of the whole GPU, and of the node's one network, which all its GPUs and ranks share",
        ),
        (
            texts.of_part(texts.some_cpus(4, 128)),
            "of 4 of 128 CPUs: ceilings were measured on no more",
        ),
        (
            texts.of_nodes(2, []),
            "of all 2 nodes of the role",
        ),
        (
            texts.of_nodes(2, [("n1", texts.some_cpus(4, 128))]),
            "of all 2 nodes of the role: of n1 4 of 128 CPUs",
        ),
        (
            texts.several_gpus(2),
            "its counters are on 2 GPUs, which are taken to share its work",
        ),
        (
            texts.visible_gpu("gpu 1"),
            (
                "gpu 1 by CUDA_VISIBLE_DEVICES, which counts from 0 where a job sees only its own GPUs "
                "(Slurm's ConstrainDevices)"
            ),
        ),
        (
            texts.gpu_without_ceilings("n1"),
            "its kernels ran on a GPU, and no GPU of n1 has ceilings",
        ),
        (
            texts.different_gpus(2, "n1"),
            "which of the 2 GPUs of n1 it used is not known, and they differ",
        ),
        (
            texts.alike_gpus(2, "n1"),
            "which of the 2 GPUs of n1 it used is not known: their ceilings are alike",
        ),
        (
            texts.role_on("worker", "n1"),
            "worker on n1",
        ),
        (
            texts.role_on("worker", ""),
            "worker on an unknown host",
        ),
        (
            texts.mean_of_gpus("worker", 2),
            "worker, mean of 2 GPUs",
        ),
        (
            texts.no_whole_step("worker:0"),
            "worker:0: no complete step with known FLOPs",
        ),
        (
            texts.no_bytes_of_steps("worker:0"),
            "worker:0: no step has both FLOPs and bytes known",
        ),
        (
            texts.steps_shown(5000, 2000),
            (
                "of up to 5000 steps of a rank 2000 are shown: evenly in order of their FLOP/s, from the "
                "slowest to the fastest"
            ),
        ),
        (
            texts.replayed_phases(["worker:0", "worker:1"]),
            "worker:0, worker:1: ncu reports the order of kernels, not in which phase they ran",
        ),
        (
            texts.kernels_shown(2000),
            "the 2000 kernels that took most time are shown",
        ),
        (
            texts.unknown_kernels(1.234),
            "kernels of unknown FLOPs took 1.23 s and are not shown",
        ),
        (
            texts.kernels_without_flops(1.234),
            "kernels that compute nothing (copies, reorders) took 1.23 s and are not shown",
        ),
        (
            texts.pooled_hosts(2),
            "kernels of 2 hosts are pooled by role, against the roof where each took most time",
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text
