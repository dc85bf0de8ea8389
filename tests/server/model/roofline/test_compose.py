from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline.answers.values import Provenance, Scope, Value, value
from roofline_server.model.evidence import CountedFlops, CounterEvidence
from roofline_server.model.roofline.compose import Part, apart, parted, time
from roofline_server.model.roofline.flop_parts import Executed, by_precision, by_width, width_of
from roofline_server.model.roofline.traffic_parts import traffic, work_and_memory
from roofline_server.records import ABSENT
from roofline_server.sentences.breakdowns import accesses, wider_vectors

from ...builders import S
from ..evidence import evidence, ints, kernels, steps

P = Scope.PROCESS
WIDE = {"f32": 512, "f64": 512}


def byte(number: float | None) -> Value:
    return value(number, "byte", Provenance.MEASURED, P)


def numbers(parts: list[Part]) -> dict[str, float | None]:
    return {part.part: part.value.value for part in parts}


def shares(parts: list[Part]) -> dict[str, float | None]:
    return {part.part: part.share.value for part in parts}


def counted(windows: int = 10, per_window: float = 100.0, **by: float) -> CountedFlops:
    named = {name.replace("_", "."): flops for name, flops in by.items()}
    return CountedFlops(CounterEvidence(sum(by.values()), 10.0, windows, per_window), by=named)


# -- laws ---------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e18), min_size=1, max_size=12).filter(lambda x: sum(x) > 0))
def test_shares_of_parts_add_up_to_one(sizes: list[float]) -> None:
    found = parted({str(n): byte(size) for n, size in enumerate(sizes)})
    assert sum(part.share.value or 0.0 for part in found) == pytest.approx(1)


@given(
    st.dictionaries(st.sampled_from(("f32_scalar", "f32_256", "f64_512", "all_all")), st.integers(0, 10**15)),
    st.floats(1, 1e15),
)
def test_widths_and_precisions_add_up_to_what_was_counted(by: dict[str, float], per_step: float) -> None:
    rank = evidence(counted_flops=counted(per_window=per_step, **by))
    for parts in (by_width([rank], P, (), WIDE), by_precision([rank], P)):
        if sum(by.values()):
            assert sum(part.value.value or 0.0 for part in parts) == pytest.approx(per_step)
            assert sum(part.share.value or 0.0 for part in parts) == pytest.approx(1)
        else:
            assert numbers(parts) == {"all": None}


@given(st.lists(st.tuples(st.integers(0, 10**15), st.integers(0, 10**15)), min_size=1, max_size=9))
def test_precisions_of_kernels_add_up_to_all_flops(windows: list[tuple[int, int]]) -> None:
    single, double = ints(*(f for f, _ in windows)), ints(*(d for _, d in windows))
    made = kernels([f + d for f, d in windows], by_precision={"f32": single, "f64": double})
    parts = by_precision(
        [evidence(kernels=made, steps=steps(*((k, k, k + 1) for k in range(len(windows)))))], P
    )
    whole = float(np.mean(single + double))
    assert sum(part.value.value or 0.0 for part in parts) == pytest.approx(whole)
    if whole:
        assert sum(part.share.value or 0.0 for part in parts) == pytest.approx(1)


# -- parts --------------------------------------------------------------------------------------------------


def test_part_nobody_measured_has_no_share_and_the_others_make_the_whole() -> None:
    found = parted({"a": byte(3), "b": Value(None, "byte", reason="no counter"), "c": byte(1)})
    assert shares(found) == {"a": 0.75, "b": None, "c": 0.25}
    assert found[1].share.reason == "no counter"


def test_counter_that_ran_backwards_has_no_shares() -> None:
    found = parted({"a": byte(3), "b": byte(-1)})
    assert shares(found) == {"a": None, "b": None}
    assert "backwards" in found[0].share.reason


def test_parts_of_nothing_have_no_shares() -> None:
    assert shares(parted({"a": byte(0)})) == {"a": None}


def test_parts_of_no_whole_say_so() -> None:
    (only,) = apart({"dram": byte(3)})
    assert only.share.value is None and "add up" in only.share.reason


# -- widths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("implementation", "bits"),
    [
        ("jit:avx512_core", 512),
        ("brg_matmul:avx10_1_512", 512),
        ("brgemm:avx10_1_512_amx", 0),
        ("brgconv:avx512_core_amx", 0),
        ("jit:avx2", 256),
        ("brgemm:avx2_vnni_2", 256),
        ("jit:sse41", 128),
        ("jit:sve_256", 256),
        ("gemm:jit", -1),
        ("ref:any", -1),
        ("SGEMM", -1),
        ("", -1),
    ],
)
def test_name_of_an_implementation_tells_how_wide_its_vectors_can_be(implementation: str, bits: int) -> None:
    assert width_of(implementation) == bits


def test_counted_widths_are_scaled_to_a_step_and_told_from_narrow_to_wide() -> None:
    made = counted(per_window=100.0, f32_512=600.0, f32_scalar=100.0, f32_256=300.0)
    found = by_width([evidence(counted_flops=made)], P, (), WIDE)
    assert numbers(found) == {"f32 scalar": 10, "f32 256-bit": 30, "f32 512-bit": 60}
    assert list(numbers(found)) == ["f32 scalar", "f32 256-bit", "f32 512-bit"]
    assert found[0].value.provenance == Provenance.MEASURED
    assert found[0].words == wider_vectors(512, "f32", 0.4)
    assert (found[1].words, found[2].words) == (found[0].words, "")


def test_where_the_ceilings_are_no_wider_nothing_is_said() -> None:
    found = by_width([evidence(counted_flops=counted(f32_256=1.0))], P, (), {"f32": 256})
    assert found[0].words == ""


def test_widths_of_kernels_are_an_estimate() -> None:
    executed = [
        Executed("jit:avx512_core", "f32", 60),
        Executed("jit:avx2", "f32", 30),
        Executed("SGEMM", "f32", 10),
        Executed("brgemm:avx10_1_512_amx", "bf16", 5),
    ]
    found = by_width([evidence()], P, executed, WIDE)
    assert numbers(found) == {"bf16 AMX": 5, "f32 256-bit": 30, "f32 512-bit": 60, "f32, width not known": 10}
    assert {part.value.provenance for part in found} == {Provenance.ESTIMATED}
    assert "at most" in found[0].value.reason


def test_counters_go_before_names() -> None:
    rank = evidence(counted_flops=counted(f64_128=1.0))
    assert list(numbers(by_width([rank], P, [Executed("jit:avx2", "f32", 5)], {}))) == ["f64 128-bit"]


def test_amx_that_no_event_counts_is_said() -> None:
    made = counted(f32_512=1.0)._replace(amx_busy=True)
    (only,) = by_width([evidence(counted_flops=made)], P, (), {})
    assert "AMX" in only.value.reason


def test_gpu_has_no_widths() -> None:
    (only,) = by_width([evidence(kernels=kernels([5], on_gpu=True))], P, (), {})
    assert only.value.value is None and "GPU" in only.value.reason


def test_without_flops_the_reason_is_told() -> None:
    rank = evidence(reasons={"flops": "not started by `roofline-agent run`"})
    for parts in (by_width([rank], P, (), {}), by_precision([rank], P)):
        assert [(p.value.value, p.value.reason) for p in parts] == [
            (None, "not started by `roofline-agent run`")
        ]


def test_flops_without_precision_are_a_part() -> None:
    made = kernels([10, 10], by_precision={"f32": ints(8, 8)})
    assert numbers(by_precision([evidence(kernels=made)], P)) == {"f32": 8, "not known": 2}


def test_ranks_are_pooled_over_all_their_steps() -> None:
    first, second = evidence(kernels=kernels([10, 10, 10])), evidence(kernels=kernels([50]))
    assert numbers(by_precision([first, second], Scope.ROLE)) == {"f32": 20}


def test_steps_not_watched_do_not_count() -> None:
    rank = evidence(kernels=kernels([10], complete=False))
    (only,) = by_precision([rank], P)
    assert only.value.value is None and "begin to end" in only.value.reason


# -- traffic ------------------------------------------------------------------------------------------------


def ran(**more: Any) -> Any:
    return evidence(kernels=kernels([640] * 10, [64] * 10, **more))


def test_levels_do_not_add_up() -> None:
    tcp = CounterEvidence(70, 10, 10, 7)
    rank = ran(dram=ints(*[128] * 10), levels={"l1": ints(*[900] * 10), "l2": ints(*[300] * 10)}, on_gpu=True)
    found = traffic([rank._replace(sent=tcp, received=tcp)], P)
    assert numbers(found) == {
        "l1": 900,
        "l2": 300,
        "hbm": 128,
        "minimum": 64,
        "network sent": 7,
        "network received": 7,
    }
    assert {part.share.value for part in found} == {None}


def test_level_counted_of_some_kernels_only_is_absent() -> None:
    found = traffic([ran(levels={"l1": ints(*[900] * 9, ABSENT)})], P)
    assert numbers(found)["l1"] is None


def test_traffic_nobody_counted_is_absent_and_why() -> None:
    rank = evidence(reasons={"dram": "no PMU", "tcp": "no sock_diag", "flops": "not wrapped"})
    found = {part.part: part.value.reason for part in traffic([rank], P)}
    assert found == {
        "dram": "no PMU",
        "minimum": "not wrapped",
        "network sent": "no sock_diag",
        "network received": "no sock_diag",
    }


def test_memory_accesses_are_cache_lines_of_counted_traffic() -> None:
    rank = ran()._replace(dram=CounterEvidence(12_800, 10, 10, 1280.0), dram_is_bound=False)
    found = work_and_memory([rank], P)
    assert numbers(found) == {"FLOPs": 640, "memory accesses": 20}
    assert "32 FLOPs an access" in found[1].words
    assert found[1].value.provenance == Provenance.ESTIMATED


def test_memory_accesses_of_a_gpu_are_sectors() -> None:
    found = work_and_memory([ran(dram=ints(*[128] * 10), on_gpu=True)], P)
    assert numbers(found)["memory accesses"] == 4


def test_without_counters_accesses_are_those_of_the_tensors() -> None:
    found = work_and_memory([ran()], P)
    assert numbers(found)["memory accesses"] == 1
    assert found[1].words == accesses("bytes of tensors", 64, 10.0)


def test_nothing_is_said_of_what_is_absent() -> None:
    for parts in (work_and_memory([evidence()], P), traffic([evidence()], P)):
        assert [(part.value.value, part.words) for part in parts] == [(None, "")] * len(parts)


# -- time ---------------------------------------------------------------------------------------------------


def test_phases_and_what_is_left_make_the_step() -> None:
    two = steps((1, 0, 10), (2, 10, 20))
    columns = {"phase.input.ns": ints(1 * S, 3 * S), "phase.forward.ns": ints(2 * S, 2 * S)}
    found = time([evidence(steps=two, columns=columns)], P)
    known = {name: number for name, number in numbers(found).items() if number is not None}
    assert known == {"input": 2, "forward": 2, "other": 6}
    assert shares(found)["other"] == pytest.approx(0.6)
    assert sum(share or 0.0 for share in shares(found).values()) == pytest.approx(1)


def test_without_phases_the_time_has_no_parts() -> None:
    found = time([evidence(reasons={"phases": "no hook"})], P)
    assert set(numbers(found).values()) == {None}
    assert {part.value.reason for part in found if part.part == "input"} == {"no hook"}
