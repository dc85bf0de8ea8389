"""What holds something back: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import points as texts


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.bound_by(texts.COMPUTE_AT_ROOF, texts.at_roof(1.05)),
            "compute-bound, at the roof (95% of it): only a cheaper precision or more machines help",
        ),
        (
            texts.bound_by(texts.COMPUTE, texts.below_roof(3.2, 1)),
            "compute-bound, 3.2x below the roof: larger batches or operations fill its units better",
        ),
        (
            texts.bound_by(texts.NETWORK, texts.below_roof(2.0, 1)),
            ("network-bound, 2x below the roof: fewer bytes (larger batch, compression) or a faster network"),
        ),
        (
            texts.bound_by(texts.memory("l2"), texts.below_roof(2.0, 4)),
            (
                "memory-bound on L2, 2x below its part of the roof (1/4 of it): raise intensity (larger "
                "batch, fusion)"
            ),
        ),
        (
            texts.perhaps_bound_by(texts.memory_of_tensors("dram"), texts.below_roof(7.0, 1)),
            (
                "at best memory-bound on DRAM if its tensors come from there, 7x below the roof: check "
                "threads, small kernels and stalls first, then raise intensity (larger batch, fusion)"
            ),
        ),
        (
            texts.at_part_of_roof(2),
            "at its part of the roof (1/2 of it)",
        ),
        (
            texts.far_below_roof(12.4, 1, "dram.triad"),
            (
                "12x below its roof (dram.triad): far below peak, check threads, small kernels and "
                "stalls before raising the batch size"
            ),
        ),
        (
            texts.far_below_roof(1234.0, 2, "peak.f32"),
            (
                "1,234x below its part of the roof (peak.f32): far below peak, check threads, "
                "small kernels and stalls before raising the batch size"
            ),
        ),
        (
            texts.above_roof_in_caches(0.5),
            "2x above its roof: its data are in caches, whose bandwidth is higher",
        ),
        (
            texts.above_roof(0.5),
            (
                "2x above its roof: the ceiling was measured too low (on a busy node?), or something is "
                "counted twice"
            ),
        ),
        (
            texts.hardly_computing(0.6, 0.25, 1, True, texts.BETWEEN_KERNELS),
            (
                "its kernels reach 60% of the roof, but they fill only 25% of the step: the time between "
                "them counts more (launches, Python, operations that are not modelled)"
            ),
        ),
        (
            texts.hardly_computing(0.2, 0.25, 2, False, texts.APART_FROM_KERNELS["input"]),
            (
                "its kernels reach 20% of their part of the roof, and fill only 25% of the step: it waits "
                "for input: prefetch, or more loader workers"
            ),
        ),
        (
            texts.lacks_cpus(0.85),
            "runnable but not scheduled for 85% of the step (CPU contention)",
        ),
        (
            texts.by_last_kernels(texts.APART_FROM_KERNELS["wait"]),
            "by when its last kernels ended, it waits for other ranks: see its stragglers",
        ),
        (
            texts.narrow_vectors(0.7, 128, 512),
            "; 70% of its FLOPs are 128-bit: vectorise, or let the library use 512 bits",
        ),
        (
            texts.narrow_vectors(0.7, 0, 512),
            "; 70% of its FLOPs are scalar: vectorise, or let the library use 512 bits",
        ),
        (
            texts.mixed_precisions(0.9, "f32"),
            "90% of its FLOPs are FP32, whose roof this is",
        ),
        (
            texts.shared_roof("GPU", 2),
            "the GPU's roof is shared by 2 ranks",
        ),
        (
            texts.shared_network(4),
            "the node's network is shared by 4 ranks",
        ),
        (
            texts.not_modelled(1),
            "1 kernel call is not modelled (pooling, normalisation, element-wise)",
        ),
        (
            texts.not_modelled(12),
            "12 kernel calls are not modelled (pooling, normalisation, element-wise)",
        ),
        (
            texts.cut_steps(2, 100),
            "2 of 100 steps were not watched from begin to end and are left out",
        ),
        (
            texts.cut_steps(1, 100),
            "1 of 100 steps was not watched from begin to end and is left out",
        ),
        (
            texts.one_step_of(["worker:0", "worker:1"]),
            "one step only of worker:0, worker:1",
        ),
        (
            texts.one_step_of([f"ddp:{number}" for number in range(1000)]),
            "one step only of ddp:0, ddp:1, ddp:2, ddp:3 and 996 more",
        ),
        (
            texts.no_flops_of(1, 4),
            "no FLOPs are known for 1 of 4 ranks",
        ),
        (
            texts.multiplexed(0.5),
            "its counters counted 50% of the time: scaled up where multiplexed, not for cores that have "
            "no event for it",
        ),
        (
            texts.no_traffic_of(1, 4),
            "no DRAM traffic is known for 1 of 4 ranks",
        ),
        (
            texts.no_bytes_of(0.25),
            "no bytes are known for kernels with 25% of the FLOPs",
        ),
        (
            texts.no_bytes_of(0.001),
            "no bytes are known for kernels with less than 1% of the FLOPs",
        ),
        (
            texts.no_bytes_of_some(0.25),
            "no bytes are known for kernels with 25% of the FLOPs: the intensity is that of the others",
        ),
        (
            texts.not_modelled_calls(3),
            "3 kernel calls are not modelled",
        ),
        (
            texts.not_modelled_calls(1),
            "1 kernel call is not modelled",
        ),
        (
            texts.not_modelled_calls(0),
            "less than 1 kernel call is not modelled",
        ),
        (
            texts.no_bytes_of_calls(1),
            "no bytes are known for 1 kernel call: the intensity is that of the others",
        ),
        (
            texts.no_bytes_of_calls(0),
            "no bytes are known for less than 1 kernel call: the intensity is that of the others",
        ),
        (
            texts.no_bytes_of_calls(3),
            "no bytes are known for 3 kernel calls: the intensity is that of the others",
        ),
        (
            texts.alone(texts.BETWEEN_KERNELS),
            (
                "over the time of its kernels alone: the time between them counts more (launches, Python, "
                "operations that are not modelled)"
            ),
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text
