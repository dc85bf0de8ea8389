"""Paths under a roof: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import trajectories as texts
from roofline_server.sentences.trajectories import Change


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.one_value("nodes"),
            "one value of nodes only: a path needs two",
        ),
        (
            texts.one_point("2"),
            "only 2 has a point",
        ),
        (
            texts.moves(
                "nodes", ("1", "4"), "node", Change(4e9, 2e9, -1), Change(2.0, 2.0, 0), texts.WAITS_MORE
            ),
            (
                "from nodes 1 to 4 FLOP/s per node falls from 4 GFLOP/s to 2 GFLOP/s while intensity stays "
                "at 2 FLOP/byte: as much work for its bytes, but it waits more, has more overhead, or fewer "
                "ranks do it there"
            ),
        ),
        (
            texts.moves(
                "nodes",
                ("1", "4"),
                "GPU",
                Change(2e9, 4e9, 1, ("2", 5e9)),
                Change(3.0, 2.0, -1, None, ("2", 1.0)),
                "",
            ),
            (
                "from nodes 1 to 4 FLOP/s per GPU rises from 2 GFLOP/s to 4 GFLOP/s over 5 GFLOP/s at 2 "
                "while intensity falls from 3 FLOP/byte to 2 FLOP/byte through 1 FLOP/byte at 2"
            ),
        ),
        (
            texts.throughput(100.0, 350.0, "examples/s", "examples/s", 3.5),
            "throughput goes from 100 examples/s to 350 examples/s, 3.5x",
        ),
        (
            texts.scaling("throughput goes up", 0.875, "nodes", "4"),
            "throughput goes up (88% scaling efficiency at nodes 4)",
        ),
        (
            texts.other_unit("examples/s", "steps/s"),
            "throughput is in examples/s, that of the first job in steps/s",
        ),
        (
            texts.no_resource("optimizer", ["nodes", "gpus"]),
            "optimizer is not known to be an amount of resources; these are: gpus, nodes",
        ),
        (
            texts.no_number("nodes"),
            "nodes is no number above zero at every stop",
        ),
        (
            texts.of_jobs(["a"], texts.STILL_RUNS),
            "job a: still running: the numbers will change",
        ),
        (
            texts.of_jobs(["a", "b", "c", "d", "e"], texts.STILL_RUNS),
            "jobs a, b, c, d and 1 more: still running: the numbers will change",
        ),
        (
            texts.no_role("ps"),
            "no rank is a ps",
        ),
        (
            texts.left_out("worker", texts.NOTHING_KNOWN),
            "left out for worker: neither steps nor FLOPs are known",
        ),
        (
            texts.different_threads(["1", "2"]),
            "the ranks have different OMP_NUM_THREADS: 1, 2",
        ),
        (
            texts.no_tag("optimizer"),
            "no tag 'optimizer'",
        ),
        (
            texts.tag_against_count("batch", "32", "64"),
            "the tag says batch 32, the count is 64 examples a step and rank: the tag is used",
        ),
        (
            texts.tag_against_count("nodes", "2", "1"),
            "the tag says nodes 2, the count is 1: the tag is used",
        ),
        (
            texts.tag_of_some("nodes", ["a", "b"]),
            "nodes is a tag of some jobs and counted of the others: a, b",
        ),
        (
            texts.differing_tag("batch", ["32", "64"]),
            "batch (32, 64)",
        ),
        (
            texts.pooled("nodes", "2", ["a", "b"], ["batch (32, 64)"]),
            "nodes 2: jobs a and b are pooled though they differ in batch (32, 64): name jobs that are alike",
        ),
        (
            texts.over_tensor_bytes("worker"),
            (
                "worker: main memory's traffic was not counted in every job, or as fewer cache misses than "
                "its tensors have bytes: intensity is over tensor bytes"
            ),
        ),
        (
            texts.mixed_origins("worker", [("analytic", ["41"]), ("estimated", ["42", "43"])]),
            "worker: FLOPs are known in several ways: computed from shapes in 41, estimated in 42, 43",
        ),
        (
            texts.mixed_precisions("worker", "nodes", "2", [("a", "f64"), ("b", "f32")]),
            "worker at nodes 2: jobs of different precisions are pooled: a FP64, b FP32",
        ),
        (
            texts.single_steps("worker", "nodes", "2", ["a"]),
            "worker at nodes 2: job a contributes a single step to the pooled numbers",
        ),
        (
            texts.single_steps("worker", "nodes", "2", ["a", "b"]),
            "worker at nodes 2: jobs a and b contribute a single step each to the pooled numbers",
        ),
        (
            texts.other_roof("n2", ["DRAM triad 100.0 GB/s"], "n1", "a"),
            (
                "the roof drawn is that of n1 in job a, but n2 has DRAM triad 100.0 GB/s: attainable FLOP/s "
                "use each job's own roof"
            ),
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text
