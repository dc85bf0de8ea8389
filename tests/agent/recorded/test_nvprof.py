"""nvprof's tables: metrics, events, times and traces, as CSV and for people's eyes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.recorded.ncu.flops import NOT_COUNTED
from roofline_agent.recorded.nvprof import reader as nvprof

from .gpu_pages import Found
from .gpu_pages import read_text as read_any

METRICS = '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"'
EVENTS = '"Device","Kernel","Invocations","Event Name","Min","Max","Avg","Total"'
TIMES_TABLE = (
    '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,us,us,ms,\n'
    '"GPU activities",100.0,2.0,4,500,400,0.6,"k(int)"\n\n==31== Unified Memory profiling result:\n'
)
START = "==31== NVPROF is profiling process 31, command: ./app\n==31== Profiling result:\n"


def read_text(content: str) -> Found:
    return read_any(content, nvprof.read)


def metric(name: str, value: str, kernel: str = "k(int, float*)", invocations: int = 3) -> str:
    return f'"Tesla P100 (1)","{kernel}",{invocations},"{name}","What it is",{value},{value},{value}'


def test_what_the_driver_moved_by_itself_is_a_phase_or_where_it_has_no_time_a_counter() -> None:
    people = (
        '==31== Unified Memory profiling result:\nDevice "TITAN (0)"\n'
        "   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name\n"
        "       4  1.0000KB  1.0000KB  1.0000KB    4.0000KB  20.000us  Host To Device\n"
        "       9         -         -         -           -  2.5000ms  Gpu page fault groups\n"
        "Total CPU Page faults: 3\n"
    )
    found = read_text(START + people)
    assert not found.warnings
    assert found.phases == [
        ("[Unified Memory] Gpu page fault groups", 9, pytest.approx(2.5e-3), None),
        ("[Unified Memory] Host To Device", 4, pytest.approx(20e-6), 4096.0),
    ]
    table = (
        '"Device","Count","Avg Size","Min Size","Max Size","Total Size","Total Time",""\n'
        '"TITAN (0)",4,1.000000KB,1.000000KB,1.000000KB,4.000000KB,0.000000,"Host To Device"\n'
        '"TITAN (0)",,,,,9B,0.000000,"Gpu page fault groups"\nTotal CPU Page faults: 3\n'
    )
    found = read_text(START + TIMES_TABLE + table)
    assert not found.warnings
    assert [(one.event, one.value, one.unit) for one in found.counters] == [
        ("[Unified Memory] Host To Device", 4096.0, "byte")
    ]


TRACE = '"Start","Duration","Grid X","Device","Name"\nms,us,,,\n1,5,4,"V100 (0)","k(int) [7]"\n'


@pytest.mark.parametrize("table", [TRACE, METRICS + "\n" + metric("flop_count_sp", "100") + "\n"])
def test_results_of_several_processes_are_named(table: str) -> None:
    one = START + "==32== NVPROF is profiling process 32, command: ./app\n" + table
    assert not read_text(one + "==31== Metric result:\n" + table).warnings
    both = read_text(f"{one}==32== Profiling result:\n{table}")
    assert "results of several processes" in both.warnings
    assert "--log-file FILE.%p" in both.warnings


def test_page_faults_of_the_cpu_are_moments_and_no_broken_rows() -> None:
    trace = (
        '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Page","Name"\n'
        's,ms,,,,,,,,\n1.5,2,4,1,1,8,1,1,,"k(int)"\n1.6,,,,,,,,"PC 0x99","[Unified Memory CPU page faults]"\n'
    )
    found = read_text(START + trace)
    assert (found.warnings, [one.name for one in found.kernels]) == ("", ["k(int)"])


@pytest.mark.parametrize("total", ["", "        45"])
def test_events_for_people_have_a_total_only_of_late(total: str) -> None:
    content = (
        "==31== Event result:\nInvocations   Event Name         Min         Max         Avg\n"
        f'Device "GTX (0)"\n\tKernel: k\n         3   elapsed_cycles_sm    10    20    15{total}\n'
        "         3   not_an_event  of words  and more  15\n"
    )
    [one] = read_text(content).counters
    assert (one.event, one.value, one.scope) == ("elapsed_cycles_sm", 15.0, "gpu 0")


def test_flops_of_tensor_cores_that_nvprof_cannot_count_are_said() -> None:
    lines = [
        metric("flop_count_sp", "2", kernel=name) for name in ("volta_fp16_s884gemm_fp16_nn", "volta_sgemm")
    ]
    found = read_text(START + "\n".join([METRICS, *lines]))
    notes = {one.name: one.note for one in found.kernels}
    assert notes == {"volta_fp16_s884gemm_fp16_nn": NOT_COUNTED, "volta_sgemm": ""}
    assert NOT_COUNTED in found.warnings


def test_transactions_are_32_bytes() -> None:
    lines = [
        metric("dram_read_transactions", "100"),
        metric("dram_write_transactions", "50"),
        metric("l2_read_transactions", "7"),
        metric("gld_transactions", "9"),
        metric("flop_count_dp", "1000"),
        metric("flop_count_sp", "10"),
    ]
    found = read_text(START + METRICS + "\n" + "\n".join(lines) + "\n")
    [one] = found.kernels
    assert one.bytes == {"dram": 3 * 150 * 32.0}  # of L2 only reads are known, and global loads have no size
    assert (one.flops, one.precision) == (3030.0, "f64")
    assert [c.event for c in found.counters] == ["gld_transactions"]
    assert found.counters[0].scope == "gpu 1"


def test_flops_add_up_from_their_kinds() -> None:
    lines = [
        metric(f"flop_count_sp_{kind}", value) for kind, value in (("add", "1"), ("mul", "2"), ("fma", "3"))
    ]
    assert read_text(METRICS + "\n" + "\n".join(lines)).kernels[0].flops == 3 * (1 + 2 + 6)


def test_zero_of_one_precision_is_not_zero_flops() -> None:
    assert read_text(METRICS + "\n" + metric("flop_count_dp", "0")).kernels[0].flops is None
    assert read_text(METRICS + "\n" + metric("flop_count_sp", "0")).kernels[0].flops == 0.0


def test_overflowed_counters_are_missing() -> None:
    found = read_text(METRICS + "\n" + metric("flop_count_sp", '"<OVERFLOW>"'))
    assert found.kernels[0].flops is None
    assert "overflowed" in found.warnings


def test_events_are_counters() -> None:
    found = read_text(f'{EVENTS}\n"GPU (0)","k",2,"warps_launched",10,30,20,40\n')
    assert (found.counters[0].event, found.counters[0].value) == ("warps_launched", 20.0)


SUMMARY = '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,us,us,us,\n'


def test_units_of_each_column_of_a_summary_are_applied() -> None:
    found = read_text(
        START + SUMMARY + '"GPU activities",90.0,1.500000,3,500.0,400.0,600.0,"k(int, float*)"\n'
        '"GPU activities",10.0,0.100000,1,100.0,100.0,100.0,"[CUDA memcpy HtoD]"\n'
        '"API calls",99.0,7.5,4,1875.0,1.0,2.0,"cudaMalloc"\n'
    )
    [one] = found.kernels
    assert (one.name, one.launches, one.time_s) == ("k(int, float*)", 3, pytest.approx(1.5e-3))
    assert one.flops is None
    assert [(p.name, p.count, p.time_s) for p in found.phases] == [
        ("cudaMalloc", 4, pytest.approx(7.5e-3)),
        ("[CUDA memcpy HtoD]", 1, pytest.approx(1e-4)),
    ]


def test_a_summary_without_units_gives_no_times() -> None:
    found = read_text(SUMMARY.splitlines()[0] + '\n"GPU activities",90.0,1.5,3,5.0,4.0,6.0,"k"\n')
    assert found.is_empty
    assert "2: row without a name, a time or calls" in found.warnings


def test_metrics_and_times_of_one_kernel_meet() -> None:
    found = read_text(
        SUMMARY
        + '"GPU activities",90.0,6.0,3,2000.0,4.0,6.0,"k"\n'
        + METRICS
        + "\n"
        + metric("flop_count_sp", "100", "k")
    )
    [one] = found.kernels
    assert (one.launches, one.flops, one.time_s) == (3, 300.0, pytest.approx(6e-3))


def test_metrics_of_their_own_run_speak_for_the_calls_that_were_timed() -> None:
    times = SUMMARY + '"GPU activities",90.0,6.0,3,2000.0,4.0,6.0,"k"\n'
    [one] = read_text(times * 2 + METRICS + "\n" + metric("flop_count_sp", "100", "k", invocations=1)).kernels
    assert (one.launches, one.flops, one.time_s) == (6, 600.0, pytest.approx(12e-3))


def test_metrics_of_several_gpus_add_up() -> None:
    rows = [
        metric("flop_count_sp", value).replace("(1)", f"({gpu})") for gpu, value in ((0, "10"), (1, "20"))
    ]
    [one] = read_text(METRICS + "\n" + "\n".join(rows)).kernels
    assert (one.launches, one.flops) == (6, 90.0)


def test_summaries_for_people_are_read() -> None:
    found = read_text(
        "==1== NVPROF is profiling process 1, command: ./a\nprogram says 3.5\n==1== Profiling result:\n"
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        " GPU activities:   99.94%  1.50000s      3  500.00ms  400.00ms  600.00ms  void k<int>(int, int*)\n"
        "                    0.06%  4.7360us         2  2.3680us  2.3000us  2.4000us  [CUDA memset]\n"
        "      API calls:   60.00%  208.75ms         6  34.791ms  13.106us  207.62ms  cudaMalloc\n"
        "                   40.00%  100.00us         1  100.00us  100.00us  100.00us  cudaFree\n"
    )
    [one] = found.kernels
    assert (one.name, one.launches, one.time_s) == ("void k<int>(int, int*)", 3, 1.5)
    assert {p.name for p in found.phases} == {"[CUDA memset]", "cudaMalloc", "cudaFree"}


def test_old_summaries_have_api_calls_in_a_section_of_their_own() -> None:
    found = read_text(
        "==1== Profiling result:\nTime(%)      Time     Calls       Avg       Min       Max  Name\n"
        " 99.94%  718.11ms       301  2.3857ms  2.3662ms  2.4220ms  matrixMulCUDA(float*, float*, int)\n"
        "\n==1== API calls:\nTime(%)      Time     Calls       Avg       Min       Max  Name\n"
        " 51.00%  700.00ms         1  700.00ms  700.00ms  700.00ms  cudaEventSynchronize\n"
    )
    assert [(k.launches, k.time_s) for k in found.kernels] == [(301, pytest.approx(0.71811))]
    assert [p.name for p in found.phases] == ["cudaEventSynchronize"]


TRACE = (
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread",'
    '"Static SMem","Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream",'
    '"Name","Correlation_ID"\nms,us,,,,,,,,KB,B,KB,GB/s,,,,,,,\n'
)


def test_a_trace_gives_each_launch() -> None:
    found = read_text(
        START
        + TRACE
        + '1.5,20.0,,,,,,,,,,1.003906,0.5,"Device",,"P100 (0)","1","7","[CUDA memset]",272\n'
        + '2.5,30.0,4,5,1,32,8,1,32,0.5,0,,,,,"P100 (0)","1","7","k(int, float*) [281]",281\n'
    )
    [launch] = found.launches
    assert (launch.name, launch.start_s, launch.time_s) == ("k(int, float*)", 2.5e-3, pytest.approx(3e-5))
    assert launch.problem == "grid (4, 5, 1), block (32, 8, 1)"
    [fill] = found.phases
    assert fill.bytes == pytest.approx(1028, abs=0.1)  # nvprof's KB are 1024 bytes


def test_a_trace_for_people_gives_each_launch() -> None:
    found = read_text(
        "==2== Profiling result:\n"
        "   Start  Duration            Grid Size      Block Size     Regs*  SSMem*  DSMem*"
        "      Size  Throughput           Device   Context    Stream  Name\n"
        "278.93ms  40.160us                    -               -         -         -         -  320.00KB"
        "  7.5990GB/s  Tesla K40c (0)         1         7  [CUDA memcpy HtoD]\n"
        "282.11ms  96.000us             (20 10 1)       (32 32 1)        29  8.1920KB        0B         -"
        "           -  Tesla K40c (0)         1         7  void mm<int=32>(float*, int) [114]\n"
    )
    [launch] = found.launches
    assert (launch.name, launch.time_s) == ("void mm<int=32>(float*, int)", pytest.approx(96e-6))
    assert [p.name for p in found.phases] == ["[CUDA memcpy HtoD]"]


def test_a_trace_of_metrics_gives_the_flops_of_each_launch() -> None:
    found = read_text(
        '"Device","Context","Stream","Kernel","Correlation_ID","flop_count_sp","dram_read_transactions",'
        '"dram_write_transactions"\n,,,,,,,\n"P100 (0)","1","7","k",5,200,3,4\n'
    )
    [launch] = found.launches
    assert (launch.flops, launch.bytes) == (200.0, {"dram": 224.0})


@pytest.mark.parametrize("missing", [1, 2, 12, 40, 70])
def test_a_cut_last_row_is_left_out_and_its_line_said(missing: int) -> None:
    content = (
        METRICS + "\n" + metric("flop_count_sp", "100") + "\n" + metric("flop_count_dp", "123456")[:-missing]
    )
    found = read_text(content)
    assert found.kernels[0].flops == 300.0
    assert "3: " in found.warnings


def test_messages_are_handed_on() -> None:
    found = read_text("==7== NVPROF is profiling process 7\n==7== Warning: No kernels were profiled.\n")
    assert found.is_empty
    assert "2: nvprof: No kernels were profiled." in found.warnings
    assert (
        "replayed" not in read_text("==7== Warning: Some kernel(s) will be replayed on device 0\n").warnings
    )


def test_missing_permission_comes_with_the_fix() -> None:
    found = read_text("==7== Warning: The user does not have permission to profile. ERR_NVGPUCTRPERM\n")
    assert "NVreg_RestrictProfilingToAdminUsers=0" in found.warnings


GOOD = (
    START
    + METRICS
    + "\n"
    + metric("flop_count_sp", "123456")
    + "\n"
    + SUMMARY
    + '"GPU activities",9,6.25,3,2,4,6,"k"\n'
)


@given(st.integers(1, len(GOOD)))
def test_a_file_cut_anywhere_holds_only_true_values(at: int) -> None:
    for kernel in read_text(GOOD[:at]).kernels:
        assert kernel.flops in (None, 3 * 123456.0)
        assert kernel.time_s in (None, 6.25e-3)


TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\n\r\t"), min_size=1)


@given(st.integers(0, len(GOOD)), st.integers(0, 40), TEXT)
def test_a_damaged_file_is_read(at: int, length: int, junk: str) -> None:
    found = read_text(GOOD[:at] + junk + GOOD[at + length :])
    assert all(kernel.launches > 0 for kernel in found.kernels)


@given(st.lists(st.tuples(st.integers(0, 99), TEXT), max_size=4))
def test_what_a_program_says_between_the_rows_costs_none_of_them(said: list[tuple[int, str]]) -> None:
    lines = GOOD.splitlines()
    for at, text in said:
        lines.insert(at % (len(lines) + 1), "a program says " + "".join(text.splitlines()))
    assert read_text("\n".join(lines)).kernels == read_text(GOOD).kernels
