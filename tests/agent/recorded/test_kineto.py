from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.recording import Kernel
from roofline_agent.recorded.traces import kineto, operators
from roofline_agent.recorded.traces.collectives import message_bytes
from roofline_agent.recorded.traces.cupti import measured

from .traces import format_of, found_in, phases, read, trace, warned, whole


def found(events: list[dict[str, Any]], keep_launches: bool = False, **values: Any) -> Collector:
    return found_in(trace(events, **values), kineto.read, keep_launches)


def kernel(name: str, at_us: float, duration_us: float, **args: Any) -> dict[str, Any]:
    return whole(name, at_us, duration_us, cat="kernel", args=args)


def operator(name: str, at_us: float, duration_us: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return whole(name, at_us, duration_us, cat="cpu_op", args=args) | {"tid": tid}


def by_name(got: Collector) -> dict[str, Kernel]:
    return {one.name: one for one in got.kernels}


def test_kernels_are_summed_by_name() -> None:
    got = found(
        [
            kernel("gemm", 100, 5, grid=[2, 1, 1], block=[64, 1, 1]),
            kernel("gemm", 110, 7.5),
            kernel("relu", 130, 1),
        ]
    )
    assert by_name(got)["gemm"][:4] == ("gemm", 2, pytest.approx(12.5e-6), None)
    assert by_name(got)["relu"].time_s == pytest.approx(1e-6)
    assert got.facts["gpu_kernels"] == 3
    assert got.duration_s == pytest.approx(31e-6)


def test_launches_start_at_the_first_event_of_the_file() -> None:
    got = found([kernel("a", 1000, 5, grid=[2, 1, 1]), kernel("b", 990, 5)], keep_launches=True)
    launches = list(got.launches or [])
    assert [one.start_s for one in launches] == [0.0, pytest.approx(-10e-6)]
    assert (launches[0].library, launches[0].problem) == ("cuda", "grid [2, 1, 1]")


def test_times_are_microseconds_whatever_the_viewer_shows() -> None:
    for unit in ("ms", "ns"):
        got = found([kernel("a", 1000, 5)], displayTimeUnit=unit)
        assert got.kernels[0].time_s == pytest.approx(5e-6)


def test_numbers_may_be_text() -> None:
    got = found([kernel("a", 0, 0) | {"ts": "1712195495519689.25", "dur": "2.5"}])
    assert got.kernels[0].time_s == pytest.approx(2.5e-6)
    assert got.started_ns == 1712195495519689250


def test_base_time_stands_behind_the_events() -> None:
    base = 1719853884_000_000_000
    assert found([kernel("a", 1212.5, 5)], baseTimeNanoseconds=base).started_ns == base + 1_212_500
    assert found([kernel("a", 1212.5, 5)]).started_ns is None, "since boot: no date"


def test_cpu_time_and_gpu_time_are_not_added() -> None:
    got = found([operator("aten::mm", 1, 50), kernel("gemm", 30, 5), operator("aten::relu", 60, 9)])
    assert [one.name for one in got.kernels] == ["gemm"]
    assert got.warnings == []


def test_flops_of_operators_stand_beside_the_kernels_without_a_time() -> None:
    got = found([operator("aten::mm", 1, 50, flops=2_000_000), kernel("gemm", 30, 5)])
    assert by_name(got)["aten::mm"][1:4] == (1, None, 2e6)
    assert by_name(got)["gemm"][1:4] == (1, pytest.approx(5e-6), None)
    assert warned(got, "does not say which kernels")


def test_flops_do_not_count_twice_where_kernels_have_them() -> None:
    got = found([operator("aten::mm", 1, 50, flops=2_000_000), kernel("gemm", 30, 5, flops=2_000_000)])
    assert [(one.name, one.flops) for one in got.kernels] == [("gemm", 2e6)]
    assert warned(got, "operators have FLOPs too")


def test_operators_are_the_kernels_where_no_gpu_is() -> None:
    """aten::linear calls addmm, which owns what it calls; each time is told once."""
    nested = [
        operator("aten::linear", 0, 100),
        operator("aten::t", 5, 10),
        operator("aten::addmm", 20, 70, flops=1000),
        operator("aten::copy_", 30, 40),
        operator("aten::relu", 100, 30),
        operator("aten::linear", 10, 30, tid=2),
    ]
    for events in (nested, nested[::-1]):
        got = by_name(found(events))
        assert {name: round(one.time_s * 1e6) for name, one in got.items() if one.time_s is not None} == {
            "aten::linear": 20 + 30,
            "aten::t": 10,
            "aten::addmm": 70,
            "aten::relu": 30,
        }
        assert got["aten::addmm"].flops == 1000
    assert warned(found(nested), "no GPU kernel")


def test_operator_with_flops_here_and_none_there_loses_neither() -> None:
    got = by_name(found([operator("aten::mul", 0, 5, flops=100), operator("aten::mul", 10, 7)]))
    assert got["aten::mul"][1:4] == (1, pytest.approx(7e-6), None)
    assert got["aten::mul (with FLOPs)"][1:4] == (1, pytest.approx(5e-6), 100)


def test_operators_of_a_cpu_are_sent_each_at_its_time() -> None:
    """So that each step has its own FLOPs."""
    events = [operator("aten::mm", 1e6 * step, 5e5, flops=100 + step) for step in range(3)]
    got = found([*events, operator("aten::mm", 3e6, 10)], keep_launches=True)
    launches = [(one.name, one.start_s, one.flops, one.count) for one in got.launches or []]
    assert launches == [
        *(("aten::mm (with FLOPs)", pytest.approx(step), 100 + step, 1) for step in range(3)),
        ("aten::mm", pytest.approx(3), None, 1),
    ]
    assert by_name(got) == by_name(found([*events, operator("aten::mm", 3e6, 10)]))


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=30), st.integers(1, 40)
)
def test_times_of_nested_operators_add_up_to_the_busy_time(spans: list[tuple[int, int]], batch: int) -> None:
    """Whatever the nesting, as long as inner operators end with the outer one: nothing counts twice."""
    nested: list[tuple[int, int]] = []
    for begin, duration in sorted(spans):
        outer = [end for start, end in nested if start <= begin < end]
        nested.append((begin, min([begin + duration, *outer])))
    busy = len({at for begin, end in nested for at in range(begin, end)})
    events = [operator(f"op{at}", begin, end - begin) for at, (begin, end) in enumerate(nested)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators, "BATCH", batch)
        got = found(events)
    assert sum(one.time_s or 0 for one in got.kernels) == pytest.approx(busy * 1e-6)


def test_copies_are_phases_with_their_bytes() -> None:
    copy = {"cat": "gpu_memcpy", "args": {"bytes": 4096}}
    got = found(
        [
            kernel("a", 0, 1),
            whole("Memcpy HtoD (Pinned -> Device)", 1, 3, **copy),
            whole("Memcpy HtoD (Pageable -> Device)", 5, 4, **copy),
            whole("Memcpy DtoD (Device -> Device)", 9, 2, cat="gpu_memcpy"),
            whole("Memset (Device)", 12, 1, cat="gpu_memset", args={"bytes": 8}),
            whole("CopyHostToDevice", 20, 1, cat="gpu_memcpy", args={"kind": "HtoD"}),
        ]
    )
    assert phases(got) == {
        "memcpy HtoD": (3, 8e-6, None),
        "memcpy DtoD": (1, 2e-6, None),
        "memset": (1, 1e-6, 8),
    }
    assert warned(got, "only 2 of 3 events of memcpy HtoD have bytes")


NCCL = {"Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 1000, "Group size": 8}


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "nccl allreduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*, unsigned long)", "nccl reducescatter"),
        ("ncclAllGatherRingLLKernel_sum_i8(ncclColl)", "nccl allgather"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", "nccl sendrecv"),
        ("ncclDevKernel_Generic(ncclDevComm*)", "nccl other"),
    ],
)
def test_nccl_kernels_are_phases_by_kind(name: str, phase: str) -> None:
    got = found([kernel(name, 0, 20)])
    assert phases(got) == {phase: (1, 20e-6, None)}
    assert by_name(got)[name].time_s == pytest.approx(20e-6)


def test_collective_has_its_name_and_bytes_from_the_args() -> None:
    assert phases(found([kernel("ncclDevKernel_Generic()", 0, 20, **NCCL)])) == {
        "nccl allreduce": (1, 20e-6, 2000)
    }


def test_call_of_a_collective_is_not_its_time() -> None:
    call = whole(
        "nccl:all_reduce", 1, 3, cat="user_annotation", args={"Input Dims": [[10]], "Input type": ["float"]}
    )
    again = whole("nccl:all_reduce", 1, 30, cat="gpu_user_annotation")
    with_kernel = found([call, again, kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 5, 30)])
    assert phases(with_kernel) == {"nccl allreduce": (1, 30e-6, None)}
    assert phases(found([call])) == {"nccl allreduce (call)": (1, 3e-6, 40)}


def test_recorded_params_are_the_same_call_as_its_annotation() -> None:
    events = [
        operator("record_param_comms", 0, 9, **NCCL),
        whole("nccl:all_reduce", 1, 3, cat="user_annotation"),
    ]
    wait = operator("record_param_comms", 20, 9, **{**NCCL, "Collective name": "wait"})
    assert phases(found([*events, wait])) == {"nccl allreduce (call)": (1, 9e-6, 2000)}


def test_gloo_runs_on_the_cpu_so_its_call_is_its_time() -> None:
    args = {"Input Dims": [[321271]], "Input type": ["float"]}
    got = found([whole("gloo:all_reduce", 1, 30, cat="user_annotation", args=args)])
    assert phases(got) == {"gloo allreduce": (1, 30e-6, 4 * 321271)}


def test_bytes_of_a_message_are_unknown_rather_than_zero() -> None:
    assert message_bytes({"In msg nelems": 5, "dtype": "Tensor"}) is None
    assert message_bytes({"Input Dims": [[5], []], "Input type": ["float", "Scalar"]}) == 20
    assert message_bytes({"Input Dims": [[5], [3]], "Input type": ["float", "Custom"]}) is None
    assert message_bytes({"Input Dims": [[5]], "Input type": ["float", "float"]}) is message_bytes({}) is None


def test_profiler_steps_are_steps_of_this_rank() -> None:
    step = whole("ProfilerStep#101", 100, 35000, cat="user_annotation")
    got = found([kernel("a", 0, 5), step, {**step, "cat": "gpu_user_annotation", "dur": 1}])
    assert [(one.step, one.t_s, one.step_time_s) for one in got.steps] == [
        (101, pytest.approx(100e-6), pytest.approx(35e-3))
    ]
    assert got.throughput == ("examples", None, None, 1, None, "this rank")


def test_facts_say_who_recorded_on_what() -> None:
    devices = [{"id": 0, "name": "Tesla V100-SXM2-32GB"}, {"id": 1, "name": "Tesla V100-SXM2-32GB"}]
    info = {"backend": "nccl", "rank": 7, "world_size": 128}
    got = found([kernel("a", 10, 5)], distributedInfo=info, deviceProperties=devices)
    assert {key: got.facts[key] for key in ("rank", "world_size", "backend", "devices", "device")} == {
        **info,
        "devices": 2,
        "device": "Tesla V100-SXM2-32GB",
    }


def test_amd_kernels_are_told_from_nvidia_ones() -> None:
    content = json.dumps(
        {"deviceProperties": [{"name": "AMD Instinct MI250X"}], "traceEvents": [kernel("a", 0, 1)]}
    )
    got = found_in(content, kineto.read, keep_launches=True)
    assert [one.library for one in got.launches or []] == ["hip"]


@pytest.mark.parametrize(
    ("device", "library"),
    [
        ({"name": "", "warpSize": 64}, "hip"),
        ({"name": "", "warpSize": 32}, "cuda"),
        ({"name": "Intel(R) Data Center GPU Max 1550"}, "sycl"),
    ],
)
def test_maker_is_told_where_the_name_is_left_out(device: dict[str, Any], library: str) -> None:
    content = json.dumps({"deviceProperties": [device], "traceEvents": [kernel("a", 0, 1)]})
    got = found_in(content, kineto.read, keep_launches=True)
    assert [one.library for one in got.launches or []] == [library]
    assert got.facts.get("device") == (device["name"] or None)


def test_steps_that_are_operators_are_steps() -> None:
    """As torch 1.8 and 1.9 wrote them."""
    got = found(
        [
            whole("ProfilerStep#5", 100, 50, cat="Operator"),
            whole("aten::mm", 110, 20, cat="Operator"),
            whole("ProfilerStep#6", 150, 40, cat="Operator"),
        ]
    )
    assert [(one.step, one.step_time_s) for one in got.steps] == [
        (5, pytest.approx(50e-6)),
        (6, pytest.approx(40e-6)),
    ]
    assert {name: one.time_s for name, one in by_name(got).items()} == {"aten::mm": pytest.approx(20e-6)}


def test_kernel_whose_times_were_lost_does_not_stretch_the_trace() -> None:
    """Kineto wrote 0 for both; the trace would have begun in 1970."""
    at = 1_600_000_000_000_000
    got = found([kernel("a", 0, 0), kernel("a", at, 5), kernel("b", at + 5, 0)])
    assert got.duration_s == pytest.approx(5e-6)
    assert got.started_ns == at * 1000
    assert {name: one.launches for name, one in by_name(got).items()} == {"a": 1, "b": 1}
    assert warned(got, "no time")


def test_parts_and_waits_of_an_mtia_kernel_are_no_kernels() -> None:
    def event(name: str, at_us: float, **args: Any) -> dict[str, Any]:
        return whole(name, at_us, 10, cat="mtia_ccp_events", args=args)

    got = found(
        [
            event("batch_matmul-dtype_Float", 0),
            event("pe_exe", 0),
            event("event_wait", 10),
            event("dma_request", 20, direction="HOST_TO_DEVICE", size=64),
        ],
        keep_launches=True,
    )
    assert [(one.name, one.library) for one in got.launches or []] == [("batch_matmul-dtype_Float", "mtia")]
    assert phases(got) == {
        "pe_exe": (1, 10e-6, None),
        "event_wait": (1, 10e-6, None),
        "dma_request HOST_TO_DEVICE": (1, 10e-6, 64),
    }


def test_barrier_of_gloo_does_not_hide_the_other_calls() -> None:
    got = found(
        [
            whole("gloo:barrier", 0, 3, cat="user_annotation"),
            whole("hccl:all_reduce", 5, 2, cat="user_annotation"),
        ]
    )
    assert phases(got) == {"gloo barrier": (1, 3e-6, None), "hccl allreduce (call)": (1, 2e-6, None)}


def test_kernels_that_overlap_on_one_stream_are_noticed() -> None:
    late = [kernel("a", 0, 1000), kernel("b", 10, 10), kernel("c", 20, 10)]
    assert warned(found(late), "of the same stream overlap by 2e-05 s") is False  # a fiftieth
    assert warned(found([kernel("a", 0, 100), *late[1:]]), "of the same stream overlap by 2e-05 s")


@pytest.mark.parametrize(
    "other", [kernel("b", 100, 50), kernel("b", 10, 50) | {"tid": 2}, kernel("b", 10, 50) | {"pid": 2}]
)
def test_kernels_one_behind_the_other_or_on_two_streams_are_as_they_should_be(other: dict[str, Any]) -> None:
    assert not warned(found([kernel("a", 0, 100), other]), "overlap")


COUNTS = {
    f"smsp__sass_thread_inst_executed_op_{p}{op}_pred_on.sum": 0
    for p in "dfh"
    for op in ("add", "mul", "fma")
}


def counted(**counts: int) -> dict[str, int]:
    return COUNTS | {f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum": n for op, n in counts.items()}


def test_counted_kernels_have_flops_and_no_time() -> None:
    """Their durations in the trace are equal shares of the session."""
    ranges = [
        whole("gemm", at, 121431, cat="cuda_profiler_range", args=counted(ffma=100, fadd=7, hfma=50))
        for at in (1, 2)
    ]
    got = found(ranges)
    assert by_name(got)["gemm"][:4] == ("gemm", 2, None, 2 * 207.0)
    assert by_name(got)["gemm"].precision == "f32"
    assert warned(got, "not the time of each")


def test_half_precision_counts_beside_wider_arithmetic_are_register_moves() -> None:
    assert measured("k", counted(hfma=50, dmul=3))[2] == 3
    alone = measured("k", counted(hfma=50))
    assert (alone.flops, alone.precision) == (100, "f16")
    assert "upper bound" in alone.note
    assert "upper bound" not in measured("k", counted(hfma=50, hadd=1)).note
    assert measured("k", counted()).flops == 0, "counted, and none"
    partly = dict(counted(ffma=5))
    del partly["smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"]
    assert measured("k", {k: v for k, v in partly.items() if "_op_f" in k}).flops is None


def test_old_and_foreign_names_of_categories_are_known() -> None:
    old = [whole("gemm", 0, 5, cat="Kernel"), whole("aten::mm", 0, 9, cat="Operator")]
    legacy = [whole("gemm", 0, 5) | {"pid": "CUDA functions"}, whole("mm", 0, 5) | {"pid": "CPU functions"}]
    assert [one.name for one in found(old).kernels] == ["gemm"]
    assert format_of(json.dumps(legacy)) == "pytorch profiler"
    assert [one.name for one in found_in(json.dumps(legacy), kineto.read).kernels] == ["gemm"]


def test_kernel_without_duration_is_said_and_not_taken_for_zero() -> None:
    got = found([kernel("a", 0, 5), {"ph": "X", "cat": "kernel", "name": "b", "ts": 3}, kernel("c", 5, -2)])
    assert [one.name for one in got.kernels] == ["a"]
    assert warned(got, "no time or no duration")


def test_gzip_cut_anywhere_keeps_the_kernels_before(tmp_path: Path) -> None:
    content = trace([kernel(f"k{n % 7}", n * 10, 5, grid=[n, 1, 1]) for n in range(2000)]).encode()
    packed, path = gzip.compress(content, mtime=0), tmp_path / "cut.json.gz"
    last = 0
    for size in range(len(packed) // 3, len(packed), len(packed) // 7):
        path.write_bytes(packed[:size])
        got = read(str(path))
        launches = sum(one.launches for one in got.kernels)
        assert launches == int(got.facts["gpu_kernels"]) > last
        assert warned(got, "gzip stream")
        last = launches


ODD = st.none() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=2) | st.booleans()
NAME = st.sampled_from(["ncclKernel_x", "nccl:all_reduce", "ProfilerStep#1", "record_param_comms", "a"])
ARGS = st.dictionaries(st.sampled_from([*NCCL, *COUNTS, "flops", "bytes", "Input Dims", "Input type"]), ODD)
EVENT = st.fixed_dictionaries(
    {"ph": st.just("X"), "name": NAME | ODD},
    optional={
        "ts": ODD | st.floats(0, 1e16),
        "dur": ODD | st.floats(0, 1e9),
        "args": ARGS | ODD,
        "tid": ODD,
        "pid": ODD,
    },
)


def kept(category: str, got: Collector) -> int:
    """How many events of a category are in the sums."""
    if category == "gpu_memcpy":
        return sum(one.count for one in got.phases)
    return sum(one.launches for one in got.kernels)


@pytest.mark.parametrize("category", ["kernel", "gpu_memcpy", "cuda_profiler_range"])
@given(
    events=st.lists(EVENT, max_size=8),
    values=st.dictionaries(st.sampled_from(["deviceProperties", "baseTimeNanoseconds"]), ODD),
)
def test_events_whatever_their_fields_are_counted_or_said_to_be_left_out(
    category: str, events: list[dict[str, Any]], values: dict[str, Any]
) -> None:
    all_events = [{**event, "cat": category} for event in events] + [kernel("mine", 1, 5, flops=7)]
    content = json.dumps({**values, "traceEvents": all_events, "distributedInfo": values})
    got = found_in(content, kineto.read)
    mine = by_name(got)["mine"]
    assert (mine.launches, mine.time_s, mine.flops) == (1, pytest.approx(5e-6), 7)
    left_out = sum(one.times for one in got.warnings if "no time or no duration" in one.text)
    assert kept(category, got) - (category != "gpu_memcpy") + left_out == len(events)
    assert got.facts["events"] == len(all_events)
