"""Counts per interval as cumulative values: pure, from readings as perf gives them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.events import HardwareEvent
from roofline_agent.records import MetricKind, Provenance, Scope
from roofline_agent.sources.perf_stat.child import Interval
from roofline_agent.sources.perf_stat.output import Reading
from roofline_agent.sources.perf_stat.probe import Counted
from roofline_agent.sources.perf_stat.totals import CounterRow, Totals, counter_set

A = Counted("a", HardwareEvent("a", "a", "FLOP", 2))
B = Counted("b", HardwareEvent("b", "b"))
READ = Counted("imc/r/", HardwareEvent("imc/r/", "dram_read_bytes", "byte", 64))


def reading(
    event: str, value: float | None, running: float = 1.0, unit: str = "", socket: str = ""
) -> Reading:
    return Reading(1.0, value, unit, event, running if value is not None else 0.0, socket)


def interval(at: int, *readings: Reading) -> Interval:
    return Interval(at, readings)


def test_every_metric_has_its_coverage_behind_it() -> None:
    metrics = counter_set("perf", [A]).metrics
    assert [(m.name, m.kind, m.unit, m.is_double, m.coverage_of) for m in metrics] == [
        ("a", MetricKind.CUMULATIVE, "FLOP", False, ""),
        ("a.coverage", MetricKind.GAUGE, "1", True, "a"),
    ]


def test_estimated_events_make_estimated_metrics_of_the_scope_asked() -> None:
    estimated = Counted("r1", HardwareEvent("r1", "flops.all.all", "FLOP", estimated=True))
    flops, coverage = counter_set("s", [estimated], Scope.SOCKET).metrics
    assert (flops.provenance, flops.scope) == (Provenance.ESTIMATED, Scope.SOCKET)
    assert coverage.scope == Scope.SOCKET


def test_counts_add_up_times_their_factor() -> None:
    totals = Totals([A, B])
    assert totals.add(interval(1, reading("a", 100), reading("b", 7, 0.5))) == [
        CounterRow(1, "", (200, 1.0, 7, 0.5))
    ]
    assert totals.add(interval(2, reading("a", 1), reading("b", 1))) == [
        CounterRow(2, "", (202, 1.0, 8, 1.0))
    ]


def test_interval_without_a_count_is_absent_and_adds_nothing() -> None:
    totals = Totals([A, B])
    totals.add(interval(1, reading("a", 100), reading("b", 7)))
    assert totals.add(interval(2, reading("a", None), reading("b", 1)))[0].values == (None, 0.0, 8, 1.0)
    assert totals.add(interval(3, reading("b", 1)))[0].values == (None, 0.0, 9, 1.0)
    assert totals.add(interval(4, reading("a", 10), reading("b", 1)))[0].values == (220, 1.0, 10, 1.0)


def test_process_that_did_not_run_counted_nothing_and_missed_nothing() -> None:
    totals = Totals([A])
    totals.add(interval(1, reading("a", 100), reading("task-clock", 3.0)))
    idle = interval(2, reading("a", None), reading("task-clock", None))
    assert totals.add(idle) == [CounterRow(2, "", (200, None))]


def test_process_that_ran_uncounted_misses_its_counts() -> None:
    totals = Totals([A])
    ran = interval(1, reading("a", None), reading("task-clock", 3.0))
    assert totals.add(ran) == [CounterRow(1, "", (None, 0.0))]


def test_unit_that_perf_scaled_to_goes_before_the_factor() -> None:
    totals = Totals([READ])
    (row,) = totals.add(interval(1, reading("imc/r/", 3.5, unit="MiB")))
    assert row.values[0] == int(3.5 * 2**20)
    (row,) = Totals([READ]).add(interval(1, reading("imc/r/", 10)))
    assert row.values[0] == 640


def test_controllers_of_a_socket_add_up_and_sockets_stay_apart() -> None:
    two = Counted("imc_1/r/", READ.event._replace(perf="imc_1/r/"))
    totals = Totals([READ, two])
    lines = [reading(e, v, socket=s) for s, v in (("0", 1), ("1", 100)) for e in ("imc/r/", "imc_1/r/")]
    rows = totals.add(interval(5, *lines))
    assert rows == [CounterRow(5, "socket 0", (128, 1.0)), CounterRow(5, "socket 1", (12800, 1.0))]


def test_controllers_that_belong_to_one_socket_each_are_counted_on_theirs() -> None:
    two = Counted("imc_1/r/", READ.event._replace(perf="imc_1/r/"))
    totals = Totals([READ, two])
    lines = reading("imc/r/", 1, socket="0"), reading("imc_1/r/", 100, socket="1")
    expected = [CounterRow(5, "socket 0", (64, 1.0)), CounterRow(5, "socket 1", (6400, 1.0))]
    assert totals.add(interval(5, *lines)) == expected
    missed = reading("imc/r/", None, socket="0"), reading("imc_1/r/", 100, socket="1")
    rows = totals.add(interval(6, *missed))
    assert [row.values for row in rows] == [(None, 0.0), (12800, 1.0)]
    foreign = reading("imc_1/r/", None, socket="0")._replace(elsewhere=True)
    assert Totals([READ, two]).add(interval(5, lines[0], foreign, lines[1])) == expected


def test_first_interval_that_is_cut_short_does_not_say_what_a_socket_has() -> None:
    two = Counted("imc_1/r/", READ.event._replace(perf="imc_1/r/"))
    totals = Totals([READ, two])
    for names in (["imc/r/"], ["imc/r/", "imc_1/r/"], ["imc/r/"]):
        (row,) = totals.add(interval(1, *(reading(name, 1, socket="0") for name in names)))
    assert row.values == (None, 0.0)


def test_half_a_sum_is_no_sum() -> None:
    two = Counted("imc_1/r/", READ.event._replace(perf="imc_1/r/"))
    (row,) = Totals([READ, two]).add(interval(1, reading("imc/r/", 5), reading("imc_1/r/", None)))
    assert row.values == (None, 0.0)


def test_perf_that_prints_several_controllers_under_one_name_is_added_up_once() -> None:
    totals = Totals([READ, READ._replace(event=READ.event._replace(perf="other"))])
    (row,) = totals.add(interval(1, reading("imc/r/", 1), reading("imc/r/", 2, 0.5)))
    assert row.values == (192, 0.5)


def test_two_kinds_of_core_share_the_time_between_them() -> None:
    core = Counted("cpu_core/i/", HardwareEvent("cpu_core/i/", "i"))
    atom = Counted("cpu_atom/i/", HardwareEvent("cpu_atom/i/", "i"))
    totals = Totals([core, atom], hybrid=True)
    (row,) = totals.add(interval(1, reading("cpu_core/i/", 70, 0.7), reading("cpu_atom/i/", 30, 0.3)))
    assert row.values == (100, 1.0)
    (row,) = totals.add(interval(2, reading("cpu_core/i/", 5), reading("cpu_atom/i/", None)))
    assert row.values == (105, 1.0)
    (row,) = totals.add(interval(3, reading("cpu_core/i/", None), reading("cpu_atom/i/", None)))
    assert row.values == (None, 0.0)


def test_cores_of_the_other_kind_did_nothing_where_the_process_did_not_run_on_them() -> None:
    wide = Counted("cpu_core/f/", HardwareEvent("cpu_core/f/", "flops.f32.256"))
    every = Counted("cpu_atom/f/", HardwareEvent("cpu_atom/f/", "flops.f32.all"))
    totals = Totals([wide, every], hybrid=True)
    ran = reading("task-clock", 100.0)
    rows = []
    for core, atom in ((6, 4), (10, None), (None, 10)):
        of_core = reading("cpu_core/f/", core, (core or 0) / 10)
        rows += totals.add(interval(1, ran, of_core, reading("cpu_atom/f/", atom, (atom or 0) / 10)))
    assert [row.values for row in rows] == [(6, 1.0, 4, 1.0), (16, 1.0, 4, 1.0), (16, 1.0, 14, 1.0)]


def test_time_on_cores_that_count_nothing_of_a_kind_is_not_known() -> None:
    flops = Counted("cpu_core/f/", HardwareEvent("cpu_core/f/", "flops.f32.256"))
    cycles = Counted("cpu_atom/c/", HardwareEvent("cpu_atom/c/", "cycles"))
    totals = Totals([flops, cycles], hybrid=True)
    (row,) = totals.add(interval(1, reading("cpu_core/f/", None), reading("cpu_atom/c/", 9)))
    assert row.values == (None, 0.0, 9, 1.0)
    (row,) = totals.add(interval(2, reading("cpu_core/f/", 5, 0.25), reading("cpu_atom/c/", 9, 0.75)))
    assert row.values == (5, 0.25, 18, 0.75)


def test_events_of_one_kind_of_core_that_take_turns_are_scaled_to_the_time_on_it() -> None:
    names = ("cpu_core/f/", "cpu_core/g/", "cpu_atom/i/")
    totals = Totals([Counted(name, HardwareEvent(name, name[-2])) for name in names], hybrid=True)
    counted = reading(names[0], 50, 0.5), reading(names[1], 500, 0.5), reading(names[2], None)
    assert totals.add(interval(1, *counted))[0].values[:4] == (100, 0.5, 1000, 0.5)
    counted = reading(names[0], 30, 0.3), reading(names[1], 60, 0.3), reading(names[2], 7, 0.3)
    (row,) = totals.add(interval(2, *counted))
    assert row.values == (150, 0.3, 1100, 0.3, 12, 0.3), "half of the time on each kind of core"


def test_cache_misses_give_a_lower_bound_of_traffic() -> None:
    misses = Counted("m", HardwareEvent("m", "llc_misses"))
    metrics = counter_set("perf", [misses, B]).metrics
    assert [m.name for m in metrics] == [
        "llc_misses",
        "llc_misses.coverage",
        "b",
        "b.coverage",
        "dram_bytes.llc_bound",
        "dram_bytes.llc_bound.coverage",
    ]
    assert (metrics[4].unit, metrics[4].provenance) == ("byte", Provenance.ESTIMATED)
    totals = Totals([misses, B])
    (row,) = totals.add(interval(1, reading("m", 10, 0.5), reading("b", 3)))
    assert row.values == (10, 0.5, 3, 1.0, 640, 0.5)
    (row,) = totals.add(interval(2, reading("m", None), reading("b", 3)))
    assert row.values == (None, 0.0, 6, 1.0, None, 0.0)


def test_counting_starts_at_zero_and_says_where_it_was_interrupted() -> None:
    totals = Totals([A])
    first = interval(10, reading("a", 4))
    assert totals.begun(3, first) == [CounterRow(3, "", (0, None))]
    totals.add(first)
    assert totals.begun(50, first) == [CounterRow(50, "", (8, 0.0))], "a gap that nobody counted"


@given(st.lists(st.one_of(st.none(), st.integers(0, 2**40)), max_size=30))
def test_values_only_grow_and_end_at_the_sum(counts: list[int | None]) -> None:
    totals = Totals([A])
    rows = [row for at, n in enumerate(counts) for row in totals.add(interval(at, reading("a", n)))]
    seen = [row.values[0] for row in rows if row.values[0] is not None]
    assert seen == sorted(seen)
    assert not seen or seen[-1] == 2 * sum(n for n in counts if n is not None)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20), st.integers(0, 19))
def test_cutting_an_interval_in_two_changes_no_total(counts: list[int], at: int) -> None:
    whole, cut = Totals([A]), Totals([A])
    (one,) = whole.add(interval(1, reading("a", sum(counts))))
    for part in (sum(counts[:at]), sum(counts[at:])):
        (other,) = cut.add(interval(1, reading("a", part)))
    assert one.values == other.values
