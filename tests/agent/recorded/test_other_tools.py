"""What recorded files of other tools do where they are unusual; their numbers are in tests/data/recorded."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
from datetime import datetime
from pathlib import Path

import pytest
from roofline_agent.recorded import reader
from roofline_agent.recorded.batches import duration_s
from roofline_agent.recorded.benchmarks import nccl, nvbandwidth
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.command import import_files
from roofline_agent.recorded.errors import NotReadable
from roofline_agent.recorded.request import ImportRequest
from roofline_agent.recorded.tables import lightning, nsys, nvidia_smi, rocprof
from roofline_agent.recorded.tables.amd import NO_MATRIX, NOT_ALL, work_of
from roofline_agent.recorded.tables.dispatches import is_other
from roofline_agent.recorded.traces import wire
from roofline_agent.recorded.training import mllog, trainer_state, trainers

from tests.recordings import OURS

from .traces import claimed, found_in, read, warned


def test_database_of_something_else_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE notes(text TEXT)")
    database.close()
    with pytest.raises(NotReadable, match="no GPU activities of Nsight Systems: record with --trace=cuda"):
        reader.read(str(path))


def test_database_whose_kernels_have_other_columns_is_an_error_and_not_empty(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds(id INTEGER, value TEXT)")
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER)")
    database.close()
    found = read(str(path))
    assert found.kernels == []
    assert warned(found, "not those of nsys")


def test_database_whose_first_table_is_damaged_says_so(tmp_path: Path) -> None:
    path = tmp_path / "damaged.sqlite"
    whole = bytearray((OURS / "nsys" / "export.sqlite").read_bytes())
    path.write_bytes(whole)
    with contextlib.closing(sqlite3.connect(path)) as database:
        (size,) = database.execute("PRAGMA page_size").fetchone()
        root = "SELECT rootpage FROM sqlite_master WHERE name = 'TARGET_INFO_GPU'"
        (page,) = database.execute(root).fetchone()
    whole[(page - 1) * size] = 0  # the page's type
    path.write_bytes(whole)
    with pytest.raises(NotReadable, match=r"nothing of it can be read .* malformed"):
        reader.read(str(path))


def test_database_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "export.sqlite"
    path.write_bytes((OURS / "nsys" / "export.sqlite").read_bytes())
    before = path.read_bytes()
    path.chmod(0o444)
    assert read(str(path)).kernels[0].launches == 2
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["export.sqlite"]


@pytest.mark.parametrize("left", [0.3, 0.6, 0.9])
def test_cut_xplane_gives_what_it_has_and_says_so(left: float, tmp_path: Path) -> None:
    whole = (OURS / "xplane" / "jax_0.10_cpu.xplane.pb").read_bytes()
    path = tmp_path / "cut.xplane.pb"
    path.write_bytes(whole[: int(len(whole) * left)])
    assert warned(read(str(path)), "cut off")


@pytest.mark.parametrize("message", [b"\x0a", b"\x0a\x05ab", b"\xff" * 12, b"\x0b\x00", b"\x0d\x01"])
def test_damaged_message_is_a_value_error(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"cut off|no protobuf"):
        list(wire.fields(memoryview(message)))


def test_counters_of_an_operation_alone_are_no_flops() -> None:
    assert work_of({"SQ_INSTS_VALU_FMA_F32": 5.0}).flops is None
    vector = {f"SQ_INSTS_VALU_{kind}_F32": 1.0 for kind in ("ADD", "MUL", "FMA")}
    assert work_of(vector)[::3] == (256.0, NO_MATRIX)
    assert work_of(dict.fromkeys(vector, 0.0)).flops is None, "zero of what was counted is not zero"


def test_int8_of_matrix_cores_counts_and_unknown_operations_make_a_lower_bound() -> None:
    vector = {f"SQ_INSTS_VALU_{kind}_F32": 1.0 for kind in ("ADD", "MUL", "FMA")}
    known = vector | {"SQ_INSTS_VALU_MFMA_MOPS_I8": 3.0}
    assert work_of(known) == (256 + 3 * 512, None, "s8", "")
    assert work_of(known | {"SQ_INSTS_VALU_INT32": 9.0, "SQ_INSTS_VALU_MFMA_I8": 9.0}).note == ""
    assert work_of(known | {"SQ_INSTS_VALU_MFMA_MOPS_F7": 9.0})[::3] == (1792.0, NOT_ALL)
    assert work_of(known | {"SQ_INSTS_VALU_ADD_F16": 9.0}).note == NOT_ALL, "without multiplications"


def test_instructions_that_give_no_flops_stay_counters() -> None:
    counted = ("INT32", "MFMA_I8", "MFMA_MOPS_F7", "MFMA_MOPS_I8", "TRANS_F16", "ADD_F32")
    others = [name for name in counted if is_other(f"SQ_INSTS_VALU_{name}")]
    assert others == ["INT32", "MFMA_I8", "MFMA_MOPS_F7"]


def test_reads_and_writes_of_which_some_were_not_counted_are_no_bytes() -> None:
    assert work_of({"TCC_EA_RDREQ_sum": 10.0, "TCC_EA_RDREQ_32B_sum": 2.0}).hbm_bytes is None


def test_table_of_several_ranks_or_trainers_follows_the_first() -> None:
    line = "micro_step={0}/global_step={0}, RunningAvgSamplesPerSec={1}, CurrSamplesPerSec={1}, Mem=1GB\n"
    log = "".join(f"{rank}: {line.format(step, 100 + rank)}" for step in (1, 2) for rank in (0, 1))
    found = found_in(log, trainers.read)
    assert [(one.step, one.examples_per_s) for one in found.steps] == [(1, 100), (2, 100)]
    assert warned(found, "several ranks")


def _megatron(step: int, at: str, seconds: float) -> str:
    return (
        f" [2025-04-13 {at}] iteration {step:8}/ 20000 | elapsed time per iteration (ms): {seconds * 1e3} | "
        "global batch size:    64 | lm loss: 1.0 |\n"
    )


def test_first_line_of_a_log_that_goes_on_from_a_checkpoint_speaks_for_as_many_steps_as_the_next() -> None:
    lines = [
        _megatron(10001, "10:00:10", 10),
        *(_megatron(10001 + i, f"10:00:{10 + i}", 1) for i in range(1, 9)),
    ]
    found = found_in("".join(lines), trainers.read)
    assert found.throughput is not None and found.throughput.examples_per_s == pytest.approx(9 * 64 / 18)
    alone = found_in(lines[0], trainers.read).throughput
    assert alone is not None and alone.examples_per_s == pytest.approx(6.4)
    every_ten = [_megatron(10010, "10:00:10", 1), _megatron(10020, "10:00:40", 3)]
    both = found_in("".join(every_ten), trainers.read).throughput
    assert both is not None and both.examples_per_s == pytest.approx(20 * 64 / 40)


def test_step_of_a_trainers_log_ended_when_its_line_was_stamped() -> None:
    log = "".join(_megatron(*one) for one in ((1, "10:00:10", 10), (2, "10:00:12", 2), (3, "10:00:15", 3)))
    found = found_in(log, trainers.read)
    assert [(one.t_s, one.step_time_s) for one in found.steps] == [(0, 10), (10, 2), (12, 3)]
    assert found.started_ns == int(datetime(2025, 4, 13, 10).timestamp()) * 10**9
    assert duration_s(found) == 15


@pytest.mark.parametrize("seconds", [-1e305, -1, 0, 1e-320, 1e305])
def test_a_time_that_no_step_takes_is_unknown(seconds: float) -> None:
    (step,) = found_in(_megatron(1, "10:00:10", seconds), trainers.read).steps
    assert (step.t_s, step.step_time_s, step.examples_per_s) == (0, None, None)


def test_infinite_rates_and_losses_are_unknown() -> None:
    line = "epoch=0/micro_step=1/global_step=1, RunningAvgSamplesPerSec=inf, CurrSamplesPerSec=inf, Mem=1GB\n"
    (step,) = found_in(line, trainers.read).steps
    assert step.examples_per_s is None
    titan = "step:  1  loss: nan  memory: 1.0GiB(1%)  tps: 1,000  tflops: 1.0  mfu: 1.0%\n"
    assert next(iter(found_in(titan, trainers.read).steps)).loss is None


def test_state_that_was_cut_off_says_so() -> None:
    text = (OURS / "trainer_state" / "ended.json").read_text()
    found = found_in(text[:300], trainer_state.read)
    assert found.is_empty and warned(found, "was it cut off?")


@pytest.mark.parametrize(
    ("loss", "is_taken"), [("-0.25", True), ("0.5", True), ("0", True), ("NaN", False), ("true", False)]
)
def test_losses_may_be_negative(loss: str, is_taken: bool) -> None:
    """As those of GRPO and PPO are."""
    text = f'{{"log_history": [{{"loss": {loss}, "step": 1, "train_runtime": -1.0}}]}}'
    (step,) = found_in(text, trainer_state.read).steps
    assert step.loss == (float(loss) if is_taken else None) and step.step_time_s is None


def test_interval_without_an_end_or_a_beginning_is_named() -> None:
    event = ':::MLLOG {{"time_ms": {}, "event_type": "INTERVAL_{}", "key": "{}", "value": null}}\n'
    log = event.format(1000, "END", "eval_stop") + event.format(2000, "START", "run_start")
    found = found_in(log, mllog.read)
    assert found.phases == []
    assert warned(found, "eval ends without a beginning") and warned(found, "run was not ended")


def test_wrong_results_of_a_collective_are_named() -> None:
    text = (OURS / "nccl" / "all_reduce_2hosts.txt").read_text().replace("22.50      0", "22.50      7")
    assert warned(found_in(text, nccl.read), "#wrong")


ALL_REDUCE = (OURS / "nccl" / "all_reduce_2hosts.txt").read_text()


def _rates(found: Collector) -> list[float | None]:
    return [one.printed for one in found.counters]


def test_times_behind_the_rows_of_a_collective_are_no_rates() -> None:
    lines = ALL_REDUCE.splitlines()
    stamped = [f"{line}  2026-05-01 12:00:30" if line[:1] == " " else line for line in lines]
    text = "\n".join(stamped).replace("#wrong\n", "#wrong           timestamp\n")
    found = found_in(text, nccl.read)
    assert _rates(found) == [10.5, 22.5] and not found.warnings


def test_times_of_iterations_are_no_rates() -> None:
    more = " 790.0 810.0 809.0 1.50"
    text = ALL_REDUCE.replace("#wrong", "#wrong i_min i_max i_p99 i_cv%").replace("  0\n", f"  0{more}\n")
    for middle in ("10.00      0", "22.00      0"):
        text = text.replace(middle, middle + more)
    found = found_in(text, nccl.read)
    assert _rates(found) == [10.5, 22.5] and not found.warnings


def test_collective_that_was_measured_in_place_alone_has_that_rate() -> None:
    found = found_in(ALL_REDUCE.replace("   838.8   10.00   10.00      0 ", ""), nccl.read)
    assert _rates(found) == [10.5, 22.5] and not found.warnings


def test_row_that_was_cut_is_no_rate() -> None:
    found = found_in(ALL_REDUCE.replace("   22.37   22.50      0", ""), nccl.read)
    assert _rates(found) == [10.5] and warned(found, "another number of columns")


def test_tests_of_one_log_are_kept_apart() -> None:
    gather = ALL_REDUCE.replace("all_reduce", "all_gather").replace("22.50", "30.00")
    ended = "# Collective test concluded: all_reduce_perf\n"
    found = found_in(ALL_REDUCE + ended + gather, nccl.read)
    assert {one.metric for one in found.counters} == {"nccl.all_reduce.busbw", "nccl.all_gather.busbw"}
    assert (found.facts["ranks"], found.facts["hosts"]) == (2, 2)
    assert found.facts["collective"] == "all_reduce, all_gather"
    (ceiling,) = found.ceilings
    assert ceiling.value == 30e9 and ceiling.method.endswith("bandwidth of all_gather, 2 ranks")


def test_test_on_one_host_is_no_ceiling_beside_one_on_two() -> None:
    alone = ALL_REDUCE.replace("nodeb", "nodea").replace("22.50", "200.0")
    for text in (ALL_REDUCE + alone, alone + ALL_REDUCE):
        found = found_in(text, nccl.read)
        assert [one.value for one in found.ceilings] == [22.5e9] and not found.warnings
    assert warned(found_in(alone, nccl.read), "on one host")


def _bandwidths(*tests: tuple[str, str, list[list[str]]]) -> Collector:
    names = ("name", "bandwidth_description", "bandwidth_matrix")
    cases = [dict(zip(names, test, strict=True)) for test in tests]
    return found_in(json.dumps({"nvbandwidth": {"testcases": cases}}), nvbandwidth.read)


def test_latencies_are_no_bandwidths() -> None:
    found = _bandwidths(
        ("host_device_latency_sm", "memory latency SM CPU(row) <-> GPU(column) (ns)", [["772.58"]]),
        ("host_to_device_memcpy_ce", "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", [["55.5"]]),
        ("device_to_host_memcpy_ce", "", [["44.5"]]),
    )
    assert [(one.event, one.value) for one in found.counters] == [
        ("nvbandwidth.host_to_device_memcpy_ce", 55.5e9),
        ("nvbandwidth.device_to_host_memcpy_ce", 44.5e9),
    ]


@pytest.mark.parametrize("described", ["memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)", ""])
def test_copies_between_gpus_name_both(described: str) -> None:
    found = _bandwidths(("device_to_device_memcpy_read_ce", described, [["N/A", "276"], ["277", "N/A"]]))
    assert [one.scope for one in found.counters] == ["gpu 0 to gpu 1", "gpu 1 to gpu 0"]
    found = _bandwidths(("all_to_one_write_ce", "memcpy CE All Gpus -> GPU(column) (GB/s)", [["5", "6"]]))
    assert [one.scope for one in found.counters] == ["gpu 0", "gpu 1"]


def test_copies_between_gpus_name_both_in_text() -> None:
    found = read(str(OURS / "nvbandwidth" / "v0.5.txt"))
    pairs = [one.scope for one in found.counters if "device_to_device" in one.event]
    assert pairs == ["gpu 0 to gpu 1", "gpu 1 to gpu 0"]


def test_rows_that_lack_columns_are_named(tmp_path: Path) -> None:
    text = (OURS / "nsys" / "old_2020.csv").read_text() + "1.0,5,6\n"
    found = found_in(text, nsys.read)
    assert found.kernels[0].launches == 4992
    assert warned(found, "another number of columns")


def test_kernel_that_ends_before_it_begins_is_left_out() -> None:
    lines = (OURS / "rocprof" / "kernel_trace.csv").read_text().replace("172352210055000", "1")
    found = found_in(lines, rocprof.read)
    assert found.kernels[0].launches == 1 and warned(found, "it is left out")


def test_counters_of_channels_are_one_each() -> None:
    """As rocprof-compute writes them."""
    heads = "Dispatch_ID,GPU_ID,Kernel_Name,Start_Timestamp,End_Timestamp,TCC_HIT[0],TCC_HIT[1],TCC_MISS_sum"
    found = found_in(f"{heads}\n0,4,k1,1000,2000,100,7,3\n", rocprof.read)
    counted = {one.metric: one.value for one in found.counters}
    assert counted == {"TCC_HIT[0]": 100, "TCC_HIT[1]": 7, "TCC_MISS_sum": 3}


def test_sizes_that_rocprofv3_derives_are_bytes_of_the_memory() -> None:
    text = (OURS / "rocprof" / "counter_collection.csv").read_text()
    text = text.replace("TCC_EA_RDREQ_sum", "FETCH_SIZE").replace("TCC_EA_WRREQ_sum", "WRITE_SIZE")
    (kernel,) = found_in(text, rocprof.read).kernels
    assert kernel.bytes == {"dram": 2 * (3000 + 500) * 1024}
    found = found_in(text.replace("WRITE_SIZE", "X"), rocprof.read)
    assert found.kernels[0].bytes == {}
    (one, *_) = [one for one in found.counters if one.metric == "FETCH_SIZE"]
    assert (one.value, one.unit, one.printed, one.printed_unit) == (3000 * 1024, "byte", 3000, "KiB")
    heads = "Dispatch_ID,GPU_ID,Kernel_Name,Start_Timestamp,End_Timestamp,FETCH_SIZE"
    (one,) = found_in(f"{heads}\n0,4,k1,1000,2000,3\n", rocprof.read).counters
    assert (one.value, one.unit, one.printed, one.printed_unit) == (3 * 1024, "byte", 3, "KiB")


def test_copies_in_statistics_of_old_rocprof_are_no_kernels() -> None:
    heads = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"'
    found = found_in(
        f'{heads}\n"vecadd.kd",10,10000,1000,60\n"CopyHostToDevice",2,6000,3000,40\n', rocprof.read
    )
    assert [one.name for one in found.kernels] == ["vecadd.kd"]
    assert [(one.name, one.count, one.time_s) for one in found.phases] == [("CopyHostToDevice", 2, 6e-6)]


def test_table_with_steps_is_no_metrics_of_lightning_unless_it_has_epochs(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("step,loss\n1,2\n")
    assert claimed(path) == set()
    assert lightning.sniff("epoch,step,loss\n") > 0


def _database_of_graphs(path: Path, columns: str, row: str) -> str:
    path.write_bytes((OURS / "nsys" / "export.sqlite").read_bytes())
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE({columns})")
        database.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES ({row})")
    database.close()
    return str(path)


def test_graphs_recorded_as_a_whole_are_launches(tmp_path: Path) -> None:
    columns = "start, end, deviceId, contextId, streamId, correlationId, globalPid, graphId, graphExecId"
    found = read(_database_of_graphs(tmp_path / "a.sqlite", columns, "0, 5000, 0, 1, 7, 2, 9, 41, 42"))
    launches = {one.name: (one.launches, one.time_s) for one in found.kernels}
    assert launches["[CUDA graph 41]"] == (1, pytest.approx(5e-6))
    assert launches["void gemm<float>(float *, int)"][0] == 2
    assert warned(found, "--cuda-graph-trace=node")


def test_graphs_in_unknown_columns_are_named_and_cost_no_kernels(tmp_path: Path) -> None:
    found = read(_database_of_graphs(tmp_path / "a.sqlite", "start, end, graph", "0, 5000, 41"))
    assert [one.name for one in found.kernels] == ["void gemm<float>(float *, int)"]
    assert warned(found, "are left out: record with --cuda-graph-trace=node")


def test_rows_of_a_joint_report_are_taken_once() -> None:
    joint = (OURS / "nsys" / "api_gpu_sum.csv").read_text()
    alone = "Time (%),Total Time (ns),Instances,Avg (ns),Name\n100.0,7000000,20,350000.0,relu\n"
    for text in (joint + alone, alone + joint):
        found = found_in(text, nsys.read)
        assert [(one.name, one.launches) for one in found.kernels] == [("relu", 20)]
        assert {one.name for one in found.phases} == {"cudaLaunchKernel", "[CUDA memcpy Host-to-Device]"}


KERNELS = "Time (%),Total Time (ns),Instances,Avg (ns),Name\n100.0,200000,2,100000.0,axpy\n"
COPIES = (
    "Time (%),Total Time (ns),Count,Avg (ns),Operation\n100.0,200000,1,1.0,[CUDA memcpy Host-to-Device]\n"
)
COPIED = "Total (MB),Count,Avg (MB),Operation\n4.000,1,4.000,[CUDA memcpy Host-to-Device]\n"


def test_sums_beside_a_trace_are_left_out() -> None:
    trace = (OURS / "nsys" / "gpu_trace_us.csv").read_text()
    alone = found_in(trace, nsys.read)
    for text in (trace + KERNELS + COPIES + COPIED, KERNELS + COPIES + COPIED + trace):
        found = found_in(text, nsys.read)
        assert found.kernels == alone.kernels and found.phases == alone.phases
        assert not found.warnings
    assert found_in(KERNELS, nsys.read).kernels[0].launches == 2


def test_of_two_sums_of_kernels_and_copies_the_first_counts() -> None:
    """Of two windows of time, or of the same: they do not say."""
    later = (KERNELS + COPIES + COPIED).replace("200000", "900000").replace("4.000", "9.000")
    later = later.replace("axpy", "void axpy(float *)")  # as the report with ":base" writes it
    found = found_in(KERNELS + COPIES + COPIED + later, nsys.read)
    assert [(one.name, one.time_s) for one in found.kernels] == [("axpy", 2e-4)]
    assert [(one.time_s, one.bytes) for one in found.phases] == [(2e-4, 4e6)]
    for what in ("sums of kernels", "times of copies", "sizes of copies"):
        assert warned(found, f"several reports of {what}: only the first counts")


def test_of_two_traces_the_first_counts() -> None:
    trace = (OURS / "nsys" / "gpu_trace_us.csv").read_text()
    found, alone = found_in(trace + trace, nsys.read), found_in(trace, nsys.read)
    assert (found.kernels, found.phases) == (alone.kernels, alone.phases)
    assert warned(found, "several reports of what the GPU did")


def test_calls_and_ranges_in_several_reports_count_once() -> None:
    head = "Time (%),Total Time (ns),{},Avg (ns),{}\n"
    calls, ranges = head.format("Num Calls", "Name"), head.format("Instances", "Range")
    text = f"{calls}1.0,800,2,400.0,read\n{ranges}1.0,100,1,100.0,read\n1.0,300,1,300.0,read\n"
    found = found_in(text, nsys.read)
    assert {one.name: one.count for one in found.phases} == {"read": 2, "NVTX read": 2}
    assert not found.warnings
    more = f"{calls}1.0,900,3,300.0,read\n1.0,900,3,300.0,poll\n{ranges}1.0,1,1,1.0,read\n"
    again = found_in(text + more, nsys.read)
    assert {one.name: one.count for one in again.phases} == {"read": 2, "NVTX read": 2, "poll": 3}
    assert warned(again, "calls or ranges are in several reports")


@pytest.mark.parametrize("is_first", [True, False])
def test_sums_beside_the_trace_in_another_file_are_left_out(tmp_path: Path, is_first: bool) -> None:
    sums, trace = tmp_path / "sums.csv", OURS / "nsys" / "gpu_trace_us.csv"
    sums.write_text(KERNELS + COPIES + COPIED + "Time (%),Total Time (ns),Num Calls,Name\n1.0,8,2,poll\n")
    got = imported([sums, trace] if is_first else [trace, sums])
    assert got[sums] == ([], ["poll"])
    assert got[trace][0] == ["axpy"]


def test_of_sums_in_two_files_those_of_the_first_count(tmp_path: Path) -> None:
    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    one.write_text(KERNELS)
    other.write_text(KERNELS + COPIES)
    assert imported([one, other]) == {one: (["axpy"], []), other: ([], ["[CUDA memcpy Host-to-Device]"])}
    assert imported([other, one])[one] == ([], [])


def imported(paths: list[Path]) -> dict[Path, tuple[list[str], list[str]]]:
    """Names of the kernels and the phases of each file of an import of all of them."""
    out = io.StringIO()
    request = ImportRequest(tuple(map(str, paths)), "", "worker", None, 0.0, None, True, "json", "")
    import_files(request, out, lambda text: None)
    several = [json.loads(line) for line in out.getvalue().splitlines()]
    return {
        Path(one["file"]): ([k["name"] for k in one["kernels"]], [p["name"] for p in one["phases"]])
        for one in several
    }


def test_sums_of_calls_that_were_traced_are_left_out() -> None:
    trace = (OURS / "nsys" / "api_trace.csv").read_text()
    sums = "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n1.0,800,2,400.0,cudaLaunchKernel\n"
    sums += "1.0,500,5,100.0,poll\n"  # of the system's calls, whose report looks alike
    for text in (trace + sums, sums + trace):
        phases = {one.name: one.count for one in found_in(text, nsys.read).phases}
        assert phases == {"cudaMalloc": 1, "cudaLaunchKernel": 2, "poll": 5}


def test_gpus_and_processes_of_one_report_are_named(tmp_path: Path) -> None:
    trace = (OURS / "nsys" / "gpu_trace_us.csv").read_text()
    assert not found_in(trace, nsys.read).warnings
    head, last = trace.rstrip("\n").rsplit("\n", 1)
    found = found_in(f"{head}\n{last.replace('A100 (0)', 'A100 (1)')}\n", nsys.read)
    assert warned(found, "kernels of 2 GPUs") and found.facts["device"] == "NVIDIA A100"
    calls = (OURS / "nsys" / "api_trace.csv").read_text()
    assert not found_in(calls, nsys.read).warnings
    assert warned(found_in(calls.replace(",3,4242", ",3,4243"), nsys.read), "several processes")
    path = tmp_path / "export.sqlite"
    path.write_bytes((OURS / "nsys" / "export.sqlite").read_bytes())
    assert not read(str(path)).warnings
    with sqlite3.connect(path) as database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = rowid << 24, deviceId = rowid")
    database.close()
    found = read(str(path))
    assert warned(found, "several processes") and warned(found, "kernels of 2 GPUs")


def test_columns_for_one_value_of_nvidia_smi_are_metrics_of_their_own() -> None:
    power = "power.draw.average [W], power.draw.instant [W], power.draw [W]"
    clocks = "clocks.current.sm [MHz], clocks.sm [MHz], clocks.sm [MHz]"
    found = found_in(f"index, {power}, {clocks}\n0, 10.0, 20.0, 30.0, 5, 6, 6\n", nvidia_smi.read)
    assert {one.metric: one.value for one in found.counters} == {
        "power.draw.average": 10,
        "power.draw.instant": 20,
        "power_watts": 30,
        "clocks.current.sm": 5e6,
        "sm_clock_hz": 6e6,
    }
    assert len(found.counters) == 5
    alone = found_in("index, power.draw.instant [W]\n0, 20.0\n", nvidia_smi.read)
    assert [one.metric for one in alone.counters] == ["power_watts"]


def test_gpus_that_cannot_be_told_apart_are_named() -> None:
    text = (OURS / "nvidia_smi" / "nounits.csv").read_text()
    assert warned(found_in(text, nvidia_smi.read), "no column says of which GPU a row is")
    for column in ("index", "uuid", "pci.bus_id"):
        named = text.replace("timestamp", f"timestamp, {column}").replace(".125", ".125, 7")
        assert not found_in(named, nvidia_smi.read).warnings


def _inspected(*writers: tuple[str, int, int, int]) -> Collector:
    """Lines of an inspector: communicator, rank in it, its ranks, process."""
    lines = [
        json.dumps(
            {
                "header": {"id": communicator, "rank": rank, "n_ranks": size},
                "metadata": {"hostname": "nodea", "pid": process},
                "coll_perf": {"coll": "AllReduce", "coll_msg_size_bytes": 8, "coll_exec_time_us": 1},
            }
        )
        for communicator, rank, size, process in writers
    ]
    return found_in("\n".join(lines), nccl.read)


def test_rank_is_that_of_the_largest_communicator() -> None:
    found = _inspected(("0x1", 13, 16, 7), ("0x2", 5, 8, 7), ("0x3", 1, 2, 7))
    assert (found.facts["rank"], found.facts["world_size"]) == (13, 16)
    assert not found.warnings


def test_processes_of_the_same_rank_in_their_communicators_are_told_apart() -> None:
    found = _inspected(("0x2", 0, 8, 7), ("0x3", 0, 8, 8))
    assert "rank" not in found.facts and warned(found, "2 ranks wrote this file")


def test_one_process_of_several_ranks_is_several_ranks() -> None:
    assert warned(_inspected(("0x1", 0, 2, 7), ("0x1", 1, 2, 7)), "2 ranks wrote this file")


def test_rank_is_unknown_where_communicators_of_a_size_disagree() -> None:
    found = _inspected(("0x1", 3, 8, 7), ("0x2", 5, 8, 7))
    assert "rank" not in found.facts and warned(found, "not known")


def test_line_of_an_inspector_that_is_a_list_is_left_out() -> None:
    whole = (OURS / "nccl" / "inspector.log").read_text()
    found = found_in(f'["coll_perf", "header"]\n{whole}', nccl.read)
    assert found.phases and warned(found, "no JSON object")


def test_summary_of_a_diverged_training_keeps_its_rate() -> None:
    line = "{'train_runtime': 100.0, 'train_samples_per_second': 50, 'train_loss': nan, 'epoch': 1.0}\n"
    found = found_in(line, trainers.read)
    assert found.throughput is not None and found.throughput.examples_per_s == 50
    assert found.facts["train_runtime"] == 100.0 and "train_loss" not in found.facts


def test_sums_of_nsys_by_grid_are_one_kernel() -> None:
    heads = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"
    heads += ",GridXYZ,BlockXYZ,Name"
    rows = [
        f"50.0,{time},{count},2000.0,2000.0,1000,3000,1.0,  {grid}   1    1,  128    1    1,gemm"
        for time, count, grid in ((6000, 3, 16), (4000, 2, 32))
    ]
    (kernel,) = found_in("\n".join([heads, *rows]) + "\n", nsys.read).kernels
    assert (kernel.name, kernel.launches, kernel.on_gpu) == ("gemm", 5, True)
    assert kernel.time_s == pytest.approx(10e-6)
