from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline.answers.values import Scope
from roofline_server.model.evidence import CountedFlops, CounterEvidence, RankEvidence
from roofline_server.model.roofline.point_gaps import incomplete
from roofline_server.model.roofline.roofs import limits
from roofline_server.model.roofline.summary import has_flops, placed
from roofline_server.model.roofline.traffic_parts import traffic, work_and_memory
from roofline_server.sentences import origins, points, reasons

from ...builders import DRAM, PEAK_F32
from ..evidence import NODE1, NONE, evidence, ints, kernels, number, of

P = Scope.PROCESS
GPU = limits(
    "node1",
    "gpu 0",
    [PEAK_F32._replace(device="gpu 0", value=6e13), DRAM._replace(level="hbm", device="gpu 0", value=3e12)],
    "f32",
)


def counted(per_window: float, windows: int = 10) -> CounterEvidence:
    return CounterEvidence(per_window * windows, 10.0, windows, per_window)


def on_gpu(**more: object) -> RankEvidence:
    """10 TFLOP and 100 GB of tensors a step, on a GPU whose node moved 1 GB and used 50 J for it."""
    known = {"dram": counted(1e9), "energy": counted(50.0), **more}
    return evidence(kernels=kernels([10**13] * 10, [10**11] * 10, on_gpu=True), **known)


# -- where the FLOPs were done ------------------------------------------------------------------------------


def test_traffic_of_the_nodes_cpus_is_none_of_a_gpus_memory() -> None:
    rank = on_gpu()
    found = of(rank, limits=[GPU])
    assert (found["intensity.dram"].value, "nothing counted" in found["intensity.dram"].reason) == (
        None,
        True,
    )
    level, intensity, _ = placed([rank], found)
    assert (level, number(intensity)) == ("minimum", pytest.approx(100))
    assert number(found["attainable_flops_per_second"]) == pytest.approx(6e13)
    assert number(found["bytes_per_step.dram"]) == 1e9


def test_breakdown_of_a_gpu_rank_keeps_the_two_memories_apart() -> None:
    parts = {part.part: part.value for part in traffic([on_gpu()], P)}
    assert (parts["hbm"].value, parts["dram"].value) == (None, 1e9)
    assert parts["hbm"].reason == reasons.NO_HBM
    _, accesses = work_and_memory([on_gpu()], P)
    assert accesses.value.value == pytest.approx(1e11 / 32)
    assert "3,200 FLOPs an access" in accesses.words


def test_flops_of_a_gpu_are_not_divided_by_the_energy_of_cpus() -> None:
    found = of(on_gpu(), limits=[GPU])
    assert found["flops_per_joule"].value is None
    assert "on a GPU whose energy was not read" in found["flops_per_joule"].reason
    assert number(found["energy_per_step"]) == 50
    assert found["energy_per_step"].reason.startswith("the CPUs' of its node alone")
    known = of(on_gpu(has_gpu_energy=True, energy_of="its GPU's"), limits=[GPU])
    assert number(known["flops_per_joule"]) == pytest.approx(1e13 / 50)


def test_role_has_flops_per_joule_only_where_each_gpus_energy_is_known() -> None:
    ranks = [on_gpu(has_gpu_energy=True), on_gpu(key="worker:1")]
    assert of(*ranks, limits=[GPU])["flops_per_joule"].value is None


# -- whose FLOPs, whose bytes -------------------------------------------------------------------------------


def test_flops_are_those_of_the_ranks_whose_bytes_and_joules_are_known() -> None:
    one = evidence(kernels=kernels([10**10] * 10), dram=counted(1e9), energy=counted(10.0))
    other = evidence(key="worker:1", host="node2", kernels=kernels([3 * 10**10] * 10))
    found = of(one, other)
    assert number(found["intensity.dram"]) == pytest.approx(10)
    assert number(found["flops_per_joule"]) == pytest.approx(1e9)
    for name in ("intensity.dram", "flops_per_joule"):
        assert found[name].reason.endswith(origins.of_ranks_known(1, 2)), name
    _, accesses = work_and_memory([one, other], P)
    assert "640 FLOPs an access" in accesses.words


def test_point_over_the_traffic_of_some_ranks_says_so() -> None:
    one = evidence(kernels=kernels([10**10] * 10), dram=counted(1e9))
    other = evidence(key="worker:1", kernels=kernels([10**10] * 10))
    said = points.no_traffic_of(1, 2)
    assert incomplete([one, other], of(one, other), "dram") == said
    assert incomplete([one, one], of(one, one), "dram") == ""
    missed = one._replace(dram_is_bound=True)
    lower = points.CACHE_MISSES
    assert incomplete([missed, other], of(missed, other), "dram") == f"{lower}; {said}"


def test_bytes_of_ranks_that_compute_nothing_are_not_held_against_the_others_flops() -> None:
    silent = evidence(key="worker:1", dram=counted(9e9))
    found = of(evidence(kernels=kernels([10**10] * 10), dram=counted(1e9)), silent)
    assert number(found["intensity.dram"]) == pytest.approx(10)


def test_ranks_of_which_nothing_is_known_are_not_counted() -> None:
    known = evidence(kernels=kernels([10**10] * 10), dram=counted(1e9))
    assert (
        of(known, evidence(key="worker:1"))["intensity.dram"].reason == "the node's, shared out by CPU time"
    )


def test_traffic_that_a_profiler_counted_of_some_ranks_is_not_that_of_the_role() -> None:
    profiled = evidence(kernels=kernels([10**10] * 10, dram=ints(*[10**9] * 10)))
    other = evidence(key="worker:1", kernels=kernels([10**10] * 10))
    assert of(profiled, other)["intensity.dram"].value is None
    assert number(of(profiled)["intensity.dram"]) == 10


def test_ranks_of_which_never_both_are_known_have_no_ratio() -> None:
    found = of(evidence(kernels=kernels([10**10] * 10)), evidence(key="worker:1", dram=counted(1e9)))
    assert found["intensity.dram"].value is None and found["intensity.dram"].reason


def test_counted_flops_go_with_the_bytes_of_the_same_ranks() -> None:
    flops = CountedFlops(counted(4e9))
    found = of(evidence(counted_flops=flops, dram=counted(1e9)), evidence(counted_flops=flops))
    assert number(found["intensity.dram"]) == pytest.approx(4)


@given(st.lists(st.tuples(st.integers(1, 10**12), st.integers(1, 10**12)), min_size=1, max_size=6))
def test_ratio_of_a_role_lies_between_those_of_its_ranks(each: list[tuple[int, int]]) -> None:
    ranks = [evidence(kernels=kernels([f] * 10), dram=counted(float(b))) for f, b in each]
    ratios = [f / b for f, b in each]
    found = number(of(*ranks)["intensity.dram"])
    assert min(ratios) * (1 - 1e-9) <= found <= max(ratios) * (1 + 1e-9)


# -- cache misses -------------------------------------------------------------------------------------------


def missing(per_window: float, traffic: int) -> RankEvidence:
    return evidence(
        kernels=kernels([10**9] * 10, [traffic] * 10), dram=counted(per_window), dram_is_bound=True
    )


@pytest.mark.parametrize(
    "misses, traffic, level, intensity, bound",
    [
        (1e7, 10**9, "minimum", 1, "dram.triad"),  # its tensors were prefetched
        (1e9, 10**7, "dram", 1, "dram.triad"),  # it moved much in addition to its tensors
    ],
)
def test_of_misses_and_tensors_the_larger_bytes_count(
    misses: float, traffic: int, level: str, intensity: float, bound: str
) -> None:
    rank = missing(misses, traffic)
    found = of(rank)
    assert placed([rank], found)[:2] == (level, found[f"intensity.{level}"])
    assert number(found[f"intensity.{level}"]) == pytest.approx(intensity)
    assert number(found["attainable_flops_per_second"]) == pytest.approx(1e11)
    _, accesses = work_and_memory([rank], P)
    assert accesses.value.value == pytest.approx(1e9 / 64)


def test_traffic_that_a_profiler_counted_goes_before_misses() -> None:
    made = kernels([10**9] * 10, [10**9] * 10, dram=ints(*[10**7] * 10))
    rank = evidence(kernels=made, dram=counted(1e8), dram_is_bound=True)
    found = of(rank)
    assert placed([rank], found)[0] == "dram"
    assert number(found["intensity.dram"]) == pytest.approx(100)


# -- whose roof ---------------------------------------------------------------------------------------------


def test_flops_of_kernels_go_before_counted_ones() -> None:
    recorded = evidence(kernels=kernels([100]))
    by_counter = evidence(counted_flops=CountedFlops(counted(1.0)))
    cut = evidence(kernels=kernels([100], complete=False))
    assert has_flops([recorded, by_counter, cut]) == [True, False, False]
    assert has_flops([by_counter, cut]) == [True, False]
    assert has_flops([cut, evidence(steps=NONE)]) == [False, False]


def test_roof_is_said_to_be_of_the_ranks_whose_flops_are_known() -> None:
    found = of(evidence(kernels=kernels([10**10], [10**9])), evidence(key="worker:1"), limits=[NODE1])
    assert number(found["roof_share"]) == pytest.approx(0.01)
    assert found["roof_share"].reason.startswith(origins.of_ranks_with_flops(1, 2))
    assert of(evidence(kernels=kernels([10**10], [10**9])))["roof_share"].reason == "of the whole node"
