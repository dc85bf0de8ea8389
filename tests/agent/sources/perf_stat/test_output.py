"""Lines of `perf stat` as perf 6.1 prints them, alone and per socket."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_agent.sources.perf_stat.output import Reading, parse_line, plain, printed

from tests.recordings import corpus, meets, oracles


def test_interval_line() -> None:
    line = "     1.002481419;9268048049;;instructions;327282121;32.72;1.5;insn per cycle"
    assert parse_line(line) == Reading(
        1.002481419, 9268048049.0, "", "instructions", pytest.approx(0.3272), ""
    )


def test_line_per_socket() -> None:
    line = "     0.100175912;S1;2;202.74;msec;task-clock;202735937;100.00;2.027;CPUs utilized"
    assert parse_line(line) == Reading(0.100175912, 202.74, "msec", "task-clock", 1.0, "1")


def test_line_per_socket_and_die() -> None:
    reading = parse_line("1.0;S0-D1;1;4.50;MiB;uncore_imc_0/cas_count_read/;1000;50.00;;")
    assert reading == Reading(1.0, 4.5, "MiB", "uncore_imc_0/cas_count_read/", 0.5, "0")


def test_event_name_with_commas() -> None:
    name = "cpu/event=0xc7,umask=0x01/"
    assert parse_line(f"1.0;5;;{name};10;100.00;;") == Reading(1.0, 5.0, "", name, 1.0)


def test_decimal_comma_of_a_locale() -> None:
    reading = parse_line("1.0;5;;cycles;10;59,50;;")
    assert reading is not None and reading.running == pytest.approx(0.595)


@pytest.mark.parametrize("text", ["<not counted>", "<not supported>"])
@pytest.mark.parametrize("socket", ["", "S0;1;"])
def test_not_counted_is_absent_though_it_says_100_percent(text: str, socket: str) -> None:
    reading = parse_line(f"     0.201468777;{socket}{text};;page-faults;0;100.00;;")
    assert reading == Reading(0.201468777, None, "", "page-faults", 0.0, "0" if socket else "")


def test_controller_of_another_socket_is_elsewhere() -> None:
    event = "amd_umc_3/event=0x0a,rdwrmask=0x1/"
    reading = parse_line(f"1.0;S1;0;<not counted>;;{event};0;100.00;;")
    assert reading == Reading(1.0, None, "", event, 0.0, "1", elsewhere=True)
    assert printed(f"S0;1;5;;{event};10;100.00;;\nS1;0;<not counted>;;{event};0;100.00;;") == [("5", event)]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# started on Tue Aug  4 02:10:30 2026",
        "#           time             counts unit events",
        ";;;;;;1.00;insn per cycle",
        "1.0;;;;;;70.1;%  tma_backend_bound",
        "summary;5;;cycles;10;100.00;;",
        "1.0;5",
        "1.0;S0;1;5",
        "Performance counter stats for 'x';;;;;;",
        "event syntax error: 'task-clock,foo_bar'",
    ],
)
def test_other_lines_are_no_reading(line: str) -> None:
    assert parse_line(line) is None


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("page-faults:u", "page-faults"),
        ("software/config=1/u", "software/config=1/"),
        ("cycles", "cycles"),
        ("cpu/event=0x1,umask=0x2/", "cpu/event=0x1,umask=0x2/"),
        ("r80c0:u", "r80c0"),
    ],
)
def test_counted_in_user_space_only_is_the_same_event(asked: str, given: str) -> None:
    assert plain(asked) == given


def test_values_and_names_of_a_whole_run() -> None:
    text = """# started on x

70;;page-faults:u;1294184;100.00;;
<not supported>;;cycles;0;100.00;;
S0;1;4.50;MiB;uncore_imc_0/event=4/;1000;50.00;;
event syntax error: 'foo'
"""
    assert printed(text) == [
        ("70", "page-faults:u"),
        ("<not supported>", "cycles"),
        ("4.50", "uncore_imc_0/event=4/"),
    ]
    assert printed("perf: command not found; sorry; a; b; c; d") == []


@pytest.mark.corpus
def test_recorded_traffic_of_two_sockets() -> None:
    """48 memory-controller rows of a real two-socket node, with commas and without times."""
    rows = [
        line
        for line in Path(corpus("perf/flight_uncore_persocket_x.csv")).read_text().splitlines()
        if "," in line
    ]
    # Their event names hold no comma, so ours is the same line with another separator.
    readings = [parse_line("60.0;" + line.replace(",", ";")) for line in rows]
    known = [reading for reading in readings if reading is not None]
    assert len(known) == 48 and {reading.unit for reading in known} == {"MiB"}
    sums = [o for o in oracles("perf") if "flight_uncore_persocket" in o.file and "MiB" in o.quantity]
    assert len(sums) >= 2
    for oracle in sums:
        socket = oracle.quantity[1]
        assert meets(oracle, sum(r.value or 0.0 for r in known if r.socket == socket))


@pytest.mark.corpus
def test_recorded_multiplexed_intervals() -> None:
    lines = Path(corpus("perf/cpubops_interval_cgroup_x.csv")).read_text().splitlines()
    fields = [line.split(",") for line in lines]
    # Same columns but for the cgroup, which we never ask for.
    ours = [";".join([*f[:4], *f[5:]]) for f in fields if len(f) > 7]
    readings = [r for r in map(parse_line, ours) if r is not None]
    assert len(readings) == len(ours) > 5
    assert (readings[0].seconds, readings[0].value) == (1.002481419, 9268048049.0)
    assert all(0 < r.running < 0.5 for r in readings), "this file is multiplexed throughout"
