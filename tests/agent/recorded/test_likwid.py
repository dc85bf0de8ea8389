"""LIKWID: tables, CSV and time lines; each value once and in base units."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.errors import RecordedError
from roofline_agent.recorded.likwid import reader as likwid
from roofline_agent.recorded.likwid.metrics import event, metric

from .reading import numbers_in, read_text, said


def read(content: str, companions: tuple[str, ...] = ()) -> Collector:
    return read_text(likwid.read, content, companions)


def values(found: Collector, name: str) -> list[float | None]:
    return [c.value for c in found.counters if name in (c.metric, c.event)]


# --- the recorded files and their numbers


# --- tables

TABLE = """\
--------------------------------------------------------------------------------
CPU name:\tSome CPU
CPU type:\tSome processor
CPU clock:\t2.50 GHz
--------------------------------------------------------------------------------
Region triad, Group 1: MEM_DP
+-------------------+----------+----------+
|    Region Info    | HWThread 0 | HWThread 1 |
+-------------------+----------+----------+
| RDTSC Runtime [s] | 2.000000 | 1.900000 |
|     call count    |        3 |        3 |
+-------------------+----------+----------+
+------------------------------------------+---------+------------+------------+
|                   Event                  | Counter | HWThread 0 | HWThread 1 |
+------------------------------------------+---------+------------+------------+
|             INSTR_RETIRED_ANY            |  FIXC0  |       1000 |       2000 |
|    FP_ARITH_INST_RETIRED_SCALAR_DOUBLE   |   PMC0  |        100 |        200 |
| FP_ARITH_INST_RETIRED_256B_PACKED_DOUBLE |   PMC1  |         10 |         20 |
|               CAS_COUNT_RD               | MBOX0C0 |       1000 |          0 |
+------------------------------------------+---------+------------+------------+

+-----------------------------------------------+---------+------+------+------+------+
|                     Event                     | Counter |  Sum |  Min |  Max |  Avg |
+-----------------------------------------------+---------+------+------+------+------+
|             INSTR_RETIRED_ANY STAT            |  FIXC0  | 3000 | 1000 | 2000 | 1500 |
|    FP_ARITH_INST_RETIRED_SCALAR_DOUBLE STAT   |   PMC0  |  300 |  100 |  200 |  150 |
+-----------------------------------------------+---------+------+------+------+------+

+-----------------------------------+------------+------------+
|               Metric              | HWThread 0 | HWThread 1 |
+-----------------------------------+------------+------------+
|        Runtime (RDTSC) [s]        |     2.0000 |     1.9000 |
|            Clock [MHz]            |  2500.0000 |  2400.0000 |
|            DP [MFLOP/s]           |     0.0001 |     0.0002 |
|  Memory read data volume [GBytes] |     0.5000 |          0 |
| Memory write data volume [GBytes] |     0.2500 |          0 |
|    Memory data volume [GBytes]    |     0.7500 |          0 |
|     Memory bandwidth [MBytes/s]   |   375.0000 |          0 |
|             Energy [J]            |    80.0000 |          0 |
+-----------------------------------+------------+------------+

+----------------------------------------+--------+--------+--------+--------+
|                 Metric                 |   Sum  |   Min  |   Max  |   Avg  |
+----------------------------------------+--------+--------+--------+--------+
|        Runtime (RDTSC) [s] STAT        | 3.9000 | 1.9000 | 2.0000 | 1.9500 |
|    Memory data volume [GBytes] STAT    | 0.7500 |      0 | 0.7500 | 0.3750 |
+----------------------------------------+--------+--------+--------+--------+
"""

CSV = """\
STRUCT,Info,3,
CPU name:,Some CPU,,
CPU type:,Some processor,,
CPU clock:,2.5 GHz,,
TABLE,Group 1 Raw,MEM_DP,3
Event,Counter,HWThread 0,HWThread 1
INSTR_RETIRED_ANY,FIXC0,1000,2000
FP_ARITH_INST_RETIRED_SCALAR_DOUBLE,PMC0,100,200
FP_ARITH_INST_RETIRED_256B_PACKED_DOUBLE,PMC1,10,20
TABLE,Group 1 Raw STAT,MEM_DP,1,,
Event,Counter,Sum,Min,Max,Avg
INSTR_RETIRED_ANY STAT,FIXC0,3000,1000,2000,1500
TABLE,Group 1 Metric,MEM_DP,4
Metric,HWThread 0,HWThread 1,
Runtime (RDTSC) [s],2.0,1.9,
DP [MFLOP/s],0.0001,0.0002,
Memory data volume [GBytes],0.75,0,
TABLE,Group 1 Metric STAT,MEM_DP,4,,
Metric,Sum,Min,Max,Avg,
Memory data volume [GBytes] STAT,0.75,0,0.75,0.375,
"""


@pytest.mark.parametrize("content", [TABLE, CSV])
def test_rates_are_levels_and_amounts_are_totals(content: str) -> None:
    kinds = {c.metric: c.kind for c in read(content).counters}
    assert kinds["flops_per_s.f64"] == "gauge"
    assert kinds["dram_bytes"] == kinds["INSTR_RETIRED_ANY"] == kinds["flops.f64.scalar"] == "total"


@pytest.mark.parametrize("content", [TABLE, CSV])
def test_threads_are_summed_once_to_a_point(content: str) -> None:
    found = read(content)
    assert likwid.sniff(content) == 90
    assert found.run is not None
    assert found.run.time_s == 2.0
    assert found.run.flops == 300 + 30 * 4
    assert found.run.bytes == {"dram": 0.75e9}
    assert found.run.precision == "f64"
    assert values(found, "INSTR_RETIRED_ANY") == [1000, 2000]
    assert values(found, "dram_bytes") == [0.75e9, 0]


def test_region_is_a_kernel_with_its_calls() -> None:
    (kernel,) = read(TABLE).kernels
    assert (kernel.name, kernel.launches, kernel.time_s, kernel.flops) == ("triad", 3, 2.0, 420)


def test_unit_of_each_row_is_applied() -> None:
    found = read(TABLE)
    first = {c.event: c for c in found.counters if c.scope == "region triad, hwthread 0"}
    assert first["Clock [MHz]"].value == 2.5e9
    bandwidth = first["Memory bandwidth [MBytes/s]"]
    assert (bandwidth.value, bandwidth.unit) == (375e6, "byte/s")
    assert first["Energy [J]"].metric == "energy_package_joules"
    assert first["DP [MFLOP/s]"].value == pytest.approx(100)
    assert first["Memory data volume [GBytes]"].printed == 0.75
    assert first["Memory data volume [GBytes]"].printed_unit == "GBytes"


@pytest.mark.parametrize(
    ("name", "ours", "factor", "unit"),
    [
        ("DP MFLOP/s", "flops_per_s.f64", 1e6, "FLOP/s"), ("SP [MFLOP/s]", "flops_per_s.f32", 1e6, "FLOP/s"),
        ("AVX DP [MFLOP/s]", "flops_per_s.f64.avx", 1e6, "FLOP/s"),
        ("L3 data volume [GBytes]", "l3_bytes", 1e9, "byte"),
        ("Power DRAM [W]", "Power DRAM", 1, "W"), ("Energy DRAM [J]", "energy_dram_joules", 1, "J"),
        ("Memory load data volume [GBytes]", "dram_read_bytes", 1e9, "byte"),  # client processors
        ("Memory evict bandwidth [MBytes/s]", "dram_write_bytes_per_s", 1e6, "byte/s"),
        ("Memory writeback data volume [GBytes]", "dram_write_bytes", 1e9, "byte"),  # Knights Landing, Atoms
        ("Memory writeback bandwidth [MBytes/s]", "dram_write_bytes_per_s", 1e6, "byte/s"),
        ("Vectorization ratio [%]", "Vectorization ratio", 0.01, "1"), ("CPI", "CPI", 1, "1"),
        ("Packed [MUOPS/s]", "Packed", 1e6, "1/s"), ("Temperature [C]", "Temperature", 1, "C"),
        ("Operational intensity [FLOP/Byte]", "Operational intensity", 1, "FLOP/Byte"),
        ("Memory data volume (channels 0-3) [GBytes]", "Memory data volume (channels 0-3)", 1e9, "byte"),
    ],
)  # fmt: skip
def test_metric_has_our_name_and_a_base_unit(name: str, ours: str, factor: float, unit: str) -> None:
    means = metric(name)
    assert (means.metric, means.factor, means.unit) == (ours, pytest.approx(factor), unit)


def test_flop_events_count_flops() -> None:
    assert event("FP_ARITH_INST_RETIRED_512B_PACKED_SINGLE").factor == 16
    assert event("RETIRED_SSE_AVX_FLOPS_ALL").metric == "flops.all.all"
    assert event("PWR_PKG_ENERGY").unit == "J"


GPU = """\
Region saxpy, Group 1: FLOPS_SP
| Event | Counter | GPU 0 | GPU 1 |
| SMSP_SASS_THREAD_INST_EXECUTED_OP_FADD_PRED_ON_SUM | GPU0 | 10 | 0 |
| SMSP_SASS_THREAD_INST_EXECUTED_OP_FFMA_PRED_ON_SUM | GPU2 | 100 | 200 |
| Metric | GPU 0 | GPU 1 |
| Runtime (RDTSC) [s] | 0.0108 | 0.0100 |
| SP [MFLOP/s] | 0.0194 | 0.0400 |
"""


def test_instructions_of_a_gpu_are_flops_and_fma_are_two() -> None:
    found = read(GPU)
    assert likwid.sniff(GPU) == 90
    assert values(found, "flops.f32.fma") == [200, 400]
    assert {c.scope for c in found.counters} == {"region saxpy, gpu 0", "region saxpy, gpu 1"}
    assert found.run is not None
    assert (found.run.flops, found.run.precision) == (610, "f32")


def test_zeros_of_a_cpu_without_a_clock_are_no_values() -> None:
    # Seen in virtual machines, where LIKWID cannot measure the clock that it divides by.
    zero = TABLE.replace("2.50 GHz", "0.00 GHz").replace("2.0000 |     1.9000", "0 |     0")
    found = read(zero.replace("2.000000 | 1.900000", "0 | 0").replace("375.0000", "0"))
    assert values(found, "Runtime (RDTSC)") == [None, None]
    assert values(found, "dram_bytes_per_s") == [None, None]
    assert values(found, "dram_bytes") == [0.75e9, 0]
    assert said(found, "0 GHz")
    assert found.run is not None
    assert (found.run.time_s, found.run.flops) == (None, 420)


def test_flops_come_from_rate_and_time_where_no_event_is_listed() -> None:
    only_metrics = (
        TABLE[: TABLE.index("+------------------------------------------+---------+")]
        + TABLE[TABLE.index("+-----------------------------------+") :]
    )
    run = read(only_metrics).run
    assert run is not None
    assert run.flops == pytest.approx(100 * 2.0 + 200 * 1.9)


def test_what_likwid_could_not_count_has_no_value_and_no_sum() -> None:
    found = read(TABLE.replace("|        100 |", "|      -     |"))
    assert None in values(found, "flops.f64.scalar")
    assert found.run is not None
    assert found.run.flops is None
    assert said(found, "could not count")


def test_sums_alone_are_taken() -> None:
    stat = TABLE[TABLE.rindex("+----------------------------------------+") - 400 :]
    stat = stat[stat.index("+----------------------------------------+") :]
    found = read("Group 1: MEM\n" + stat)
    assert [(c.metric, c.value, c.scope) for c in found.counters] == [
        ("Runtime (RDTSC)", 2.0, "all hwthreads"), ("dram_bytes", 0.75e9, "all hwthreads"),
    ]  # fmt: skip
    assert found.run is not None
    assert found.run.bytes == {"dram": 0.75e9}


def test_same_table_again_is_another_run() -> None:
    found = read(TABLE + TABLE)
    assert found.run is None
    assert [k.flops for k in found.kernels] == [420, 420]
    assert said(found, "kernel of its own")


def test_groups_in_turns_are_not_put_together() -> None:
    table = TABLE[TABLE.index("+-----------------------------------+") :]
    found = read("Group 1: MEM\n" + table + "Group 2: FLOPS_DP\n" + table)
    assert found.run is None
    assert {k.name for k in found.kernels} == {"group 1 MEM", "group 2 FLOPS_DP"}


@pytest.mark.parametrize(
    "heading", ["Region: triad\nGroup: 1", "Group 1 MEM_DP: Region triad", "Region triad, Group 1"]
)
def test_headings_of_other_versions_name_the_region(heading: str) -> None:
    (kernel,) = read(TABLE.replace("Region triad, Group 1: MEM_DP", heading)).kernels
    assert kernel.name == "triad"


def test_raw_cas_counts_are_times_64_where_no_volume_is_listed() -> None:
    head = "Group 1: Custom\n| Event | Counter | HWThread 0 |\n"
    found = read(head + "| CAS_COUNT_RD | MBOX0C0 | 1000 |\n| CAS_COUNT_WR | MBOX0C1 | 500 |\n")
    assert found.run is not None
    assert found.run.bytes == {"dram": 1500 * 64}


# --- time lines

HEADER = (
    "# HWThreads: 0|4\n"
    "# GID|MetricsCount|CpuCount|Total runtime [s]|"
    "Runtime (RDTSC) [s]|DP [MFLOP/s]|Memory data volume [GBytes]\n"
)


@pytest.mark.parametrize("sep", [" ", ","])
def test_time_line_adds_up_over_intervals_and_threads(sep: str) -> None:
    rows = ["1 3 2 1.0 1.0 1.0 2 3 0.5 0", "1 3 2 2.0 1.0 1.0 4 5 0.25 0"]
    head = HEADER if sep == " " else HEADER.replace("|", ",")
    found = read(head + "".join(row.replace(" ", sep) + "\n" for row in rows))
    assert found.run is not None
    assert (found.run.time_s, found.run.flops) == (2.0, pytest.approx(14e6))
    assert found.run.bytes == {"dram": 0.75e9}
    second = list(found.counters)[3]
    assert (second.metric, second.value, second.scope, second.t_s) == (
        "flops_per_s.f64",
        3e6,
        "hwthread 4",
        1.0,
    )
    assert second.kind == "gauge"


def test_row_of_a_time_line_with_something_that_is_no_number_keeps_the_others() -> None:
    found = read(HEADER + "1 3 2 1.0 1.0 1.0 2 nan 0.5 -\n1 3 2 2.0 1.0 1.0 1_0 inf 0.5 1e400\n")
    assert [c.value for c in found.counters] == [1, 1, 2e6, None, 0.5e9, None, 1, 1, None, None, 0.5e9, None]


def test_header_in_a_csv_file_names_its_cpus() -> None:
    # As `likwid-perfctr -t 1s -o x.csv` of LIKWID 5.2 writes it.
    found = read("# HWThreads,0,4\n# GID,MetricsCount,CpuCount,Total runtime [s],CPI\n1,1,2,1.0,0.5,0.6\n")
    assert [counter.scope for counter in found.counters] == ["hwthread 0", "hwthread 4"]


def test_header_before_4_3_3_has_no_leading_columns() -> None:
    found = read("# CORES: 0|4\n# Runtime (RDTSC) [s]|Clock [MHz]\n1 2 2 1.0 1.0 1.0 2000 2100\n")
    assert values(found, "Clock") == [2e9, 2.1e9]
    assert {counter.scope for counter in found.counters} == {"hwthread 0", "hwthread 4"}


def test_names_repeated_for_each_cpu_are_understood() -> None:
    head = "# GID|MetricsCount|CpuCount|Total runtime [s]|Clock [MHz]|Clock [MHz]|CPI|CPI\n"
    found = read(head + "1 2 2 1.0 2000 2100 0.5 0.6\n")
    assert values(found, "Clock") == [2e9, 2.1e9]
    assert values(found, "CPI") == [0.5, 0.6]


def test_groups_of_a_time_line_have_their_own_names_and_no_sum() -> None:
    head = (
        "# GID|MetricsCount|CpuCount|Total runtime [s]|Runtime (RDTSC) [s]|Memory data volume [GBytes]\n"
        "# GID|MetricsCount|CpuCount|Total runtime [s]|Runtime (RDTSC) [s]|DP [MFLOP/s]\n"
    )
    found = read(head + "1 2 1 1.0 1.0 7\n2 2 1 2.0 1.0 5\n")
    assert values(found, "dram_bytes") == [7e9]
    assert values(found, "flops_per_s.f64") == [5e6]
    assert found.run is not None
    assert (found.run.flops, dict(found.run.bytes)) == (None, {})
    assert said(found, "in turns")


def test_own_header_counts_more_than_a_companions() -> None:
    other = "# GID|MetricsCount|CpuCount|Total runtime [s]|CPI|Clock [MHz]\n"
    own = "# GID|MetricsCount|CpuCount|Total runtime [s]|Clock [MHz]|CPI\n"
    assert values(read(own + "1 2 1 1.0 2000 0.5\n", (other,)), "Clock") == [2e9]
    assert values(read("1 2 1 1.0 2000 0.5\n", (own,)), "Clock") == [2e9]


def test_companions_that_disagree_name_no_column() -> None:
    first = "# GID|MetricsCount|CpuCount|Total runtime [s]|Clock [MHz]|CPI\n"
    second = "# GID|MetricsCount|CpuCount|Total runtime [s]|CPI|Clock [MHz]\n"
    found = read("1 2 1 1.0 2000 0.5\n", (first, second))
    assert [c.metric for c in found.counters] == ["column 5", "column 6"]
    assert said(found, "several files")
    assert values(read("1 2 1 1.0 2000 0.5\n", (first, "no header", first)), "Clock") == [2e9]


def test_header_without_rows_says_where_they_are() -> None:
    assert said(read(HEADER), "standard error")


# --- fuzz

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=300)
GOOD = TABLE + CSV + HEADER + "1 3 2 1.0 1.0 1.0 2 3 0.5 0\n1 3 2 2.0 1.0 1.0 4 5 0.25 0\n"
quick = settings(suppress_health_check=[HealthCheck.too_slow])


WORDS = st.text(st.characters(exclude_categories=["Cc", "Cs"])).map(lambda text: "a program says " + text)
RATES = st.tuples(st.integers(0, 10**6), st.integers(0, 10**6))  # of both threads


@quick
@given(st.lists(RATES | WORDS, max_size=6), st.sampled_from([" ", ","]))
def test_time_line_is_read_as_written_whatever_a_program_says_between(
    lines: list[tuple[int, int] | str], sep: str
) -> None:
    rows = [one for one in lines if not isinstance(one, str)]
    written = [HEADER.replace("|", sep if sep == "," else "|").rstrip("\n")]
    for at, one in enumerate(lines, 1):
        text = (
            one if isinstance(one, str) else f"1 3 2 {at}.0 1.0 1.0 {one[0]} {one[1]} 0.5 0".replace(" ", sep)
        )
        written.append(text)
    found = read("\n".join(written) + "\n")
    assert values(found, "flops_per_s.f64") == [rate * 1e6 for row in rows for rate in row]
    assert values(found, "dram_bytes") == [0.5e9, 0.0] * len(rows)


@quick
@given(st.integers(0, len(GOOD)), st.integers(0, len(GOOD)), st.text("|,-+\n 0#nan", max_size=5))
def test_of_damaged_output_every_value_stands_in_it(start: int, end: int, put: str) -> None:
    damaged = GOOD[:start] + put + GOOD[end:]
    with contextlib.suppress(RecordedError):
        found = read(damaged)
        assert all(c.value != 0 or c.printed == 0 for c in found.counters)
        assert {abs(c.printed) for c in found.counters if c.printed is not None} <= numbers_in(damaged)
