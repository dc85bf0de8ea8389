"""Nsight Compute's pages: what is around their tables, rows cut short, pages of every kind."""

from __future__ import annotations

import pytest
from roofline_agent.recorded.ncu import reader as ncu
from roofline_agent.recorded.ncu.other_lines import PERMISSION

from .gpu_pages import HEADER, read_text, rows


def test_output_of_the_program_and_messages_may_stand_anywhere() -> None:
    first = rows(("dram__bytes.sum", "byte", "10"), key=0)
    second = rows(("dram__bytes.sum", "byte", "20"), key=1)
    table = f"{HEADER}\n{first}\nstep 1, loss 2\n==WARNING== hot\n{second}\nbye\n"
    content = f"hello, world\n==PROF== Connected\n{table}"
    found = read_text(b"\xef\xbb\xbf" + content.replace("\n", "\r\n").encode())
    [one] = found.kernels
    assert (one.launches, one.bytes["dram"]) == (2, 30.0)
    assert found.warnings == "6: ncu: hot"


def test_appended_runs_add_up_even_with_the_same_ids() -> None:
    run = f"{HEADER}\n{rows(('dram__bytes.sum', 'byte', '10'))}\n"
    [one] = read_text(run * 3).kernels
    assert (one.launches, one.bytes["dram"]) == (3, 30.0)


def test_kernel_names_may_hold_commas_quotes_and_line_ends() -> None:
    row = rows(("dram__bytes.sum", "byte", "10"), kernel='a<b, c>(""x"",\nint)')
    [one] = read_text(f"{HEADER}\n{row}\n{rows(('lts__t_bytes.sum', 'byte', '7'), key=1)}\n").kernels[:1]
    assert one.name == 'a<b, c>("x",\nint)'
    assert one.bytes["dram"] == 10.0


def test_an_open_quote_ends_where_the_profiler_speaks_or_a_row_begins() -> None:
    row = rows(("dram__bytes.sum", "byte", "10"))
    found = read_text(f'"it said\n==WARNING== hot\n"and again\n{HEADER}\n{row}\n')
    assert found.kernels[0].bytes["dram"] == 10.0
    assert "1: row cut short" in found.warnings
    assert "2: ncu: hot" in found.warnings


def test_rule_rows_have_no_metrics() -> None:
    header = HEADER + ',"Rule Name","Rule Type","Rule Description"'
    rule = rows(("", "", "")) + ',"SOLBottleneck","OPT","Look, at ""this"""'
    [one] = read_text(f"{header}\n{rows(('dram__bytes.sum', 'byte', '10'))},\n{rule}\n").kernels
    assert (one.launches, one.bytes["dram"]) == (1, 10.0)


@pytest.mark.parametrize("missing", [1, 3, 4, 8, 30])
def test_a_cut_last_row_leaves_its_launch_out_and_names_the_line(missing: int) -> None:
    whole = rows(("dram__bytes.sum", "byte", "1,000"), ("gpu__time_duration.sum", "ns", "50"), key=0)
    cut = rows(("dram__bytes.sum", "byte", "1,000"), ("gpu__time_duration.sum", "ns", "50"), key=1)[:-missing]
    found = read_text(f"{HEADER}\n{whole}\n{cut}")
    [one] = found.kernels
    assert (one.launches, one.bytes["dram"]) == (1, 1000.0)
    assert "5: row " in found.warnings
    assert "4: a launch of which not every row is there" in found.warnings


def test_a_file_cut_between_two_rows_of_a_launch_leaves_it_out() -> None:
    whole = rows(("dram__bytes.sum", "byte", "1,000"), ("gpu__time_duration.sum", "ns", "50"), key=0)
    part = rows(("dram__bytes.sum", "byte", "1,000"), key=1)
    [one] = read_text(f"{HEADER}\n{whole}\n{part}\n").kernels
    assert one.launches == 1


def test_a_cut_row_of_a_wide_page_is_left_out() -> None:
    wide = (
        '"ID","Process ID","Kernel Name","dram__bytes.sum","gpu__time_duration.sum"\n"","","","byte","us"\n'
        '"0","7","k","2","4"\n"1","7","k","2"\n'
    )
    found = read_text(wide)
    assert found.kernels[0].launches == 1
    assert "4: row with another number of columns" in found.warnings


def test_summary_pages_print_means_over_invocations() -> None:
    header = (
        '"Process ID","Process Name","Host Name","Kernel Name","Block Size","Grid Size","Device","CC",'
        '"Invocations","Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"'
    )
    line = (
        '"1","app","h","k(int)","(1, 1, 1)","(2, 1, 1)","0","8.0","4","S","Duration","us","1.0","3.0","2.0"'
    )
    [one] = read_text(f"{header}\n{line}\n").kernels
    assert (one.launches, one.time_s) == (4, pytest.approx(8e-6))
    damaged = line.replace('"4"', '"0"')
    assert read_text(f"{header}\n{damaged}\n").kernels == []


def test_session_page_describes_the_machine() -> None:
    found = read_text(
        'Launch Settings\n"Launch Attribute","Value"\n"Profiler Command Line","ncu --set full ./app"\n\n'
        '"Session Attribute","Value"\n"Nsight Compute Target","2025.2.1.0 (build 35987062)"\n'
        '"Device Attribute","Device 0"\n"display_name","NVIDIA B200"\n"compute_capability_major","10"\n'
        '"compute_capability_minor","0"'
    )
    assert found.version == "2025.2.1.0"
    assert found.facts["device"] == "NVIDIA B200"
    assert found.facts["compute_capability"] == "10.0"
    assert "--page raw" in found.warnings


def test_errors_only_are_handed_on() -> None:
    found = read_text(
        "==PROF== Connected to process 1 (a)\n==ERROR== The application returned an error code (1).\n"
    )
    assert found.is_empty
    assert "2: ncu: The application returned an error code (1)." in found.warnings
    assert "nothing was profiled" in found.warnings


def test_missing_permission_comes_with_the_fix() -> None:
    found = read_text(
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Counters\n"
    )
    assert PERMISSION in found.warnings


def test_gemm_line_of_the_program_is_a_fact_only_if_it_agrees_with_itself() -> None:
    table = f"{HEADER}\n{rows(('dram__bytes.sum', 'byte', '10'))}\n"
    found = read_text("2208    2048    5608    0       358.154755      141.598150\n" + table)
    assert found.facts["application_flops_per_s"] == pytest.approx(1.41598e14, rel=1e-3)
    for other in ("2208 2048 5608 0 358.154755 200.0\n", "1 2 3 4 0.0 6.0\n"):
        assert "application_flops_per_s" not in read_text(other + table).facts


def test_other_metrics_become_counters_in_base_units() -> None:
    found = read_text(
        f"{HEADER}\n{rows(('lts__t_sector_hit_rate.pct', '%', '95.40'), ('DRAM Frequency', 'Ghz', '3.99'))}\n"
    )
    rate, clock = found.counters
    assert (rate.value, rate.unit, rate.printed, rate.printed_unit) == (pytest.approx(0.954), "1", 95.4, "%")
    assert (clock.value, clock.unit, clock.scope, clock.kind) == (
        pytest.approx(3.99e9),
        "Hz",
        "gpu 0",
        "gauge",
    )


def test_counters_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu, "MAX_COUNTERS", 3)
    lines = "\n".join(rows((f"x__y{i}.sum", "", "1"), key=i) for i in range(9))
    found = read_text(f"{HEADER}\n{lines}\n")
    assert len(found.counters) == 3
    assert "more than 3 other metrics" in found.warnings
    assert found.kernels[0].launches == 9


def test_columns_may_be_few_and_in_another_order() -> None:
    content = (
        '"Metric Value","Metric Name","Metric Unit","Kernel Name"\n'
        '"5","gpu__time_duration.sum","ns","k"\n"9","dram__bytes.sum","Kbyte","k"\n'
        '"7","gpu__time_duration.sum","ns","k"\n"9","dram__bytes.sum","Kbyte","k"\n"1","x"\n'
    )
    found = read_text(content)
    assert ncu.sniff(content) > 90
    assert "6: row with too few columns" in found.warnings
    assert [launch.time_s for launch in found.launches] == [pytest.approx(5e-9)]  # the last one is cut


def test_a_page_without_names_of_kernels_is_one_kernel() -> None:
    content = '"Metric Name","Metric Unit","Metric Value"\n"gpu__time_duration.sum","nsecond","2,000"\n'
    [one] = read_text(content * 2).kernels
    assert (one.name, one.launches, one.time_s) == ("(no name)", 2, pytest.approx(4e-6))


def test_a_repeated_metric_begins_a_launch_where_there_are_no_ids() -> None:
    rows_ = '"k","gpu__time_duration.sum","ns","5"\n"k","dram__bytes.sum","byte","9"\n'
    [one] = read_text('"Kernel Name","Metric Name","Metric Unit","Metric Value"\n' + rows_ * 3).kernels
    assert (one.launches, one.bytes["dram"]) == (3, 27.0)


def test_tables_for_people_are_read() -> None:
    content = (
        "==PROF== Connected to process 5 (app)\n[5] app@127.0.0.1\n"
        "  mm(int, float *) (64, 32, 1)x(16, 16, 1), Context 1, Stream 7, Device 0, CC 8.9\n"
        "    Section: GPU Speed Of Light Throughput\n"
        "    ----------------------- ------------- -------------\n"
        "    Metric Name               Metric Unit  Metric Value\n"
        "    ----------------------- ------------- -------------\n"
        "    SM Frequency            cycle/nsecond          1.54\n"
        "    Memory Throughput                   %         98.62\n"
        "    Duration                      msecond         15.64\n"
        "    ----------------------- ------------- -------------\n\n"
        "    OPT   This kernel grid is too small to fill the available resources.\n\n"
        "    Section: Memory Workload Analysis\n"
        "    Memory Throughput     Gbyte/second        200.00\n"
        "    Block Size                                   256\n\n"
        "  void other<int>(T1), 2021-Mar-04 10:11:12, Context 1, Stream 7\n"
        "    Section: Command line profiler metrics\n"
        "    gpu__time_duration.sum                usecond           4.50\n"
    )
    found = read_text(content)
    assert ncu.sniff(content[38:]) == 90
    first, second = found.kernels
    assert (first.name, first.time_s) == ("mm(int, float *)", pytest.approx(15.64e-3))
    assert first.bytes == {"dram": pytest.approx(15.64e-3 * 200e9)}
    assert found.launches[0].problem == "grid (64, 32, 1), block (16, 16, 1)"
    assert (second.name, second.time_s) == ("void other<int>(T1)", pytest.approx(4.5e-6))
    assert found.facts["compute_capability"] == "8.9"


def test_a_wide_header_longer_than_the_head_is_recognised() -> None:
    header = '"ID","Process ID","Kernel Name",' + ",".join(f'"unit__metric_{i}.sum"' for i in range(9000))
    assert ncu.sniff(header[: 1 << 16]) == 95


@pytest.mark.parametrize(
    "piece", ['"Kernel Name",__a.', "Metric Name,", "ID,", " Section: -", "==", '"', " "]
)
def test_long_lines_of_nonsense_take_no_time(piece: str) -> None:
    """Would run for minutes if a pattern went back and forth over them."""
    text = piece * (60_000 // len(piece))
    assert ncu.sniff(text) <= 95
    read_text("x" + text + "\n" + HEADER + "\n" + text)


def test_table_without_quotes_may_have_few_columns() -> None:
    content = "starting, up\nID,Kernel Name,Metric Name,Metric Unit,Metric Value\n" + (
        '0,"k<1, 2>",dram__bytes.sum,Kbyte,"1,024"\nloss, 2\n0,"k<1, 2>",gpu__time_duration.sum,us,2\n'
    )
    assert ncu.sniff(content) == 95
    [one] = read_text(content).kernels
    assert (one.name, one.bytes["dram"], one.time_s) == ("k<1, 2>", 1_024_000.0, pytest.approx(2e-6))


def test_pivot_of_a_table_without_kernels_and_units_is_no_page() -> None:
    assert ncu.sniff("Metric Name,dram__bytes.sum,gpu__time_duration.sum\n0,505984.0,8256.0\n") == 0


def test_grouping_points_alone_tell_a_locale_with_decimal_commas() -> None:
    bytes_and_time = (("dram__bytes.sum", "byte", "27.595.520"), ("gpu__time_duration.sum", "ns", "117.344"))
    [one] = read_text(f"{HEADER}\n{rows(*bytes_and_time)}\n").kernels
    assert (one.bytes["dram"], one.time_s) == (27_595_520.0, pytest.approx(117.344e-6))


def test_table_for_people_may_have_lost_its_indentation() -> None:
    content = (
        "```\nk(int) (4, 4, 1)x(8, 1, 1), Context 1, Stream 7, Device 0, CC 7.5\n"
        "Section: GPU Speed Of Light Throughput\n------------- ----------- ------------\n"
        "Metric Name   Metric Unit Metric Value\n------------- ----------- ------------\n"
        "Duration          msecond        46.31\n------------- ----------- ------------\n```\n"
    )
    assert ncu.sniff(content) == 90
    [one] = read_text(content).kernels
    assert (one.name, one.time_s) == ("k(int)", pytest.approx(46.31e-3))


@pytest.mark.parametrize("many", [1, 40])  # one by one, and in columns
def test_gpus_and_processes_that_are_taken_for_one_rank_are_warned_of(many: int) -> None:
    launches = [rows(("gpu__time_duration.sum", "us", "5"), key=str(at)) for at in range(2 * many)]
    second = [one.replace('"77"', '"78"').replace('"0","8.0"', '"1","8.0"') for one in launches[many:]]
    text = "\n".join([HEADER, *launches[:many], *second])
    found = read_text(text + "\n")
    assert "kernels of 2 GPUs" in found.warnings and "kernels of 2 processes" in found.warnings
    assert "may be" not in read_text("\n".join([HEADER, *launches]) + "\n").warnings
