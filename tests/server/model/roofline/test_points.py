from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline.answers.machines import Ceiling
from roofline.answers.values import Provenance, Scope, Value
from roofline_server.model.roofline.points import (
    Level,
    Named,
    against,
    flops_spread,
    intensity_spread,
    levels,
    nodes,
    plain,
    point,
    spread,
)
from roofline_server.model.roofline.roofs import Limits, limits
from roofline_server.model.roofline.summary import placed, summarize
from roofline_server.records import ABSENT

from ...builders import DRAM, PEAK_F32
from ..evidence import evidence, ints, kernels, number, of, steps

GIB = 2.0**30
NODE1 = limits("node1", "", [PEAK_F32, DRAM], "f32")
WHO = Named("worker:0", "rank", "worker", "worker:0", "node1")
RATES = st.floats(1e6, 1e16)
SECOND = Value(1.0, "s", Provenance.MEASURED, Scope.PROCESS)


def seen(number: float, unit: str) -> Value:
    return Value(number, unit, Provenance.MEASURED, Scope.PROCESS)


def made(peak: float, bandwidth: float, host: str = "n") -> Limits:
    return limits(host, "", [PEAK_F32._replace(value=peak), DRAM._replace(value=bandwidth)], "f32")


# -- against the roof -------------------------------------------------------------------------------------


def test_vgg16_of_the_seed_paper_reaches_92_percent_of_its_roof() -> None:
    # Javed et al. 2019: with MKL on 4 workers 1200 GFLOP/s of 652.8 x 2, compute-bound.
    paper = made(2 * 652.8e9, 119.21 * GIB)
    held = against(seen(20.0, "FLOP/byte"), seen(1200e9, "FLOP/s"), "dram", [paper])
    assert number(held.share) == pytest.approx(0.92, abs=0.002)
    assert number(held.headroom) == pytest.approx(1305.6 / 1200)
    assert (held.bound, held.why) == ("peak.f32.512", "")


@pytest.mark.parametrize("intensity, attainable", [(2.0, 256.0016e9), (4.2, 537.6034e9)])
def test_vgg16_by_its_intensity_would_be_bound_by_memory(intensity: float, attainable: float) -> None:
    # Its intensity over all bytes that the paper counts: 2.0 with parameter servers, 4.2 with Horovod.
    held = against(
        seen(intensity, "FLOP/byte"), seen(1e11, "FLOP/s"), "dram", [made(2 * 652.8e9, 119.21 * GIB)]
    )
    assert number(held.attainable) == pytest.approx(attainable, rel=1e-5)
    assert held.bound == "dram.triad"


@given(RATES, RATES, st.floats(1e-6, 1e6), st.floats(1, 1e16))
def test_headroom_says_how_far_the_lowest_ceiling_is(
    peak: float, bandwidth: float, intensity: float, reached: float
) -> None:
    held = against(seen(intensity, "FLOP/byte"), seen(reached, "FLOP/s"), "dram", [made(peak, bandwidth)])
    assert number(held.attainable) == pytest.approx(min(peak, intensity * bandwidth))
    assert number(held.headroom) * reached == pytest.approx(number(held.attainable))
    assert number(held.headroom) * number(held.share) == pytest.approx(1)
    assert (number(held.headroom) >= 1) == (reached <= number(held.attainable))


@given(st.permutations([(1e12, 1e11), (2e12, 5e10), (4e12, 3e11)]))
def test_roofs_of_several_nodes_add_up_in_any_order(machines: list[tuple[float, float]]) -> None:
    every = [made(*machine, host=str(i)) for i, machine in enumerate(machines)]
    held = against(seen(2.0, "FLOP/byte"), seen(1e10, "FLOP/s"), "dram", every)
    assert number(held.attainable) == pytest.approx(2e11 + 1e11 + 6e11)
    assert held.attainable.reason == "of all 3 nodes of the role"


@pytest.mark.parametrize(
    "intensity, reached, why",
    [
        (Value(None, "FLOP/byte", reason="no traffic"), seen(1e9, "FLOP/s"), "no traffic"),
        (seen(1.0, "FLOP/byte"), Value(None, "FLOP/s", reason="it took no time"), "it took no time"),
        (seen(1.0, "FLOP/byte"), seen(-1e9, "FLOP/s"), "-1 GFLOP/s: a counter ran backwards"),
        (seen(-2.0, "FLOP/byte"), seen(1e9, "FLOP/s"), "-2 FLOP/byte: a counter ran backwards"),
        (seen(0.0, "FLOP/byte"), seen(0.0, "FLOP/s"), "it did no FLOPs"),
    ],
)
def test_what_cannot_be_held_says_why(intensity: Value, reached: Value, why: str) -> None:
    held = against(intensity, reached, "dram", [NODE1])
    assert (held.bound, held.why) == ("", why)
    for absent in (held.attainable, held.headroom, held.share):
        assert (absent.value, absent.reason) == (None, why)


def test_one_place_without_ceilings_leaves_all_without_a_roof() -> None:
    bare = limits("node2", "", [], "f32")
    held = against(seen(1.0, "FLOP/byte"), seen(1e9, "FLOP/s"), "dram", [NODE1, bare])
    assert held.attainable.value is None
    assert "node2" in held.why and "node1" not in held.why
    assert (
        against(seen(1.0, "FLOP/byte"), seen(1e9, "FLOP/s"), "dram", []).why == "it is not known where it ran"
    )


def test_note_on_the_network_is_for_points_of_the_network() -> None:
    net = Ceiling("net.tcp", "network", "network", "", 0, 1e9, "byte/s", 0, "", 0)
    noted = limits("n", "", [PEAK_F32, DRAM, net], "f32")._replace(network_note="measured elsewhere")
    x, y = seen(1.0, "FLOP/byte"), seen(1e8, "FLOP/s")
    assert "measured elsewhere" in against(x, y, "network", [noted]).headroom.reason
    assert "measured elsewhere" not in against(x, y, "dram", [noted]).headroom.reason


def test_share_of_the_roof_in_the_report_is_that_of_the_point() -> None:
    rank = evidence(kernels=kernels([10**10, 3 * 10**10], [10**9, 10**9]))
    summary = summarize([rank], [NODE1], Scope.PROCESS)
    name, intensity, reached = placed([rank], summary.values)
    found = point(WHO, Level(name, intensity), reached, [NODE1], SECOND)
    assert number(found.headroom) == pytest.approx(1 / number(summary.values["roof_share"]))
    assert found.attainable == summary.values["attainable_flops_per_second"]
    assert found.bound == summary.bound == "dram.triad"


def test_roof_of_a_part_of_the_cpus_says_of_which() -> None:
    x, y = seen(1.0, "FLOP/byte"), seen(1e9, "FLOP/s")
    few = NODE1._replace(part="4 of 128 CPUs")
    assert against(x, y, "dram", [few]).attainable.reason.startswith("of 4 of 128 CPUs")
    assert "of node1 4 of 128 CPUs" in against(x, y, "dram", [few, NODE1]).attainable.reason


def test_gpus_of_a_node_share_its_one_network() -> None:
    # 8 GPUs of 10 TFLOP/s behind a NIC of 1 GB/s: at 2000 FLOP a byte 2 TFLOP/s, and not 8 times that.
    net = Ceiling("net.tcp", "network", "network", "", 0, 1e9, "byte/s", 0, "", 0)

    def gpu(host: str, at: int) -> Limits:
        device = f"gpu {at}"
        return limits(host, device, [PEAK_F32._replace(device=device, value=1e13), net], "f32")

    x, reached = seen(2000.0, "FLOP/byte"), seen(1e12, "FLOP/s")
    one_node = [gpu("n", at) for at in range(8)]
    held = against(x, reached, "network", one_node)
    assert number(held.attainable) == pytest.approx(2e12)
    assert (held.bound, number(held.headroom)) == ("net.tcp", pytest.approx(2))
    assert "share" in held.attainable.reason
    (together,) = nodes(one_node)
    assert together.ridge("network") == pytest.approx(8e4)
    two = against(x, reached, "network", [*one_node, gpu("m", 0)])
    assert number(two.attainable) == pytest.approx(2e12 + 2e12)
    flat = against(seen(1e6, "FLOP/byte"), reached, "network", one_node)
    assert (number(flat.attainable), flat.bound) == (pytest.approx(8e13), "peak.f32.512")


# -- levels -----------------------------------------------------------------------------------------------


def test_levels_are_those_whose_bytes_are_known() -> None:
    k = kernels(
        [1000, 3000], [10, 30], dram=ints(100, 300), levels={"l1": ints(400, 600), "l2": ints(1, ABSENT)}
    )
    rank = evidence(kernels=k)
    found = {
        le.name: le.intensity.value for le in levels([rank], summarize([rank], [], Scope.PROCESS).values, "")
    }
    assert found == {"minimum": 100, "l1": 4, "dram": 10}
    gpu = evidence(kernels=k._replace(on_gpu=True))
    values = summarize([gpu], [], Scope.PROCESS).values
    assert [le.name for le in levels([gpu], values, "gpu 0")] == ["minimum", "l1", "hbm"]


def test_cache_counted_for_one_rank_of_two_is_no_level_of_both() -> None:
    one = evidence(kernels=kernels([1000], levels={"l1": ints(400)}))
    ranks = [one, evidence(kernels=kernels([1000]))]
    found = levels(ranks, summarize(ranks, [], Scope.ROLE).values, "")
    assert [le.name for le in found] == ["minimum"]


def test_rank_of_which_nothing_is_known_has_no_levels() -> None:
    assert levels([evidence()], summarize([evidence()], [], Scope.PROCESS).values, "") == []


# -- spread -----------------------------------------------------------------------------------------------


def test_spread_is_quantiles_over_steps() -> None:
    found = spread(np.arange(101.0))
    assert found == (5, 25, 50, 75, 95, 101)


@given(st.lists(st.floats(1e-3, 1e12), min_size=2, max_size=40))
def test_quantiles_are_in_order_and_within_the_numbers(numbers: list[float]) -> None:
    found = spread(np.array(numbers))
    assert found
    assert list(found[:5]) == sorted(found[:5])
    assert min(numbers) <= found.p5 and found.p95 <= max(numbers)


def test_one_step_has_no_spread() -> None:
    rank = evidence(kernels=kernels([100]))
    assert spread(np.array([1.0])) is spread(np.array([1.0, math.nan])) is None
    assert flops_spread([rank]) is None
    assert intensity_spread([rank], [ints(10)]) is None


def test_steps_without_time_or_bytes_are_left_out_of_the_spread() -> None:
    k = kernels([100, 200, 400], [0, 10, 10])
    k.duration_ns[2] = 0
    rank = evidence(kernels=k)
    rates, found = flops_spread([rank]), intensity_spread([rank], [k.bytes])
    assert rates and (rates.count, rates.p50) == (2, 150)
    assert found and (found.count, found.p50) == (2, 30)


def test_rates_of_ranks_add_up_step_by_step() -> None:
    one = evidence(kernels=kernels([100, 200, 300], step=ints(0, 1, 2)))
    other = evidence(kernels=kernels([30, 20, 10], step=ints(1, 2, 3)))
    found = flops_spread([one, other])
    assert found and found.count == 2 and found.p50 == pytest.approx((230 + 320) / 2)


@pytest.mark.parametrize("more", [{"step": ints(1, 1)}, {"step": None}, {"step": ints(7, 8)}])
def test_steps_that_do_not_belong_together_make_no_sum(more: dict[str, Any]) -> None:
    one = evidence(kernels=kernels([100, 200], step=ints(0, 1)))
    assert flops_spread([one, evidence(kernels=kernels([100, 200], **more))]) is None
    assert flops_spread([one, evidence()]) is None


def test_steps_at_different_times_make_no_sum() -> None:
    made = kernels([100, 200], step=ints(0, 1))
    one, later = (evidence(kernels=made, steps=steps((0, t, t + 1), (1, t + 1, t + 2))) for t in (0, 9))
    assert flops_spread([one, one])
    assert flops_spread([one, later]) is None


def test_intensity_of_ranks_is_pooled() -> None:
    ranks = [evidence(kernels=kernels([100, 200])), evidence(kernels=kernels([300, 400]))]
    found = intensity_spread(ranks, [ints(10, 10), ints(10, 10)])
    assert found and (found.count, found.p50) == (4, 25)
    assert intensity_spread(ranks, [None, None]) is None


def test_intensity_over_tensor_bytes_is_of_the_flops_that_have_bytes() -> None:
    ranks = [evidence(kernels=kernels([100, 400], [10, 10], unsized_flops=ints(0, 300)))]
    (least,) = levels(ranks, of(*ranks), "")
    found = intensity_spread(ranks, least.steps, least.flops)
    assert found and (found.p5, found.p95, least.intensity.value) == (10, 10, 10)


# -- points -----------------------------------------------------------------------------------------------


def test_of_several_gpus_a_point_is_what_one_reached_in_the_mean() -> None:
    def gpu(number: int) -> Limits:
        device = f"gpu {number}"
        hbm = DRAM._replace(level="hbm", device=device, value=1e12)
        return limits("n", device, [PEAK_F32._replace(device=device), hbm], "f32")

    level = Level("hbm", seen(1.0, "FLOP/byte"))
    found = point(
        WHO, level, seen(1e12, "FLOP/s"), [gpu(0), gpu(1)], SECOND, spreads=(None, spread(np.arange(5.0)))
    )
    assert (found.device, found.flops_per_second.value, found.attainable.value) == ("gpu 0", 5e11, 1e12)
    assert found.headroom.value == 2
    assert found.flops_spread and found.flops_spread.p50 == 1


@pytest.mark.parametrize(
    "flops, moved, lasted, why",
    [
        (1e9, 0, 1.0, "no bytes that it moved were counted"),
        (1e9, 1e8, 0, "it took no time"),
        (-1e9, 1e8, 1.0, "-1 GFLOP/s: a counter ran backwards"),
        (0, 1e8, 1.0, "it did no FLOPs"),
    ],
)
def test_point_of_nonsense_says_what_is_wrong(flops: float, moved: float, lasted: float, why: str) -> None:
    found = plain(WHO, "minimum", flops, moved, lasted, [NODE1], False)
    assert (found.words, found.bound, found.headroom.value) == (why, "", None)
    assert found.time.value == lasted


def test_point_of_numbers_has_its_roof_and_words() -> None:
    found = plain(WHO, "dram", 1e10, 1e10, 1.0, [NODE1], counted=True)
    assert (found.intensity.value, found.flops_per_second.value, found.attainable.value) == (1, 1e10, 1e11)
    assert (found.precision, found.bound, found.level) == ("f32", "dram.triad", "dram")
    assert found.words.startswith("at best memory-bound on DRAM, 10x below the roof: ")
    assert found.flops_per_second.provenance == Provenance.MEASURED
    shapes = plain(WHO, "dram", 1e10, 1e10, 1.0, [NODE1], counted=False)
    assert (shapes.flops_per_second.provenance, shapes.intensity.provenance) == (
        Provenance.ANALYTIC,
        Provenance.ESTIMATED,
    )
    least = plain(WHO, "minimum", 1e10, 1e10, 1.0, [NODE1], counted=False)
    assert least.intensity.provenance == Provenance.ANALYTIC
    least_of_counted = plain(WHO, "minimum", 1e10, 1e10, 1.0, [NODE1], counted=True)
    assert least_of_counted.intensity.provenance == Provenance.ANALYTIC, "nobody measured the bytes"
    assert "if its tensors come from there, 10x below" in least.words
