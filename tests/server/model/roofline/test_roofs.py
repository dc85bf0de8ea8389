from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline.answers.machines import Ceiling
from roofline.answers.values import Provenance
from roofline_server.model.roofline.roofs import (
    HIGHEST_INTENSITY,
    LOWEST_INTENSITY,
    MINIMUM,
    Limits,
    label,
    limits,
    lines,
)
from roofline_server.sentences import rooflines as texts

from ...builders import DRAM, PEAK_F32, PEAK_F64

GIB = 2.0**30
RATES = st.floats(1e6, 1e16)


def compute(value: float, precision: str = "f32", width: int = 256, device: str = "") -> Ceiling:
    name = f"peak.{precision}.{width}" if width else f"peak.{precision}"
    return Ceiling(name, "compute", "", precision, width, value, "FLOP/s", 0, "", 0, device)


def memory(value: float, level: str = "dram", device: str = "") -> Ceiling:
    return Ceiling(f"{level}.triad", "memory", level, "", 0, value, "byte/s", 0, "", 0, device)


def network(value: float, peer: str = "") -> Ceiling:
    return Ceiling("net.tcp", "network", "network", "", 0, value, "byte/s", 0, "", 0, peer=peer)


def roof(peak: float, bandwidth: float) -> Limits:
    return limits("node1", "", [compute(peak), memory(bandwidth)], "f32")


def reached(made: Limits, intensity: float, level: str = MINIMUM) -> float:
    found = made.attainable(intensity, level)
    assert found is not None
    return found


def ridge(made: Limits, level: str = MINIMUM) -> float:
    found = made.ridge(level)
    assert found is not None
    return found


# The machine of Javed et al. 2019: 2 sockets x 12 cores x 3.7 GHz x 8 single precision FLOP a cycle, and as
# measured 652.8 x 2 with 512 bits; STREAM.
PEAK_256, PEAK_512, STREAM = 2 * 12 * 3.7e9 * 8, 2 * 652.8e9, 119.21 * GIB


def test_theoretical_peaks_of_the_seed_paper() -> None:
    assert pytest.approx(710.4e9) == PEAK_256
    assert pytest.approx(1305.6e9) == PEAK_512


@pytest.mark.parametrize("peak, balance", [(PEAK_256, 710.4 / 128.0008), (PEAK_512, 1305.6 / 128.0008)])
def test_ridge_points_of_the_seed_paper(peak: float, balance: float) -> None:
    assert ridge(roof(peak, STREAM)) == pytest.approx(balance, rel=1e-5)


def test_machine_of_the_seed_paper() -> None:
    paper = roof(PEAK_256, STREAM)
    assert reached(paper, 2.0) == pytest.approx(2 * STREAM)
    assert reached(paper, 4.2) == pytest.approx(4.2 * STREAM)
    assert reached(paper, 100) == pytest.approx(710.4e9)


def test_v100_of_the_time_based_roofline_paper() -> None:
    tensor = 80 * 8 * 1.312e9 * 4**3 * 2
    assert tensor == pytest.approx(107.479e12, rel=1e-5)
    assert ridge(roof(tensor, 828.8e9)) == pytest.approx(129.68, rel=1e-4)


# -- laws -------------------------------------------------------------------------------------------------


@given(RATES, RATES, st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_attainable_never_falls_with_intensity(
    peak: float, bandwidth: float, one: float, other: float
) -> None:
    lower, upper = sorted((one, other))
    made = roof(peak, bandwidth)
    assert reached(made, lower) <= reached(made, upper)


@given(RATES, RATES, RATES, RATES, st.floats(1e-6, 1e6))
def test_attainable_never_falls_with_a_ceiling(
    peak: float, more: float, bandwidth: float, faster: float, intensity: float
) -> None:
    low, high = sorted((peak, more)), sorted((bandwidth, faster))
    assert reached(roof(low[0], high[0]), intensity) <= reached(roof(low[1], high[0]), intensity)
    assert reached(roof(low[0], high[0]), intensity) <= reached(roof(low[0], high[1]), intensity)


@given(RATES, RATES, st.floats(1e-6, 1e6))
def test_attainable_is_under_both_ceilings_and_on_one(
    peak: float, bandwidth: float, intensity: float
) -> None:
    found = reached(roof(peak, bandwidth), intensity)
    assert found <= peak
    assert found <= intensity * bandwidth
    assert found in (peak, intensity * bandwidth)


@given(RATES, RATES)
def test_attainable_is_continuous_at_the_ridge(peak: float, bandwidth: float) -> None:
    made = roof(peak, bandwidth)
    assert reached(made, ridge(made) * (1 - 1e-9)) == pytest.approx(peak, rel=1e-8)
    assert reached(made, ridge(made) * (1 + 1e-9)) == pytest.approx(peak, rel=1e-8)


@given(RATES, RATES)
def test_memory_binds_left_of_the_ridge_and_compute_right(peak: float, bandwidth: float) -> None:
    made = roof(peak, bandwidth)
    left, right = made.binding(ridge(made) * 0.99), made.binding(ridge(made) * 1.01)
    assert left and right
    assert (left.kind, right.kind) == ("memory", "compute")


@given(
    st.lists(st.builds(memory, RATES, st.sampled_from(["l1", "l2", "l3", "dram", "network"])), max_size=12),
    st.lists(st.builds(compute, RATES, st.sampled_from(["f32", "f64", "bf16"])), max_size=8),
    st.sampled_from(["", "f32", "bf16", "f8_e4m3"]),
)
def test_no_line_of_a_roof_rises_above_another(
    slopes: list[Ceiling], flats: list[Ceiling], precision: str
) -> None:
    drawn = lines([*slopes, *flats], [precision] if precision else [], ["dram"])
    tops = [max(line.flops) for line in drawn if line.kind == "compute"]
    for line in drawn:
        assert line.intensity[0] < line.intensity[1]
        assert line.flops == sorted(line.flops)
        if tops and line.kind == "memory" and line.intensity[1] > 2 * LOWEST_INTENSITY:
            assert max(line.flops) <= max(tops) * (1 + 1e-9)


# -- which ceilings bind ----------------------------------------------------------------------------------


def test_highest_ceilings_make_the_roof() -> None:
    every = [compute(1e9), compute(3e9), compute(2e9), memory(1e8), memory(5e8), memory(1e12, "l1")]
    made = limits("n", "", every, "f32")
    assert made.compute and made.compute.value == 3e9
    assert {level: c.value for level, c in made.slopes.items()} == {"dram": 5e8, "l1": 1e12}


def test_memory_that_binds_is_that_of_the_bytes() -> None:
    made = limits("n", "", [compute(1e12), memory(1e11), memory(1e12, "l3"), network(1e9)], "f32")
    assert reached(made, 2, "dram") == reached(made, 2, MINIMUM) == 2e11
    assert reached(made, 2, "l3") == 1e12
    assert reached(made, 2, "network") == 2e9
    bound = [made.binding(2, level) for level in ("dram", "l3", "network")]
    assert [c.name if c else "" for c in bound] == ["dram.triad", "peak.f32.256", "net.tcp"]
    assert made.attainable(2, "l2") is None
    assert "no L2 bandwidth of n was measured" in made.lacks("l2")


def test_gpus_are_held_against_their_own_memory() -> None:
    made = limits("n", "gpu 0", [compute(1e13, device="gpu 0"), memory(1e12, "hbm", device="gpu 0")], "f32")
    assert reached(made, 2) == reached(made, 2, "hbm") == 2e12


def test_roof_is_of_the_precision_asked_for() -> None:
    found = [limits("n", "", [PEAK_F32, PEAK_F64, DRAM], p) for p in ("f32", "f64", "bf16", "")]
    assert [made.compute.name if made.compute else None for made in found] == [
        "peak.f32.512",
        "peak.f64.512",
        None,
        None,
    ]
    assert found[2].lacks() == texts.no_compute_ceiling("n", "", "bf16")
    assert "no precision has most of its FLOPs" in found[3].lacks()
    assert "INT8" in limits("n", "", [PEAK_F32, DRAM], "s8").lacks()


@pytest.mark.parametrize("precision", ["f8", "f8_e5m2"])
def test_kinds_of_fp8_share_a_roof_which_is_said(precision: str) -> None:
    known = [compute(1e15, "f8_e4m3", 0), compute(1e14, "bf16", 0), memory(3e12)]
    made = limits("n", "", known, precision)
    assert reached(made, 1e6) == 1e15 and made.lacks() == ""
    assert made.note.endswith("is compared with the ceiling of FP8 e4m3, which GPUs compute equally fast")
    assert [one.precision for one in lines(known, [precision], ["dram"]) if one.kind == "compute"] == [
        "f8_e4m3"
    ]
    own = limits("n", "", [*known, compute(9e14, precision, 0)], precision)
    assert (reached(own, 1e6), own.note) == (9e14, "")
    assert limits("n", "", known, "f8_e4m3").note == ""


def test_theoretical_peaks_do_not_bind() -> None:
    theory = compute(9e12)._replace(name="peak.f32.512.theory", provenance=Provenance.ANALYTIC)
    made = limits("n", "", [theory, compute(1e12), memory(1e11)], "f32")
    assert made.compute and made.compute.value == 1e12
    assert limits("n", "", [theory, memory(1e11)], "f32").compute is None
    assert limits(
        "n", "", [compute(1e12)._replace(provenance=Provenance.UNSPECIFIED), memory(1e11)], "f32"
    ).compute


def test_reported_ceilings_bind() -> None:
    told = compute(9e12)._replace(provenance=Provenance.REPORTED)
    assert limits("n", "", [told, memory(1e11)], "f32").compute == told


def test_what_one_core_reaches_is_no_ceiling_of_a_node_with_more() -> None:
    one = compute(9e12)._replace(name="peak.f32.256.one", threads=1)
    assert limits("n", "", [one, compute(1e12), memory(1e11)], "f32", cpus=8).compute == compute(1e12)
    assert limits("n", "", [one, memory(1e11)], "f32", cpus=8).compute is None


def test_ceilings_of_the_node_are_those_of_most_cpus() -> None:
    few, many = compute(9e12)._replace(threads=4), compute(1e12)._replace(threads=8)
    found = limits("n", "", [few, many, memory(1e11)], "f32", cpus=8)
    assert (found.compute, found.part) == (many, "")
    assert [line.flops[0] for line in lines([few, many], ["f32"], [])] == [1e12]
    # Calibrated in a cpuset: that is the roof, and it is said.
    cpuset = limits("n", "", [few, memory(1e11)._replace(threads=4)], "f32", cpus=128)
    assert (cpuset.compute, cpuset.part) == (few, "4 of 128 CPUs")
    alone = limits("n", "", [compute(1e12)._replace(threads=1), memory(1e11)], "f32", cpus=64)
    assert (alone.lacks(), alone.part) == ("", "1 of 64 CPUs")
    theory = many._replace(threads=128, provenance=Provenance.ANALYTIC, name="peak.f32.512.theory")
    assert limits("n", "", [few, theory, memory(1e11)], "f32", cpus=128).compute == few


def test_cache_of_a_gpu_that_nothing_measures_is_said_to_be() -> None:
    gpu = [PEAK_F32._replace(device="gpu 0"), memory(1e12, "hbm")._replace(device="gpu 0")]
    found = limits("n", "gpu 0", gpu, "f32")
    assert "L1 bandwidth of a GPU is not measured" in found.lacks("l1")
    assert "run `roofline-agent calibrate`" in found.lacks("l2")
    assert "run `roofline-agent calibrate`" in limits("n", "", [PEAK_F32, DRAM], "f32").lacks("l1")


def test_launch_overhead_is_the_least() -> None:
    launch = Ceiling("launch", "overhead", "", "", 0, 4.2e-6, "s", 0, "", 0)
    slow = launch._replace(value=9e-6)
    assert limits("n", "", [slow, launch], "f32").launch == launch
    one_thread = launch._replace(threads=1)
    assert limits("n", "", [one_thread], "f32", cpus=8).launch == one_thread


@pytest.mark.parametrize(
    "ceilings",
    [
        [],
        [PEAK_F32],
        [DRAM],
        [compute(0), DRAM],
        [compute(math.nan), DRAM],
        [compute(math.inf), DRAM],
        [compute(-1), DRAM],
        [PEAK_F32, memory(1, "l1")],
    ],
)
def test_without_both_ceilings_nothing_binds_and_it_is_said(ceilings: list[Ceiling]) -> None:
    made = limits("node7", "", ceilings, "f32")
    assert (made.attainable(1), made.ridge(), made.binding(1)) == (None, None, None)
    assert "node7" in made.lacks() and "roofline-agent calibrate" in made.lacks()


def test_without_a_network_ceiling_it_says_of_which_node() -> None:
    assert limits("n", "", [PEAK_F32, DRAM], "f32").lacks("network") == "no network ceiling of n"


# -- lines ------------------------------------------------------------------------------------------------


def test_lines_meet_at_the_ridge() -> None:
    slope, flat = lines([PEAK_F32, DRAM], ["f32"], ["dram"])
    balance = PEAK_F32.value / DRAM.value
    assert slope.intensity == [LOWEST_INTENSITY, balance]
    assert slope.flops == [LOWEST_INTENSITY * DRAM.value, pytest.approx(PEAK_F32.value)]
    assert flat.intensity == [balance, HIGHEST_INTENSITY]
    assert flat.flops == [PEAK_F32.value, PEAK_F32.value]
    assert slope.binding and flat.binding
    assert (slope.level, slope.precision, flat.level, flat.precision, flat.width) == (
        "dram", "", "", "f32", 512
    )  # fmt: skip
    assert slope.provenance == flat.provenance == Provenance.MEASURED


def test_flat_part_begins_where_a_slow_network_meets_it() -> None:
    net = Ceiling("net.tcp", "network", "network", "", 0, 12.5e9, "byte/s", 0, "", 0, peer="b")
    bf16 = PEAK_F32._replace(name="peak.bf16", precision="bf16", value=990e12)
    slope, flat = lines([bf16, net], ("bf16",), ("network",))
    assert slope.intensity[1] == flat.intensity[0] == 79_200
    assert (slope.flops[1], flat.flops) == (990e12, [990e12, 990e12])
    assert flat.intensity[1] >= 2 * 79_200


def test_lower_ceilings_are_drawn_but_do_not_bind() -> None:
    ceilings = [compute(1e9, width=128), compute(4e9), memory(1e8), memory(1e10, "l2")]
    drawn = {line.name: line for line in lines(ceilings, ["f32"], ["dram"])}
    assert {name for name, line in drawn.items() if line.binding} == {"peak.f32.256", "dram.triad"}
    assert drawn.keys() == {"peak.f32.128", "peak.f32.256", "dram.triad", "l2.triad"}
    assert drawn["peak.f32.128"].intensity[0] == pytest.approx(0.1)


def test_every_level_that_is_asked_for_binds() -> None:
    ceilings = [compute(4e12), memory(1e11), memory(1e12, "l2"), memory(4e12, "l1"), network(1e9)]
    drawn = lines(ceilings, ["f32"], ["l1", "l2", "dram", "network"])
    assert all(line.binding for line in drawn)
    assert [(line.kind, line.level) for line in drawn] == [
        ("memory", "dram"),
        ("memory", "l2"),
        ("memory", "l1"),
        ("network", "network"),
        ("compute", ""),
    ]


def test_of_one_level_the_fastest_operation_is_drawn() -> None:
    read = memory(2e11)._replace(name="dram.read", operation="read")
    assert [line.name for line in lines([memory(1e11), read], ["f32"], ["dram"])] == ["dram.read"]


def test_ceiling_without_fma_is_drawn_inside_and_that_of_one_core_is_not() -> None:
    fma = compute(4e12, width=512)._replace(operation="fma")
    bare = fma._replace(name="peak.f32.512.mul_add", operation="mul_add", value=2e12)
    one = fma._replace(name="peak.f32.512.one", threads=1, value=5e11)
    theory = fma._replace(name="peak.f32.512.theory", provenance=Provenance.ANALYTIC, value=5e12)
    narrow = compute(2e12)._replace(operation="fma")
    inner = narrow._replace(name="peak.f32.256.mul_add", operation="mul_add", value=1e12)
    drawn = lines([fma, bare, one, theory, narrow, inner, memory(1e11)], ["f32"], ["dram"])
    assert {line.name: (line.binding, line.label) for line in drawn} == {
        "dram.triad": (True, "DRAM triad 100.0 GB/s"),
        "peak.f32.512": (True, "FP32 512-bit 4000.0 GFLOP/s"),
        "peak.f32.256": (False, "FP32 256-bit 2000.0 GFLOP/s"),
        "peak.f32.512.mul_add": (False, "FP32 512-bit without FMA 2000.0 GFLOP/s"),
        "peak.f32.512.theory": (False, "theoretical: FP32 512-bit 5000.0 GFLOP/s"),
    }


def test_mixed_precisions_have_a_roof_each() -> None:
    drawn = lines([compute(1e12, "bf16"), PEAK_F32, PEAK_F64, DRAM], ["f32", "bf16"], ["dram"])
    assert {line.precision for line in drawn if line.kind == "compute" and line.binding} == {"f32", "bf16"}
    assert "f64" not in {line.precision for line in drawn}


def test_without_a_precision_the_highest_of_each_is_drawn_and_none_binds() -> None:
    drawn = lines([PEAK_F32, compute(1e11), PEAK_F64, DRAM], [], ["dram"])
    assert {line.name: line.binding for line in drawn} == {
        "dram.triad": True,
        "peak.f32.512": False,
        "peak.f64.512": False,
    }


def test_lines_without_the_other_kind_span_the_picture() -> None:
    (slope,) = lines([DRAM], ["f32"], ["dram"])
    assert slope.intensity == [LOWEST_INTENSITY, HIGHEST_INTENSITY]
    (flat,) = lines([PEAK_F32], ["f32"], ["dram"])
    assert flat.intensity == [LOWEST_INTENSITY, HIGHEST_INTENSITY]
    assert lines([], [], []) == []


@pytest.mark.parametrize(
    "ceiling, said",
    [
        (PEAK_F64._replace(width=64), "FP64 scalar 2000.0 GFLOP/s"),
        (
            compute(1e12, "bf16", 512)._replace(name="peak.bf16.amx", operation="amx"),
            "BF16 AMX 1000.0 GFLOP/s",
        ),
        (compute(1e12, "bf16", 512)._replace(operation="dot"), "BF16 512-bit dot 1000.0 GFLOP/s"),
        (
            compute(1e15, "f8_e4m3", 0, "gpu 0")._replace(operation="gemm"),
            "FP8 e4m3 gemm 1000000.0 GFLOP/s",
        ),
        (
            compute(5e13, "tf32", 0, "gpu 0")._replace(operation="fma"),
            "TF32 50000.0 GFLOP/s",
        ),
        (memory(3e12, "hbm")._replace(operation="read"), "HBM read 3000.0 GB/s"),
    ],
)
def test_labels_say_precision_width_and_operation(ceiling: Ceiling, said: str) -> None:
    assert label(ceiling) == said


def test_label_of_a_network_names_the_peer() -> None:
    assert label(network(1.25e9, "node2")) == "network TCP to node2 1.25 GB/s"
