"""`perf stat`: lines as perf prints them, real runs with software events, and each reason why not."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from roofline_agent.events import HardwareEvent, families, for_cpu, parse
from roofline_agent.records import MetricKind, Rank, Sample, Settings
from roofline_agent.sources.perf import PerfSource, Reading, counter_set, cpu_identity, parse_line, supported

from tests.fakes import ended, wait_for

CORPUS = Path(__file__).parents[4] / "shared/corpus/perf"
FAULTING = """
import mmap
print(flush=True)
while True:
    with mmap.mmap(-1, 1 << 20) as memory:
        memory[:] = bytes(1 << 20)
"""


def test_interval_line() -> None:
    line = "     1.002481419;9268048049;;instructions;327282121;32.72;1.5;insn per cycle"
    assert parse_line(line) == Reading(1.002481419, 9268048049.0, "instructions", pytest.approx(0.3272))


def test_event_name_with_commas() -> None:
    name = "cpu/event=0xc7,umask=0x01/"
    assert parse_line(f"1.0;5;;{name};10;100.00;;") == Reading(1.0, 5.0, name, 1.0)


def test_decimal_comma_of_a_locale() -> None:
    reading = parse_line("1.0;5;;cycles;10;59,50;;")
    assert reading is not None and reading.running == pytest.approx(0.595)


@pytest.mark.parametrize("text", ["<not counted>", "<not supported>"])
def test_not_counted_is_absent_though_it_says_100_percent(text: str) -> None:
    reading = parse_line(f"     0.201468777;{text};;page-faults;0;100.00;;")
    assert reading == Reading(0.201468777, None, "page-faults", 0.0)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# started on Tue Aug  4 02:10:30 2026",
        "#           time             counts unit events",
        ";;;;;;1.00;insn per cycle",
        "summary;5;;cycles;10;100.00;;",
        "1.0;5",
        "Performance counter stats for 'x';;;;;;",
    ],
)
def test_other_lines_are_no_reading(line: str) -> None:
    assert parse_line(line) is None


def test_counted_in_user_mode_only_is_the_same_event() -> None:
    # What perf 6.1 prints for an unprivileged user at perf_event_paranoid 2.
    reading = parse_line("     0.100258311;70;;page-faults:u;1294184;100.00;;")
    assert reading is not None and reading.event == "page-faults"


def test_pmu_event_counted_in_user_mode_only_is_the_same_event() -> None:
    reading = parse_line("     0.100264580;1524507;;software/config=1/u;1524507;100.00;0.015;CPUs utilized")
    assert reading is not None and reading.event == "software/config=1/"


def test_supported() -> None:
    assert supported("# started on x\n\n70;;page-faults;1294184;100.00;;\n")
    assert not supported("<not supported>;;cycles;0;100.00;;\n")
    assert not supported("<not counted>;;cycles;0;100.00;;\n")
    assert not supported("")
    assert not supported("event syntax error: 'foo'\n")


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the recorded files of others are not here")
def test_recorded_interval_file() -> None:
    lines = (CORPUS / "cpubops_interval_cgroup_x.csv").read_text().splitlines()
    fields = [line.split(",") for line in lines]
    # Same columns but for the cgroup, which we never ask for.
    ours = [";".join([*f[:4], *f[5:]]) for f in fields if len(f) > 7]
    readings = [r for r in map(parse_line, ours) if r is not None]
    assert len(readings) == len(ours) > 5
    first = readings[0]
    assert (first.seconds, first.value, first.event) == (1.002481419, 9268048049.0, "uops_executed.core")
    assert first.running == pytest.approx(0.3272)
    assert all(0 < r.running < 0.5 for r in readings), "this file is multiplexed throughout"


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the recorded files of others are not here")
@pytest.mark.parametrize(
    ("name", "event", "works"),
    [
        ("llc_not_supported_x.csv", "cycles", True),
        ("llc_not_supported_x.csv", "LLC-loads", False),
        ("spr_default_x.csv", "cycles", True),
        ("uncore_not_supported_oneline_x.csv", "uncore_imc_0/cas_count_read/u", False),
    ],
)
def test_recorded_support(name: str, event: str, works: bool) -> None:
    lines = [line for line in (CORPUS / name).read_text().splitlines() if f",{event}" in line]
    assert lines
    assert supported(lines[0].replace(",", ";")) == works


def cpuinfo(vendor: str, family: int, *flags: str) -> str:
    one = (
        f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nflags\t\t: fpu {' '.join(flags)}\n\n"
    )
    return one + one.replace("fpu", "second")


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "expected"),
    [
        ("GenuineIntel", 6, ["avx512f"], "intel_avx512"),
        ("GenuineIntel", 6, ["avx2"], "intel_avx2"),
        ("AuthenticAMD", 0x17, [], "amd_zen2"),
        ("AuthenticAMD", 0x19, [], "amd_zen2"),
        ("AuthenticAMD", 0x19, ["avx512f"], "amd_zen4"),
        ("AuthenticAMD", 0x1A, ["avx512f"], "amd_zen5"),
        ("AuthenticAMD", 0x15, [], "generic"),
        ("Other", 6, [], "generic"),
    ],
)
def test_events_follow_the_cpu(vendor: str, family: int, flags: list[str], expected: str) -> None:
    identity = cpu_identity(cpuinfo(vendor, family, *flags))
    assert identity == (vendor, family, frozenset(["fpu", *flags]))
    assert for_cpu(*identity).name == expected


def test_cpu_without_x86_fields() -> None:
    assert cpu_identity("processor : 0\nBogoMIPS : 50\nFeatures : fp asimd\n") == ("", -1, frozenset())
    assert for_cpu("", -1, frozenset()).name == "generic"


def test_flop_factors_are_those_of_the_manual() -> None:
    """intel/perfmon, FP_ARITH_INST_RETIRED: FLOPs per count of each umask."""
    factors = {
        int(e.perf.split("umask=")[1].rstrip("/"), 16): (e.metric, e.factor)
        for e in families()["intel_avx512"].events
        if "0xc7" in e.perf
    }
    assert factors == {
        0x01: ("flops.f64.scalar", 1),
        0x02: ("flops.f32.scalar", 1),
        0x04: ("flops.f64.128", 2),
        0x08: ("flops.f32.128", 4),
        0x10: ("flops.f64.256", 4),
        0x20: ("flops.f32.256", 8),
        0x40: ("flops.f64.512", 8),
        0x80: ("flops.f32.512", 16),
    }


@pytest.mark.parametrize("name", families())
def test_each_metric_of_a_family_has_one_event(name: str) -> None:
    family = families()[name]
    assert (
        len({e.metric for e in family.events}) == len({e.perf for e in family.events}) == len(family.events)
    )
    assert family.note


def test_event_file_defaults() -> None:
    family = parse("x", '[[event]]\nperf = "p"\nmetric = "m"\n')
    assert family.events == (HardwareEvent("p", "m", "1", 1),)


def test_every_metric_has_its_coverage_behind_it() -> None:
    metrics = counter_set([HardwareEvent("a", "m", "FLOP", 2)]).metrics
    assert [(m.name, m.kind, m.unit, m.is_double, m.coverage_of) for m in metrics] == [
        ("m", MetricKind.CUMULATIVE, "FLOP", False, ""),
        ("m.coverage", MetricKind.GAUGE, "1", True, "m"),
    ]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with ended(subprocess.Popen([sys.executable, "-c", FAULTING], stdout=subprocess.PIPE)) as process:
        process.stdout.readline()
        yield process


SOFTWARE = [HardwareEvent("task-clock", "ms", "ms", 1), HardwareEvent("page-faults", "faults", "1", 1)]


def real(events: list[HardwareEvent]) -> PerfSource:
    source = PerfSource(Settings(interval_ns=50_000_000, environ=os.environ))
    if not all(source._counts(event.perf) for event in events):
        pytest.skip("perf does not count software events here")
    source.use(events)
    return source


def collect(source: PerfSource, rank: Rank, count: int) -> list[Sample]:
    rows: list[Sample] = []
    wait_for(lambda: (rows.extend(source.sample([rank])), len(rows) >= count)[1], f"{count} rows of perf")
    return rows


def test_real_counters_of_a_real_child(child: subprocess.Popen[bytes]) -> None:
    source, rank = real(SOFTWARE), Rank("j", "worker", 0, child.pid, 1)
    try:
        rows = collect(source, rank, 8)
        faults = [row.values[2] for row in rows]
        assert faults == sorted(faults)  # type: ignore[type-var]
        assert faults[-1] > faults[0] > 0  # type: ignore[operator]
        times = [row.time_ns for row in rows]
        assert times == sorted(set(times))
        assert all(row.rank == rank and row.values[3] == 1.0 for row in rows)
        seen_ms = rows[-1].values[0] - rows[0].values[0]  # type: ignore[operator]
        assert 0 < seen_ms <= (times[-1] - times[0]) / 1e6 * 1.1, "one thread has one CPU"
    finally:
        source.close()


def test_factor_turns_counts_into_units(child: subprocess.Popen[bytes]) -> None:
    events = [HardwareEvent("page-faults", "once", "1", 1), HardwareEvent("minor-faults", "x16", "1", 16)]
    source, rank = real(events), Rank("j", "worker", 0, child.pid, 1)
    try:
        (row, *_) = collect(source, rank, 1)
        # The two are read one after the other.
        assert row.values[2] == pytest.approx(16 * row.values[0], rel=0.1)  # type: ignore[operator]
        assert row.values[2] > 0  # type: ignore[operator]
    finally:
        source.close()


def test_pmu_style_event_for_an_unprivileged_agent(child: subprocess.Popen[bytes]) -> None:
    source = real([HardwareEvent("software/config=2/", "faults", "1", 1)])
    try:
        (row, *_) = collect(source, Rank("j", "worker", 0, child.pid, 1), 1)
        assert row.values[0] is not None
    finally:
        source.close()


def test_perf_ends_with_the_rank_and_with_the_source(child: subprocess.Popen[bytes]) -> None:
    source, rank = real(SOFTWARE), Rank("j", "worker", 0, child.pid, 1)
    collect(source, rank, 1)
    (first,) = [p for p in psutil.Process().children() if p.name() == "perf"]
    source.sample([])
    assert not first.is_running()
    collect(source, rank, 1)
    source.close()
    assert [p for p in psutil.Process().children() if p.name() == "perf"] == []


def test_interval_without_a_count_is_absent_and_adds_nothing(tmp_path: Path) -> None:
    perf = script(
        tmp_path,
        """
cat >&2 <<END
1.0;100;;a;5;100.00;;
1.0;7;;b;5;50.00;;
2.0;<not counted>;;a;0;100.00;;
2.0;1;;b;5;50.00;;
3.0;10;;a;5;100.00;;
3.0;1;;b;5;50.00;;
END
exec sleep 60""",
    )
    source = PerfSource(Settings(environ={"ROOFLINE_PERF": str(perf)}))
    source.use([HardwareEvent("a", "a", "1", 2), HardwareEvent("b", "b", "1", 1)])
    try:
        rows = collect(source, Rank("j", "worker", 0, os.getpid(), 1), 3)
    finally:
        source.close()
    assert [r.values for r in rows] == [(200, 1.0, 7, 0.5), (None, 0.0, 8, 0.5), (220, 1.0, 9, 0.5)]
    assert [b.time_ns - a.time_ns for a, b in pairwise(rows)] == [10**9, 10**9]


def test_last_intervals_of_a_rank_that_ended_are_kept(tmp_path: Path) -> None:
    done = tmp_path / "done"
    perf = script(tmp_path, f"echo '1.0;100;;a;5;100.00;;' >&2; touch {done}; exec sleep 60")
    source = PerfSource(Settings(environ={"ROOFLINE_PERF": str(perf)}))
    source.use([HardwareEvent("a", "a", "1", 1)])
    try:
        source._running[os.getpid(), 1] = source._start(Rank("j", "worker", 0, os.getpid(), 1))
        wait_for(done.exists)
        assert [row.values for row in source.sample([])] == [(100, 1.0)]
    finally:
        source.close()


def script(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "perf"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def probe(perf: Path | str, proc: Path | str = "/proc") -> tuple[bool, str, str]:
    status = PerfSource(Settings(proc=str(proc), environ={"ROOFLINE_PERF": str(perf)})).probe()
    return status.works, status.reason, status.advice


def test_without_perf(tmp_path: Path) -> None:
    works, reason, advice = probe(tmp_path / "nothing")
    assert not works
    assert "not installed" in reason and "install" in advice


NO_PMU = "for last; do :; done; echo '<not supported>;;x;0;100.00;;' >&2"


def test_without_a_pmu(tmp_path: Path) -> None:
    works, reason, advice = probe(script(tmp_path, NO_PMU))
    assert not works
    assert "no hardware PMU" in reason and "vPMU" in advice


def test_perf_that_fails_on_every_event_is_no_pmu(tmp_path: Path) -> None:
    assert not probe(script(tmp_path, "exit 129"))[0]


def test_paranoid_kernel_is_named_for_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "sys/kernel/perf_event_paranoid").write_text("4\n")
    (tmp_path / "cpuinfo").write_text(cpuinfo("GenuineIntel", 6))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    works, reason, advice = probe(script(tmp_path, "exit 1"), tmp_path)
    assert not works
    assert "perf_event_paranoid is 4" in reason and "CAP_PERFMON" in advice


def test_perf_that_hangs_or_cannot_run_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "perf"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    works, reason, _ = probe(path)
    assert not works and "cannot be run" in reason
    monkeypatch.setattr("roofline_agent.sources.perf.PROBE_TIMEOUT_S", 0.2)
    works, reason, _ = probe(script(tmp_path, "exec sleep 60"))
    assert not works and "cannot be run" in reason


def test_events_that_do_not_work_are_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(cpuinfo("GenuineIntel", 6))
    body = """case "$*" in
*umask*) echo '<not supported>;;x;0;100.00;;' >&2;;
*) echo '5;;x;1;100.00;;' >&2;;
esac"""
    source = PerfSource(Settings(proc=str(tmp_path), environ={"ROOFLINE_PERF": str(script(tmp_path, body))}))
    status = source.probe()
    assert status.works
    assert "flops.f64.scalar" in status.reason and "instructions" not in status.reason
    assert [m.name for m in source.counter_set.metrics][::2] == ["instructions", "cycles"]
