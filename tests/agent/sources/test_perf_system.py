"""DRAM bytes per socket: recorded trees of PMUs, a scripted perf, and a real one per socket."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from roofline_agent.events import HardwareEvent, UncoreEvent
from roofline_agent.records import Provenance, Rank, Sample, Scope, SourceSettings
from roofline_agent.sources.perf_stat.probe import PER_SOCKET, Counted, tried
from roofline_agent.sources.perf_system import PerfSystemSource, matching, named

from tests.fakes import wait_for

from .fake_tools import REFUSED, amd, arm, calls_of, counting_perf, intel, proc_tree, script, sys_tree

IMCS = [f"uncore_imc_{n}" for n in (0, 1, 10, 2)]
RANK = Rank("j", "worker", 0, os.getpid(), 1)


def source_of(perf: Path | str, proc: Path, sys: Path) -> PerfSystemSource:
    return PerfSystemSource(
        SourceSettings(proc=str(proc), sys=str(sys), environ={"ROOFLINE_PERF": str(perf)})
    )


def on(
    tmp_path: Path, cpuinfo: str, *pmus: str, rules: tuple[tuple[str, str, str], ...] = ()
) -> PerfSystemSource:
    return source_of(
        counting_perf(tmp_path, *rules),
        proc_tree(tmp_path / "proc", cpuinfo),
        sys_tree(tmp_path / "sys", "cpu", "uncore_cha_0", *pmus),
    )


def collect(source: PerfSystemSource, count: int) -> list[Sample]:
    rows: list[Sample] = []
    try:
        wait_for(lambda: (rows.extend(source.sample([RANK])), len(rows) >= count)[1], f"{count} rows")
    finally:
        source.close()
    return rows


def asked(source: PerfSystemSource) -> list[str]:
    return [one.event.perf for one in source.counted]


def test_controllers_of_a_pattern_in_their_order() -> None:
    present = [*IMCS, "uncore_imc_free_running_0", "uncore_imc"]
    assert matching(present, "uncore_imc_[0-9]*") == [f"uncore_imc_{n}" for n in (0, 1, 2, 10)]
    assert matching(present, "uncore_imc") == ["uncore_imc"]
    assert matching(present, "amd_df") == []


def test_event_of_one_controller() -> None:
    event = UncoreEvent("uncore_imc_[0-9]*", "event=0x05,umask=0xcf", "dram_read_bytes")
    assert named(event, "uncore_imc_3") == HardwareEvent(
        "uncore_imc_3/event=0x05,umask=0xcf/", "dram_read_bytes", "byte", 64
    )


def test_every_controller_is_asked_once_and_one_of_them_tried(tmp_path: Path) -> None:
    source = on(tmp_path, intel(0x8F), *IMCS, "uncore_imc_free_running_0")
    status = source.probe()
    assert status.works and "4 PMUs" in status.reason
    events = asked(source)
    assert len(events) == len(set(events)) == 8
    assert {event.split("/")[0] for event in events} == set(IMCS)
    assert len(calls_of(tmp_path / "perf")) == 2


def test_bytes_of_a_socket_are_the_sum_over_its_controllers(tmp_path: Path) -> None:
    source = on(tmp_path, intel(0x8F), *IMCS, rules=(("0xcf", "10", ""), ("0xf0", "1", "")))
    assert source.probe().works
    read, _, write, _ = source.counter_set.metrics
    assert (read.name, write.name) == ("dram_read_bytes", "dram_write_bytes")
    assert read.scope == write.scope == Scope.SOCKET and read.unit == "byte"
    rows = collect(source, 6)
    expected = [(0, None, 0, None), (2560, 1.0, 256, 1.0), (5120, 1.0, 512, 1.0)]
    for socket in ("socket 0", "socket 1"):
        assert [row.values for row in rows if row.instance == socket] == expected


def test_raw_counts_are_lines_and_scaled_ones_are_what_their_unit_says(tmp_path: Path) -> None:
    body = """cat >&2 <<END
1.0;S0;1;10;;uncore_imc_0/event=0x04,umask=0x03/;5;100.00;;
1.0;S0;1;2.00;MiB;uncore_imc_1/event=0x04,umask=0x03/;5;50.00;;
1.0;S1;1;3;;uncore_imc_0/event=0x04,umask=0x03/;5;100.00;;
1.0;S1;1;4;;uncore_imc_1/event=0x04,umask=0x03/;5;100.00;;
2.0;S0;1;1;;uncore_imc_0/event=0x04,umask=0x03/;5;100.00;;
2.0;S0;1;<not counted>;;uncore_imc_1/event=0x04,umask=0x03/;0;100.00;;
2.0;S1;1;1;;uncore_imc_0/event=0x04,umask=0x03/;5;100.00;;
2.0;S1;1;1;;uncore_imc_1/event=0x04,umask=0x03/;5;100.00;;
END
exec sleep 60"""
    source = source_of(script(tmp_path, body), tmp_path, tmp_path)
    event = UncoreEvent("", "event=0x04,umask=0x03", "dram_read_bytes")
    source.use([Counted(e.perf, e) for e in (named(event, f"uncore_imc_{n}") for n in (0, 1))])
    rows = collect(source, 6)
    assert [(row.rank, row.instance, row.values) for row in rows] == [
        (None, "socket 0", (0, None)),
        (None, "socket 1", (0, None)),
        (None, "socket 0", (640 + (2 << 20), 0.5)),
        (None, "socket 1", (7 * 64, 1.0)),
        (None, "socket 0", (None, 0.0)),
        (None, "socket 1", (9 * 64, 1.0)),
    ]


OF_ONE_SOCKET_EACH = """#!{python} -IS
import re, sys, time
arguments = sys.argv[1:]
events = re.findall(r"[^,/]+/[^/]*/", arguments[arguments.index("-e") + 1])
intervals = ("1.0;", "2.0;") if "-I" in arguments else ("",)
for seconds in intervals:
    for socket in (0, 1):
        for event in events:
            if int(event[len("amd_umc_")]) % 2 == socket:
                sys.stderr.write(f"{{seconds}}S{{socket}};1;10;;{{event}};1000;100.00;;\\n")
            elif {prints_all}:
                sys.stderr.write(f"{{seconds}}S{{socket}};0;<not counted>;;{{event}};0;100.00;;\\n")
sys.stderr.flush()
if len(intervals) > 1:
    time.sleep(600)
"""


@pytest.mark.parametrize("prints_all", [False, True], ids=["newer perf", "older perf"])
def test_controllers_of_two_sockets_are_counted_on_theirs(tmp_path: Path, prints_all: bool) -> None:
    source = on(tmp_path, amd(0x1A, 0x02), *(f"amd_umc_{n}" for n in range(4)))
    (tmp_path / "perf").write_text(OF_ONE_SOCKET_EACH.format(python=sys.executable, prints_all=prints_all))
    assert source.probe().works
    rows = collect(source, 6)
    expected = [(0, None, 0, None), (1280, 1.0, 1280, 1.0), (2560, 1.0, 2560, 1.0)]
    for socket in ("socket 0", "socket 1"):
        assert [row.values for row in rows if row.instance == socket] == expected


def test_zen4_takes_its_memory_controllers_or_else_the_fabric_never_both(tmp_path: Path) -> None:
    both, fabric = tmp_path / "both", tmp_path / "fabric"
    both.mkdir(), fabric.mkdir()
    source = on(both, amd(0x19, 0x11), "amd_df", "amd_umc_0", "amd_umc_1")
    assert source.probe().works
    assert {event.split("/")[0] for event in asked(source)} == {"amd_umc_0", "amd_umc_1"}
    assert "amd_umc_1/event=0x0a,rdwrmask=0x2/" in asked(source)
    source = on(fabric, amd(0x19, 0x11), "amd_df")
    assert source.probe().works
    assert len(asked(source)) == 24 and {event.split("/")[0] for event in asked(source)} == {"amd_df"}


@pytest.mark.parametrize(
    ("family", "pmu", "provenance"),
    [
        (0x19, "amd_df", Provenance.ESTIMATED),
        (0x19, "amd_umc_0", Provenance.MEASURED),
        (0x1A, "amd_df", Provenance.MEASURED),
    ],
)
def test_zen4s_fabric_does_not_see_the_other_socket_and_says_so(
    tmp_path: Path, family: int, pmu: str, provenance: Provenance
) -> None:
    source = on(tmp_path, amd(family, 0x11), pmu)
    assert source.probe().works
    counts = [metric for metric in source.counter_set.metrics if not metric.coverage_of]
    assert [metric.provenance for metric in counts] == [provenance] * 2


@pytest.mark.parametrize("hbm", [(), ("uncore_hbm_0", "uncore_hbm_1")], ids=["DRAM alone", "Xeon Max"])
def test_memory_traffic_without_that_of_the_hbm_is_a_lower_bound(
    tmp_path: Path, hbm: tuple[str, ...]
) -> None:
    source = on(tmp_path, intel(0x8F), *IMCS, *hbm)
    status = source.probe()
    assert status.works and ("HBM is not counted: a lower bound" in status.reason) == bool(hbm)
    counts = [metric for metric in source.counter_set.metrics if not metric.coverage_of]
    assert [metric.provenance for metric in counts] == [
        Provenance.ESTIMATED if hbm else Provenance.MEASURED
    ] * 2
    assert not any("hbm" in event for event in asked(source))


def test_kind_of_controller_that_does_not_count_is_passed_over(tmp_path: Path) -> None:
    rules = (("amd_umc", "<not supported>", ""),)
    source = on(tmp_path, amd(0x1A, 0x02), "amd_df", "amd_umc_0", rules=rules)
    assert source.probe().works
    assert {event.split("/")[0] for event in asked(source)} == {"amd_df"}


def test_zen2_does_not_tell_reads_from_writes(tmp_path: Path) -> None:
    source = on(tmp_path, amd(0x17, 0x31), "amd_df")
    assert source.probe().works
    assert [metric.name for metric in source.counter_set.metrics] == ["dram_bytes", "dram_bytes.coverage"]


def test_sum_of_channels_with_one_missing_is_not_offered(tmp_path: Path) -> None:
    source = on(tmp_path, intel(0xAD), *IMCS, rules=(("0x06,umask=0xcf", "fail", ""),))
    assert source.probe().works
    assert source.counter_set.metrics[0].name == "dram_write_bytes"


def test_grace_counts_by_the_names_of_its_fabric(tmp_path: Path) -> None:
    source = on(tmp_path, arm(0xD4F), "nvidia_scf_pmu_0", "nvidia_scf_pmu_1", "nvidia_pcie_pmu_0")
    assert source.probe().works
    assert asked(source) == [
        "nvidia_scf_pmu_0/cmem_rd_data/",
        "nvidia_scf_pmu_1/cmem_rd_data/",
        "nvidia_scf_pmu_0/cmem_wr_total_bytes/",
        "nvidia_scf_pmu_1/cmem_wr_total_bytes/",
    ]


@pytest.mark.parametrize("sys_exists", [True, False])
def test_without_a_controllers_pmu(tmp_path: Path, sys_exists: bool) -> None:
    sys = sys_tree(tmp_path / "sys", "cpu", "uncore_cha_0") if sys_exists else tmp_path / "nothing"
    status = source_of(counting_perf(tmp_path), proc_tree(tmp_path / "p", intel(0x8F)), sys).probe()
    assert not status.works
    assert "no PMU of the memory controllers" in status.reason and "uncore" in status.advice


def test_cpu_without_a_known_event(tmp_path: Path) -> None:
    status = on(tmp_path, arm(0xD0C), "arm_dmc620_0").probe()
    assert not status.works and "no event is known" in status.reason


def test_user_needs_a_lower_sysctl_or_a_capability(tmp_path: Path) -> None:
    perf = script(tmp_path, f"cat >&2 <<END\n{REFUSED}END\nexit 255")
    proc = proc_tree(tmp_path / "proc", intel(0x8F), paranoid=2)
    status = source_of(perf, proc, sys_tree(tmp_path / "sys", *IMCS)).probe()
    assert not status.works
    assert "perf_event_paranoid is 2" in status.reason
    assert "sysctl kernel.perf_event_paranoid=0" in status.advice and "CAP_PERFMON" in status.advice


def test_refusal_for_another_reason_is_quoted(tmp_path: Path) -> None:
    source = on(tmp_path, intel(0x8F), *IMCS, rules=(("imc", "fail", ""),))
    status = source.probe()
    assert not status.works and "event syntax error" in status.reason


def test_without_perf(tmp_path: Path) -> None:
    status = source_of(tmp_path / "nothing", tmp_path, tmp_path).probe()
    assert not status.works and "not installed" in status.reason


def test_counts_only_while_there_are_ranks(tmp_path: Path) -> None:
    source = source_of(script(tmp_path, f"echo x >> {tmp_path}/starts; exec sleep 60"), tmp_path, tmp_path)
    source.use([Counted("a", HardwareEvent("a", "dram_bytes", "byte"))])
    assert source.sample([]) == [] and not (tmp_path / "starts").exists()
    source.sample([RANK])
    wait_for((tmp_path / "starts").exists, "perf")
    assert source._watch is not None and source._watch._child is not None
    process = source._watch._child
    source.sample([])
    assert process.returncode is not None
    source.close()


def test_perf_that_dies_is_reported_once(tmp_path: Path) -> None:
    source = source_of(script(tmp_path, "echo 'Error: no' >&2; exit 3"), tmp_path, tmp_path)
    source.use([Counted("a", HardwareEvent("a", "dram_bytes", "byte"))])
    errors = []
    until = time.monotonic() + 5
    while not errors and time.monotonic() < until:
        try:
            source.sample([RANK])
        except OSError as error:
            errors.append(str(error))
        time.sleep(0.01)
    assert errors == ["perf ended (status 3): Error: no"]
    assert source.sample([RANK]) == []
    source.close()


def test_real_perf_per_socket() -> None:
    """Software events stand in for the controllers': the command, its lines and its sockets are real."""
    event = HardwareEvent("cpu-clock", "dram_bytes", "byte", 1)
    try:
        works = tried("perf", PER_SOCKET, event.perf).complete
    except OSError:
        works = False
    if not works:
        pytest.skip("perf may not count for the whole node here")
    source = PerfSystemSource(SourceSettings(interval_ns=20_000_000))
    source.use([Counted(event.perf, event)])
    rows = collect(source, 5)
    first = [row for row in rows if row.instance == rows[0].instance]
    assert rows[0].instance == "socket 0" and rows[0].rank is None
    values = [row.values[0] for row in first]
    assert values[0] == 0 and values == sorted(values) and values[-1] > 0  # type: ignore[type-var,operator]
