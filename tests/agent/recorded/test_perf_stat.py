"""`perf stat`: every form it prints, and the traps in its numbers."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.errors import RecordedError
from roofline_agent.recorded.perf import csv as perf_csv
from roofline_agent.recorded.perf import reader as perf_stat
from roofline_agent.recorded.perf.events import meaning
from roofline_agent.recorded.perf.lines import CsvLines
from roofline_agent.recorded.perf.row import grouped_number, scope
from roofline_agent.recorded.recording import Counter

from .reading import numbers_in, read_text, said

MIB = 2**20


def read(content: str | bytes) -> Collector:
    return read_text(perf_stat.read, content)


def only(found: Collector) -> Counter:
    (counter,) = found.counters
    return counter


def value(found: Collector, metric: str) -> float | None:
    (counter,) = [one for one in found.counters if one.metric == metric]
    return counter.value


# --- the recorded files and their numbers


# --- traps

SYSTEM = " Performance counter stats for 'system wide':\n\n"


def test_mib_is_scaled_once() -> None:
    found = read(
        SYSTEM
        + "     80.50 MiB  uncore_imc_0/cas_count_read/\n     19.50 MiB  uncore_imc_0/cas_count_write/\n"
    )
    assert found.run is not None
    assert found.run.bytes == {"dram": 100 * MIB}
    first = next(iter(found.counters))
    assert (first.metric, first.value, first.unit) == ("dram_read_bytes", 80.5 * MIB, "byte")
    assert (first.printed, first.printed_unit, first.scope) == (80.5, "MiB", "node")


@pytest.mark.parametrize(
    ("event", "metric", "size"),
    [
        ("uncore_imc_3/cas_count_read/", "dram_read_bytes", 64),
        ("unc_m_cas_count.wr", "dram_write_bytes", 64),
        ("UNC_M_CAS_COUNT.RD", "dram_read_bytes", 64),
        ("uncore_imc_1/event=0x04,umask=0x03/", "dram_read_bytes", 64),
        ("uncore_imc_1/event=0x5,umask=0xf0/", "dram_write_bytes", 64),
        ("umc_cas_cmd.rd", "dram_read_bytes", 64),
        ("amd_umc_2/umc_cas_cmd.wr/", "dram_write_bytes", 64),
        ("dram_channel_data_controller_3", "dram_bytes", 64),
        ("amd_df/event=0x107,umask=0x38/", "dram_bytes", 64),
        ("local_processor_read_data_beats_cs4", "dram_read_bytes", 64),
        ("nvidia_scf_pmu_0/cmem_rd_data/", "dram_read_bytes", 32),
        ("nvidia_scf_pmu_0/cmem_wr_total_bytes/", "dram_write_bytes", 1),
    ],
)
def test_raw_transfers_are_multiplied_by_their_size(event: str, metric: str, size: int) -> None:
    counter = only(read(f"1000;;{event};5000;100.00;;\n"))
    assert (counter.metric, counter.value, counter.unit) == (metric, 1000 * size, "byte")
    assert counter.printed == 1000


@pytest.mark.parametrize(
    ("event", "metric", "factor"),
    [
        ("fp_arith_inst_retired.scalar_double", "flops.f64.scalar", 1),
        ("fp_arith_inst_retired.128b_packed_double:u", "flops.f64.128", 2),
        ("FP_ARITH_INST_RETIRED.256B_PACKED_DOUBLE", "flops.f64.256", 4),
        ("cpu_core/fp_arith_inst_retired.512b_packed_double/u", "flops.f64.512", 8),
        ("fp_arith_inst_retired.512b_packed_single:uk", "flops.f32.512", 16),
        ("fp_arith_inst_retired2.512b_packed_half", "flops.f16.512", 32),
        ("fp_arith_inst_retired2.scalar_half", "flops.f16.scalar", 1),
        ("r20c7", "flops.f32.256", 8),
        ("r5310c7", "flops.f64.256", 4),
        ("cpu/event=0xc7,umask=0x20/", "flops.f32.256", 8),
        ("cpu/config=0x80c7/u", "flops.f32.512", 16),
        ("cpu/event=0x03,umask=0xff/", "flops.all.all", 1),
        ("fp_ret_sse_avx_ops.all", "flops.all.all", 1),
        ("fp_arith_inst_retired.4_flops", "flops.all.all", 4),
    ],
)
def test_flop_event_counts_its_width_and_fma_is_not_doubled(event: str, metric: str, factor: int) -> None:
    counter = only(read(f"1000;;{event};5000;100.00;;\n"))
    assert (counter.metric, counter.value, counter.unit) == (metric, 1000 * factor, "FLOP")


def test_raw_event_with_a_counter_mask_is_no_flop_event() -> None:
    assert meaning("cpu/event=0xc7,umask=0x20,cmask=1/", "").unit == "1"
    assert meaning("cpu/event=0xc7,umask=0x15/", "").unit == "1"  # kinds of different width


@pytest.mark.parametrize(
    "row",
    [
        "<not counted>,,fp_arith_inst_retired.scalar_double,0,100.00,,\n",
        "   <not counted>      fp_arith_inst_retired.scalar_double   (100.00%)\n",
        '{"counter-value" : "<not counted>", "unit" : "", "event" : "r01c7", "event-runtime" : 0, '
        '"pcnt-running" : 100.00}\n',
        "0,,fp_arith_inst_retired.scalar_double,0,100.00,,\n",  # zero, because it never ran
    ],
)
def test_not_counted_has_no_value_and_not_the_printed_coverage(row: str) -> None:
    found = read(row)
    counter = only(found)
    assert (counter.value, counter.coverage) == (None, 0.0)
    assert found.run is None
    assert said(found, "no FLOPs")


def test_not_supported_has_neither_value_nor_coverage() -> None:
    counter = only(read("<not supported>,,LLC-loads,0,100.00,,\n"))
    assert (counter.value, counter.coverage, counter.printed) == (None, None, None)


def test_multiplexed_value_is_not_scaled_again() -> None:
    counter = only(read("3000,,r01c7,500,50.00,,\n"))
    assert (counter.value, counter.coverage) == (3000, 0.5)


def test_one_width_not_counted_leaves_the_run_without_flops() -> None:
    found = read(
        SYSTEM
        + "  100  fp_arith_inst_retired.scalar_double\n"
        + "  <not counted>  fp_arith_inst_retired.256b_packed_double\n"
        + "\n  2.000000000 seconds time elapsed\n"
    )
    assert found.run is not None
    assert (found.run.flops, found.run.time_s) == (None, 2.0)
    assert said(found, "flops.f64.256")


def test_both_kinds_of_core_are_kept_and_summed() -> None:
    found = read(
        "100,,cpu_core/r01c7/,10,50.00,,\n7,,cpu_atom/r01c7/,10,50.00,,\n"
        "5,,cpu_core/cycles/,10,100.00,,\n9,,cpu_atom/cycles/,10,100.00,,\n"
    )
    assert found.run is not None
    assert found.run.flops == 107
    assert [c.value for c in found.counters if c.metric == "cycles"] == [5, 9]


def test_kind_of_core_that_nothing_ran_on_spoils_no_sum() -> None:
    found = read("100,,cpu_core/r01c7/,10,100.00,,\n<not counted>,,cpu_atom/r01c7/,0,0.00,,\n")
    assert found.run is not None
    assert found.run.flops == 100
    assert said(found, "cpu_atom")


def test_event_in_two_groups_is_summed_once() -> None:
    found = read(
        "1,MiB,uncore_imc_0/cas_count_read/,10,50.00,,\n1,MiB,uncore_imc_0/cas_count_write/,10,50.00,,\n"
        "1,MiB,uncore_imc_0/cas_count_read/,10,50.00,,\n"
    )
    assert found.run is not None
    assert found.run.bytes == {"dram": 2 * MIB}
    assert said(found, "more than once")


def test_composite_flop_event_and_its_parts_count_once() -> None:
    found = read(
        "10,,fp_arith_inst_retired.4_flops,10,100.00,,\n"
        "7,,fp_arith_inst_retired.128b_packed_single,10,100.00,,\n"
    )
    assert found.run is not None
    assert found.run.flops == 40


def test_reads_alone_are_no_dram_traffic() -> None:
    found = read("1,MiB,uncore_imc_0/cas_count_read/,10,100.00,,\n")
    assert found.run is None
    assert said(found, "only reads")


def test_channel_not_counted_leaves_the_run_without_dram_bytes() -> None:
    found = read(
        "1,MiB,uncore_imc_0/cas_count_read/,10,100.00,,\n1,MiB,uncore_imc_0/cas_count_write/,10,100.00,,\n"
        "<not counted>,MiB,uncore_imc_1/cas_count_read/,0,100.00,,\n"
    )
    assert found.run is None
    assert said(found, "no DRAM bytes")


def test_amx_at_work_makes_flops_incomplete() -> None:
    found = read("5,,exe.amx_busy,10,100.00,,\n1,,fp_arith_inst_retired.scalar_double,10,100.00,,\n")
    assert said(found, "AMX")
    assert found.run is not None
    assert "AMX" in found.run.note


def test_nested_cgroups_are_not_added() -> None:
    found = read("5,,r01c7,/a,10,100.00,,\n5,,r01c7,/a/b,10,100.00,,\n")
    assert said(found, "cgroups")
    assert found.run is None
    assert [c.scope for c in found.counters] == ["cgroup /a", "cgroup /a/b"]


# --- -x


@pytest.mark.parametrize("sep", [",", ";", "\t", "|", ":", "!", "@", "^", "~", " ", "::", "|||"])
def test_any_separator_is_found_from_the_lines(sep: str) -> None:
    event = "cpu/event=0xc7,umask=0x10/"
    rows = [
        ["1000", "", event, "5000", "50.00", "", ""],
        ["12.50", "MiB", "amd_x/y/", "5000", "100.00", "", ""],
    ]
    found = read("an application's line\n" + "".join(sep.join(row) + "\n" for row in rows))
    flops, moved = found.counters
    assert (flops.event, flops.value, flops.coverage) == (event, 4000, 0.5)
    assert (moved.event, moved.value, moved.unit) == ("amd_x/y/", 12.5 * MIB, "byte")


def test_modifiers_survive_a_colon_as_separator() -> None:
    assert only(read("1000::instructions:u:5000:100.00::\n")).event == "instructions:u"


@pytest.mark.parametrize(
    ("row", "where"),
    [
        ("S1,24,1000,,cycles,10,100.00,,", "socket 1"),
        ("S0-D0,24,1000,,cycles,10,100.00,,", "die S0-D0"),
        ("S0-D0-C11,2,1000,,cycles,10,100.00,,", "core S0-D0-C11"),
        ("S0-C3,2,1000,,cycles,10,100.00,,", "core S0-C3"),
        ("N1,8,1000,,cycles,10,100.00,,", "numa 1"),
        ("CPU12,1000,,cycles,10,100.00,,", "cpu 12"),
        ("my app-1234,1000,,cycles,10,100.00,,", "thread my app-1234"),
        ("1000,,cycles,/sys/job,10,100.00,,", "cgroup /sys/job"),
        ("S1,4,1000,,cycles,job,10,100.00,,", "socket 1, cgroup job"),
    ],
)
@pytest.mark.parametrize("time", ["", "     1.000100200,"])
def test_place_stands_in_the_scope(row: str, where: str, time: str) -> None:
    counter = only(read(f"{time}{row}\n"))
    assert (counter.scope, counter.value) == (where, 1000)
    assert counter.t_s == (1.0001002 if time else None)
    assert counter.kind == ("delta" if time else "total")


def test_intervals_are_added_and_their_sums_passed_over() -> None:
    found = read(
        "     1.000000000,10,,r01c7,10,100.00,,\n     2.500000000,5,,r01c7,10,100.00,,\n"
        "           summary,15,,r01c7,10,100.00,,\n"
    )
    assert found.run is not None
    assert (found.run.flops, found.run.time_s) == (15, 2.5)
    assert found.facts["summary_rows_skipped"] == 1


def test_rows_of_metrics_and_comments_count_nothing() -> None:
    found = read(
        "# started on Tue Aug  4 02:10:30 2026\n\n"
        "10,,cycles,5,100.00,,\n,5,100.00,,,,TopdownL1\n,,,,,7,%  x\n"
    )
    assert only(found).metric == "cycles"
    assert found.started_ns is not None
    assert found.started_ns % 60_000_000_000 == 30_000_000_000


def appended(*runs: str) -> Collector:
    """`perf stat -I 1000 -x, --append`, twice: the times of each run start again."""
    rows = "".join(f"     {at}.000100000,{at * 10},,cycles,10,100.00,,\n" for at in (1, 2))
    return read("".join(f"{started}\n{rows}" for started in runs))


@pytest.mark.parametrize(
    ("second", "begin"),
    [
        ("# started on Tue Aug  4 02:11:00 2026\n", 30),
        ("# started on Tue Aug  4 02:10:31 2026\n", 2.0001),  # overlaps: behind the first
        ("", 2.0001),
    ],
)
def test_run_appended_to_a_file_is_later(second: str, begin: float) -> None:
    found = appended("# started on Tue Aug  4 02:10:30 2026\n", second)
    expected = [1.0001, 2.0001, begin + 1.0001, begin + 2.0001]
    assert [one.t_s for one in found.counters] == pytest.approx(expected)
    assert said(found, "2 recordings in one file")


def test_run_before_the_first_stamp_is_before_it() -> None:
    found = appended("", "# started on Tue Aug  4 02:10:30 2026\n")
    assert [one.t_s for one in found.counters] == pytest.approx([1.0001, 2.0001, 3.0002, 4.0002])
    assert found.started_ns is not None
    assert found.started_ns % 60_000_000_000 == 30_000_000_000 - 2_000_100_000


def test_run_that_began_before_another_ended_is_said() -> None:
    stamp = "# started on Tue Aug  4 02:10:{} 2026\n"
    assert said(appended(stamp.format(30), stamp.format(20)), "it is placed behind that")
    assert not said(appended(stamp.format(30), stamp.format(32)), "it is placed behind that")


def test_perf_before_units_and_percentages_is_read() -> None:
    found = read("1000,instructions\n<not counted>,LLC-loads\n12.500000,task-clock\n")
    assert [(c.metric, c.value, c.coverage) for c in found.counters] == [
        ("instructions", 1000, None), ("LLC-loads", None, 0.0), ("task-clock", 0.0125, None),
    ]  # fmt: skip


def test_clock_without_a_unit_is_in_nanoseconds_when_whole() -> None:
    assert only(
        read("40006778831,,task-clock,40006778831,100.00,2.000,CPUs utilized\n")
    ).value == pytest.approx(40.006778831)


def test_variance_column_is_no_cgroup() -> None:
    counter = only(read("1000,,instructions,0.50%,5000,100.00,1.5,insn per cycle\n"))
    assert (counter.scope, counter.value) == ("", 1000)


def test_decimal_commas_are_read() -> None:
    counter = only(read("225851,20;msec;task-clock;225850700108;99,50;2,0;CPUs utilized\n"))
    assert (counter.value, counter.coverage) == (pytest.approx(225.8512), pytest.approx(0.995))


# --- -j


def test_broken_json_of_some_versions_is_read() -> None:
    found = read(
        '{"interval" : 1.5, "cpu" : "3", "counter-value" : <not counted>, "event" : "cycles", '
        '"pcnt-running" : 66,57}\n'
        '{"interval" : 1.5, "socket" : "S1", "counter-value" : "12.000000", "unit" : "MiB", '
        '"event" : "uncore_imc/cas_count_read/", "event-runtime" : 9, '
        '"pcnt-running" : 66,57, "metric-value" : nan}\n'
    )
    first, second = found.counters
    assert (first.value, first.scope, first.t_s) == (None, "cpu 3", 1.5)
    assert (second.value, second.scope, second.coverage) == (12 * MIB, "socket 1", pytest.approx(0.6657))


# --- for people


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4,053,377,963", 4053377963), ("4.053.377.963", 4053377963), ("4'053'377", 4053377),
        ("4\u00a0053\u00a0377", 4053377), ("4\u202f053,25", 4053.25), ("4 053 377", 4053377),
        ("226,054.13", 226054.13), ("226.054,13", 226054.13), ("1234.567890", 1234.56789), ("1,234", 1234),
        ("0,123", 0.123), ("12,34", 12.34), ("-5", -5), ("", None), ("1e5x", None),
        ("12,34,567.50", 1234567.5),  # Indian locales
        ("226,054.226,054.13", None), ("1,234.567,890", None), ("1,234.567.890", None), ("1,23,45", None),
        ("1234,567.5", None), ("4,053'377", None),
    ],
)  # fmt: skip
def test_numbers_are_read_as_their_locale_groups_them(text: str, number: float | None) -> None:
    assert grouped_number(text) == number


def test_row_whose_number_is_damaged_is_left_out() -> None:
    damaged = "  226,054.226,054.13 msec cpu-clock\n  1,000 cycles\n"
    found = read(" Performance counter stats for 'x':\n\n" + damaged)
    assert [(c.event, c.value) for c in found.counters] == [("cycles", 1000)]


def test_human_output_of_any_locale_and_version_is_read() -> None:
    found = read(
        " Performance counter stats for './a.out' (5 runs):\n\n"
        "      1\u202f234,50 msec task-clock    #  0,998 CPUs utilized   ( +-  0,05% )\n"
        "      4\u00a0053\u00a0377      cycles:u    #  3,6 GHz   ( +-  0.1% )  (66,57%)\n"
        "      1234.567890      cpu-clock (msec)\n"
        "           42      unc_m_cas_count.rd [uncore_imc_0]\n"
        "           43      branches   /user.slice/job\n"
        "           44      cache-misses     [79.96%]\n"
        "     1,00650 +- 0,00210 seconds time elapsed  ( +-  0,21% )\n"
    )
    clock, cycles, cpu, cas, branches, misses = found.counters
    assert (clock.value, clock.scope) == (pytest.approx(1.2345), "process")
    assert (cycles.value, cycles.coverage) == (4053377, pytest.approx(0.6657))
    assert cpu.value == pytest.approx(1.23456789)
    assert cas.value == 42 * 64
    assert branches.scope == "process, cgroup /user.slice/job"
    assert misses.coverage == pytest.approx(0.7996)
    assert found.run is not None
    assert found.run.time_s == pytest.approx(1.0065)
    assert "mean of 5 runs" in found.run.note


def test_no_break_spaces_of_latin_1_group_digits_too() -> None:
    found = read(SYSTEM.encode() + b"   4\xa0053\xa0377      cycles\n")
    assert only(found).value == 4053377


def test_event_on_the_line_after_its_unit_is_found() -> None:
    found = read(
        SYSTEM + "     2463.16 Joules\n power/energy-pkg/      (100.00%)\n        5   cycles  # 0.0 GHz\n"
    )
    assert [(c.metric, c.value) for c in found.counters] == [
        ("energy_package_joules", 2463.16),
        ("cycles", 5),
    ]


@pytest.mark.parametrize(
    ("column", "where"),
    [
        ("S0  24", "socket 0"),
        ("S0-D0-C1  2", "core S0-D0-C1"),
        ("CPU3", "cpu 3"),
        ("a.out-77", "thread a.out-77"),
    ],
)
def test_human_rows_with_a_place_are_read(column: str, where: str) -> None:
    counter = only(read(SYSTEM + f"{column}        1,234,567      cycles    #  0.1 GHz\n"))
    assert (counter.scope, counter.value) == (where, 1234567)


def test_interval_rows_and_the_block_after_them_are_not_both_counted() -> None:
    rows = (
        "     {t:.9f}      100.00 MiB  uncore_imc/cas_count_read/\n"
        "     {t:.9f}   50.00 MiB  uncore_imc/cas_count_write/\n"
    )
    summary = (
        SYSTEM + "   200.00 MiB  uncore_imc/cas_count_read/\n   100.00 MiB  uncore_imc/cas_count_write/\n"
    )
    found = read(rows.format(t=1.0) + rows.format(t=2.0) + summary + "\n  2.100000000 seconds time elapsed\n")
    assert found.run is not None
    assert (found.run.bytes, found.run.time_s) == ({"dram": 300 * MIB}, 2.1)


def test_two_recordings_in_one_file_are_two_kernels() -> None:
    block = (
        " Performance counter stats for 'a':\n\n  {n}  fp_arith_inst_retired.scalar_double\n\n"
        "  1.0 seconds time elapsed\n"
    )
    found = read(block.format(n=10) + block.format(n=20))
    assert found.run is None
    assert sorted(k.flops or 0 for k in found.kernels) == [10, 20]
    assert said(found, "2 recordings")


def test_program_output_without_events_is_not_recognised() -> None:
    assert perf_stat.sniff("Iteration 12: 100 images\n  10 apples\n 3.5 seconds elapsed\n a,1,2.00,b\n") == 0
    assert perf_stat.sniff("Type,Time(%),Time,Calls\n,%,us,\nGPU activities,66.86,40.31,3\n") == 0


def test_derived_metric_is_a_counter_of_its_own() -> None:
    found = read(
        SYSTEM + "   767.95 MiB  uncore_imc/cas_count_read/ #     0.80 DRAM_BW_Use\n   5  cycles # 2.2 GHz\n"
    )
    assert value(found, "DRAM_BW_Use") == 0.8
    assert len(found.counters) == 3


def test_places_are_named() -> None:
    assert scope("S0-D0-L3-ID0") == "cache S0-D0-L3-ID0"
    assert scope("nothing") == ""


def test_part_without_the_counter_misses_nothing() -> None:
    found = read(
        SYSTEM
        + "S0-D0-C0   1   100.00 MiB  uncore_imc_0/cas_count_read/\n"
        + "S0-D0-C0   1   50.00 MiB  uncore_imc_0/cas_count_write/\n"
        + "S0-D0-C1   0   <not counted> MiB  uncore_imc_0/cas_count_read/\n"
    )
    assert found.run is not None
    assert found.run.bytes == {"dram": 150 * MIB}


def test_decimal_commas_between_commas_are_put_together() -> None:
    first, second, third = read(
        "225851,20,msec,cpu-clock,225850700108,100,00,224,431,CPUs utilized\n"
        "S0,24,12,45,MiB,uncore_imc_0/cas_count_read/,5000,66,57,,\n"
        "976,,context-switches,225850504803,100,00,4,321,/sec\n"
    ).counters
    assert first.value == pytest.approx(225.8512)
    assert (second.value, second.coverage) == (pytest.approx(12.45 * MIB), pytest.approx(0.6657))
    assert (third.value, third.coverage) == (976, 1.0)


@pytest.mark.parametrize(
    "sums", ["15,,r01c7,10,100.00,,\n", '{"counter-value" : "15.0", "event" : "r01c7"}\n']
)
def test_sums_without_a_mark_after_intervals_are_not_added(sums: str) -> None:
    found = read("1.000000000,10,,r01c7,10,100.00,,\n2.500000000,5,,r01c7,10,100.00,,\n" + sums)
    assert found.run is not None
    assert found.run.flops == 15


def test_colours_of_a_terminal_are_no_part_of_a_row() -> None:
    found = read(SYSTEM + "   1,234      cycles   #  \x1b[31m0.10\x1b[m GHz  (66.57%)\n")
    assert only(found).value == 1234


def test_unit_of_a_derived_metric_is_kept() -> None:
    found = read(
        SYSTEM + "CPU0  82,217  UNC_M_CAS_COUNT.RD [uncore_imc_0] #  9.2 MB/s  memory_bandwidth_total\n"
    )
    derived = list(found.counters)[1]
    assert (derived.metric, derived.unit, derived.printed_unit) == (
        "memory_bandwidth_total",
        "byte/s",
        "MB/s",
    )
    assert (derived.value, derived.printed) == (pytest.approx(9.2e6), 9.2)


def test_first_zens_flops_tell_their_precision() -> None:
    found = read(
        "10,,fp_ret_sse_avx_ops.dp_mult_add_flops,10,100.00,,\n"
        "5,,fp_ret_sse_avx_ops.sp_mult_flops,10,100.00,,\n"
    )
    assert [c.metric for c in found.counters] == ["flops.f64.fma", "flops.f32.multiply"]
    whole = read("20,,fp_ret_sse_avx_ops.all,10,100.00,,\n15,,fp_ret_sse_avx_ops.mac_flops,10,100.00,,\n")
    assert whole.run is not None
    assert whole.run.flops == 20


def test_results_of_stream_in_the_same_file_are_ceilings() -> None:
    table = "STREAM version $Revision: 5.10 $\nFunction    Best Rate MB/s  Avg time\nTriad:  10021.2  0.024\n"
    found = read(table + "-------\n" + SYSTEM + "   5  r01c7\n\n     2.000000000 seconds time elapsed\n")
    assert [(one.name, one.value) for one in found.ceilings] == [("dram.triad", pytest.approx(10021.2e6))]
    assert found.run is not None
    assert (found.run.flops, found.tool, found.version) == (5, "perf stat", "")


@pytest.mark.parametrize(
    ("target", "scope", "command"),
    [
        ("'./a.out -n 3'", "process", "./a.out -n 3"),
        ("process id '123'", "process", "process id '123'"),
        ("'CPU(s) 0-3'", "cpu 0-3", "CPU(s) 0-3"),
        ("'system wide'", "node", "system wide"),
    ],
)
def test_what_was_measured_is_the_scope(target: str, scope: str, command: str) -> None:
    found = read(
        f" Performance counter stats for {target}:\n\n   5  cycles\n\n  1.000000000 seconds time elapsed\n"
    )
    assert only(found).scope == scope
    assert found.facts["command"] == command


def test_table_of_metrics_alone_is_read() -> None:
    found = read(
        SYSTEM
        + "                 GHz       insn per cycle         GFLOPs\n"
        + "S0-D0-C1     2     3.1              1.25            17.5\n\n"
        + "     1.001234567 seconds time elapsed\n"
    )
    assert [(c.metric, c.value, c.scope) for c in found.counters] == [
        ("GHz", 3.1, "core S0-D0-C1"),
        ("insn per cycle", 1.25, "core S0-D0-C1"), ("GFLOPs", 17.5, "core S0-D0-C1"),
    ]  # fmt: skip
    assert found.duration_s == pytest.approx(1.001234567)


def test_raw_count_of_a_user_mode_event_keeps_its_name() -> None:
    assert only(read("5,,l2_rqsts.l2_pf_miss:u,10,100.00,,\n")).event == "l2_rqsts.l2_pf_miss:u"
    assert only(read("5,,instructions:u,10,100.00,,\n")).metric == "instructions"


def test_only_some_widths_are_said_to_be_a_lower_bound() -> None:
    assert said(read("5,,fp_arith_inst_retired.scalar_double,10,100.00,,\n"), "lower bound")


def test_some_of_the_memory_channels_are_said_to_be_a_lower_bound() -> None:
    def rows(channels: int) -> str:
        return "".join(f"  100  dram_channel_data_controller_{n}\n" for n in range(channels))

    some, whole = read(SYSTEM + rows(4)), read(SYSTEM + rows(8))
    assert some.run is not None
    assert some.run.bytes == {"dram": 4 * 100 * 64}
    assert said(some, "4 of 8 data controllers")
    assert not whole.warnings


def test_precisions_of_arms_operations_are_not_added_to_their_sum() -> None:
    both = "5,,fp_fixed_ops_spec,10,100.00,,\n3,,fp_dp_fixed_ops_spec,10,100.00,,\n"
    found = read(both)
    assert found.run is not None
    assert found.run.flops == 5
    assert [c.metric for c in found.counters] == ["flops.all.fixed", "flops.f64.fixed"]
    assert said(found, "see fp_dp_scale_ops_spec")


def test_metrics_alone_keep_their_units() -> None:
    found = read(
        SYSTEM + "\n MB/s  umc_mem_read_bandwidth  MB/s  umc_mem_write_bandwidth  %  tma_retiring\n"
        "      357.3      65.3      12.5\n\n   1.0035 seconds time elapsed\n"
    )
    assert [(c.metric, c.value, c.unit) for c in found.counters] == [
        ("umc_mem_read_bandwidth", pytest.approx(357.3e6), "byte/s"),
        ("umc_mem_write_bandwidth", pytest.approx(65.3e6), "byte/s"),
        ("tma_retiring", 0.125, "1"),
    ]


# --- lines alike but for their numbers


REPEATING = (
    "     1.000100200,S0,24,1000,,cpu/event=0xc7,umask=0x10/,1000,66.57,,\n"
    "     1.000100200,S1,24,<not counted>,,cpu/event=0xc7,umask=0x10/,0,100.00,,\n"
    "     1.000100200,S0,1,12.50,MiB,uncore_imc_0/cas_count_read/,1000,100.00,3.1,DRAM_BW_Use\n"
    "     2.000200300,S0,24,2000,,cpu/event=0xc7,umask=0x10/,1010,66.57,,\n"
    "     2.000200300,S1,24,7,,cpu/event=0xc7,umask=0x10/,900,70.01,,\n"
    "     2.000200300,S0,1,0.25,MiB,uncore_imc_0/cas_count_read/,1000,100.00,4.2,DRAM_BW_Use\n"
    "     3.000300400,S0,1,1.25,MiB,uncore_imc_0/cas_count_read/,1000,100.00,nan,DRAM_BW_Use\n"
    "     3.000300400,S0,23,9,,cpu/event=0xc7,umask=0x10/,0,0.00,,\n"
    "     3.000300400,S0,24,0,,cpu/event=0xc7,umask=0x10/,0,100.00,,\n"
)


def test_line_whose_kind_is_known_is_read_as_the_first_of_its_kind() -> None:
    once = [perf_csv.row(line, ",") for line in REPEATING.splitlines()]
    lines = CsvLines(",")
    assert [lines.row(line) for line in REPEATING.splitlines() * 2] == once * 2


NUMBERS = st.sampled_from(
    ["0", "17", "2.50", "1e9", "-3", "\u0663", "\u00b2", "9" * 400, "nan", "", "100.00", " 5"]
)


@given(st.lists(st.tuples(*[NUMBERS] * 5), min_size=1, max_size=5))
@example([("0", "0", "0", "2.50", "0"), ("", "0", "0", "2.50", "0")])
def test_known_kind_never_makes_a_number_of_what_is_none(numbers: list[tuple[str, ...]]) -> None:
    lines = CsvLines(",")
    good = "1.000100200,5,,cycles,1000,66.57,3.1,GFLOPs"
    lines.row(good)
    for time, count, runtime, percent, metric in numbers:
        line = f"{time},{count},,cycles,{runtime},{percent},{metric},GFLOPs"
        for one in (line, f"2.000200300,{count},,cycles,{runtime},{percent},{metric},GFLOPs"):
            assert lines.row(one) == perf_csv.row(one, ",")


def test_row_broken_after_its_unit_is_whole() -> None:
    # perf of Linux 4.1 printed the line end that it had read with the unit.
    text = "     0.100135972,0.25,Joules\n,power/energy-ram/,200288559,100.00\n"
    found = read(text * 2)
    assert perf_stat.sniff(text) == 80
    assert [(c.metric, c.value, c.unit) for c in found.counters] == [("energy_dram_joules", 0.25, "J")] * 2


@pytest.mark.parametrize(
    "line",
    [
        "        1, as_pointer(Barrier::Make(m_out.Get(), STATE_COMMON, STATE_COPY)),",
        "1,CUTLASS,gemm,simt_sgemm_128x128,passed,success,f32:row,1,1,1,50,1024,87966298,481.022,6.23",
        "1,PAPI_L1_DCM,3003",
        "     0 :  calc_flops :   FLOPS_DP :  event :   INSTR_RETIRED_ANY :    300004200.000000",
        "0000000000004000 W data_start",
        "        0, self.timeout_seconds",
        "        8: ZLIB_DEBUG",
        "11909\t\tDives_Akuru",
        "  146 setup.py",
    ],
)
def test_sources_and_other_tools_tables_are_no_recording(line: str) -> None:
    assert perf_stat.sniff(f"{line}\n" * 3) == 0


def test_words_of_the_program_beside_a_number_are_no_counter() -> None:
    found = read("  146 setup.py\n  3 done_things\n" + SYSTEM + "  1,000 odd_event\n  5 other_event\n")
    assert [c.event for c in found.counters] == ["odd_event", "other_event"]


def test_line_of_the_program_does_not_fix_the_separator() -> None:
    assert only(read("0: first_stage\n5,,cycles,10,100.00,,\n")).metric == "cycles"


# --- fuzz

GOOD = (
    "app\n"
    + SYSTEM
    + "  226,054.13 msec cpu-clock  # 1.0 CPUs utilized\n  80.5 MiB uncore_imc_0/cas_count_read/ (66.5%)\n"
    "  2463.16 Joules\n power/energy-pkg/\n\n  1.0065 seconds time elapsed\n"
    "     1.000100200,S0,24,1000,,cpu/event=0xc7,umask=0x10/,1000,66.57,,\n<not counted>,,r10c7,0,100.00,,\n"
    '{"interval" : 1.0, "counter-value" : "5.0", "unit" : "", "event" : "cycles", "pcnt-running" : 100.00}\n'
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=300)
quick = settings(suppress_health_check=[HealthCheck.too_slow])


COUNTS = st.tuples(st.sampled_from(["cycles", "instructions"]), st.integers(0, 10**12) | st.none())
WORDS = st.text(st.characters(exclude_categories=["Cc", "Cs"])).map(lambda text: "a program says " + text)


@quick
@given(st.lists(COUNTS | WORDS, min_size=1, max_size=8))
def test_counts_are_read_as_printed_whatever_a_program_says_between(
    lines: list[tuple[str, int | None] | str],
) -> None:
    written = ""
    for at, one in enumerate(lines, 1):
        if isinstance(one, str):
            written += f"{one}\n"
        else:
            name, count = one
            written += f"{at}.000000000,{'<not counted>' if count is None else count},,{name},1000,100.00,,\n"
    found = read(written)
    counts = [one for one in lines if not isinstance(one, str)]
    assert [(c.event, c.value) for c in found.counters] == counts


@quick
@given(st.integers(0, len(GOOD)), st.integers(0, len(GOOD)), st.text(max_size=5))
def test_of_damaged_output_every_value_stands_in_it(start: int, end: int, put: str) -> None:
    damaged = GOOD[:start] + put.replace("\0", "") + GOOD[end:]
    try:
        found = read(damaged)
    except RecordedError:
        return
    for counter in found.counters:
        assert counter.value != 0 or (counter.printed is not None and counter.printed == 0)
        assert counter.printed is None or counter.printed in numbers_in(damaged)
    assert found.run is None or found.run.flops != 0 or any(c.printed == 0 for c in found.counters)
