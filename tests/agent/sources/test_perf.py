"""The per-rank perf source: what it asks on which CPU, real runs with software events, why not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from roofline_agent.events import HardwareEvent
from roofline_agent.records import CounterSet, Provenance, Rank, Sample, SourceSettings, SourceStatus
from roofline_agent.sources.perf import PerfSource
from roofline_agent.sources.perf_stat.groups import grouped
from roofline_agent.sources.perf_stat.probe import PER_PROCESS, Counted, tried

from tests.fakes import ended, wait_for

from .fake_tools import REFUSED, amd, arm, calls_of, counting_perf, intel, proc_tree, script

FAULTING = """
import mmap
print(flush=True)
while True:
    with mmap.mmap(-1, 1 << 20) as memory:
        memory[:] = bytes(1 << 20)
"""
SKYLAKE_SP, SAPPHIRE_RAPIDS, ALDER_LAKE = intel(0x55), intel(0x8F), intel(0x97)


def source_of(perf: Path | str, proc: Path | str = "/proc", interval_ns: int = 10**9) -> PerfSource:
    return PerfSource(
        SourceSettings(proc=str(proc), interval_ns=interval_ns, environ={"ROOFLINE_PERF": str(perf)})
    )


def status_of(perf: Path | str, proc: Path | str = "/proc") -> SourceStatus:
    return source_of(perf, proc).probe()


def counted_by(counter_set: CounterSet) -> list[str]:
    return [metric.name for metric in counter_set.metrics if not metric.coverage_of]


def asked_on(tmp_path: Path, cpuinfo: str, *rules: tuple[str, str, str]) -> tuple[PerfSource, str]:
    """A probed source on this CPU, and the events it then asks of a rank."""
    perf = counting_perf(tmp_path, *rules)
    source = source_of(perf, proc_tree(tmp_path / "proc", cpuinfo))
    assert source.probe().works
    source.sample([Rank("j", "worker", 0, os.getpid(), 1)])
    last = wait_for(lambda: next((call for call in calls_of(perf) if "-I" in call), None), "perf on the rank")
    source.close()
    return source, " ".join(last)


# What it asks for


def test_skylake_server_counts_in_groups_of_four(tmp_path: Path) -> None:
    source, asked = asked_on(tmp_path, SKYLAKE_SP)
    assert counted_by(source.counter_set)[:3] == ["instructions", "cycles", "flops.f64.scalar"]
    assert counted_by(source.counter_set)[-1] == "dram_bytes.llc_bound"
    first, second, third, witness = asked.split("-e ")[1].split(" ")[0].split("},{")
    assert first.startswith("{instructions,cycles,cpu/") and first.count("cpu/") == 4
    assert (second.count("cpu/"), third.count("cpu/")) == (4, 1)
    assert witness == "task-clock}"


def test_watchdog_keeps_a_counter_for_itself(tmp_path: Path) -> None:
    proc = proc_tree(tmp_path / "proc", SKYLAKE_SP)
    (proc / "sys/kernel/nmi_watchdog").write_text("1\n")
    perf = counting_perf(tmp_path)
    assert source_of(perf, proc).probe().works
    groups = [call[call.index("-e") + 1] for call in calls_of(perf) if call[call.index("-e") + 1][0] == "{"]
    assert [group.count("cpu/") for group in groups] == [3, 3, 3]


def test_groups_shrink_where_a_virtual_machine_has_fewer_counters(tmp_path: Path) -> None:
    perf = script(
        tmp_path,
        """for last; do case "$last" in *cpu/*cpu/*cpu/*) many=1;; esac; done
[ "$many" ] && value='<not counted>' || value=5
while [ "$1" != -e ]; do shift; done
echo "$value;;$2;1;100.00;;" >&2""",
    )
    source = source_of(perf, proc_tree(tmp_path / "proc", SKYLAKE_SP))
    assert source.probe().works
    assert all(group.count("cpu/") <= 2 for group in source.events.split("},{"))


def test_amd_flops_take_one_group(tmp_path: Path) -> None:
    source, asked = asked_on(tmp_path, amd(0x19, 0x11))
    assert "{instructions,cycles,cpu/event=0x03,umask=0x1f/,cpu/event=0x44,umask=0x48/}" in asked
    assert "flops.all.all" in counted_by(source.counter_set)


@pytest.mark.parametrize(("vector_bytes", "factor"), [("16", 1), ("32", 2), ("64", 4)])
def test_scalable_flops_follow_the_vector_length(tmp_path: Path, vector_bytes: str, factor: int) -> None:
    proc = proc_tree(tmp_path / "proc", arm(0xD40))
    (proc / "sys/abi").mkdir()
    (proc / "sys/abi/sve_default_vector_length").write_text(f"{vector_bytes}\n")
    source = source_of(counting_perf(tmp_path), proc)
    assert source.probe().works
    factors = {one.event.perf: one.event.factor for one in source.counted}
    assert (factors["r80c0"], factors["r80c1"]) == (factor, 1)
    flops = next(metric for metric in source.counter_set.metrics if metric.name == "flops.all.all")
    assert flops.provenance == Provenance.ESTIMATED


def test_half_of_a_sum_is_not_offered(tmp_path: Path) -> None:
    source = source_of(
        counting_perf(tmp_path, ("r80c0", "<not supported>", "")), proc_tree(tmp_path / "p", arm(0xD40))
    )
    status = source.probe()
    assert status.works and "flops.all.all" in status.reason
    assert counted_by(source.counter_set) == ["instructions", "cycles", "llc_misses", "dram_bytes.llc_bound"]


def test_two_kinds_of_core_are_not_scaled_to_each_others_time(tmp_path: Path) -> None:
    source, asked = asked_on(tmp_path, ALDER_LAKE, ("cpu_atom", "<not counted>", ""))
    assert "--no-scale" in asked
    assert "{cpu_atom/instructions/,cpu_atom/cycles/}" in asked
    assert counted_by(source.counter_set)[:2] == ["instructions", "cycles"]


def test_events_that_do_not_work_cost_only_themselves_and_are_named(tmp_path: Path) -> None:
    rules = (("0xcf", "fail", ""), ("0xb7", "<not supported>", ""))
    source = source_of(counting_perf(tmp_path, *rules), proc_tree(tmp_path / "p", SAPPHIRE_RAPIDS))
    status = source.probe()
    assert status.works
    missing = "flops.f16.scalar, flops.f16.128, flops.f16.256, flops.f16.512, amx_busy_cycles"
    assert f"not counted here: {missing}" in status.reason and "AMX" in status.reason
    assert counted_by(source.counter_set)[-3:] == ["flops.f64.512", "flops.f32.512", "dram_bytes.llc_bound"]


def test_user_space_only_is_reported_with_the_way_out(tmp_path: Path) -> None:
    perf = script(tmp_path, """while [ "$1" != -e ]; do shift; done; echo "5;;cycles:u;1;100.00;;" >&2""")
    status = status_of(perf, proc_tree(tmp_path / "proc", intel(0x3F), paranoid=2))
    assert status.works
    assert "user space only: kernel.perf_event_paranoid is 2, kernel cycles and DRAM need 0" in status.reason
    assert "sysctl kernel.perf_event_paranoid=0" in status.advice and "CAP_PERFMON" in status.advice


def test_answers_are_kept_for_the_life_of_the_process(tmp_path: Path) -> None:
    perf, proc = counting_perf(tmp_path), proc_tree(tmp_path / "proc", amd(0x17, 0x31))
    assert status_of(perf, proc).works
    calls = len(calls_of(perf))
    assert status_of(perf, proc).works
    assert len(calls_of(perf)) == calls


# Why not


def test_without_perf(tmp_path: Path) -> None:
    status = status_of(tmp_path / "nothing")
    assert not status.works
    assert "not installed" in status.reason and "install" in status.advice


def test_without_a_pmu(tmp_path: Path) -> None:
    status = status_of(
        counting_perf(tmp_path, ("", "<not supported>", "")), proc_tree(tmp_path / "p", SKYLAKE_SP)
    )
    assert not status.works
    assert "no hardware PMU" in status.reason and "vPMU" in status.advice


def test_perf_that_fails_on_every_event_is_no_pmu(tmp_path: Path) -> None:
    assert not status_of(script(tmp_path, "exit 129")).works


def test_paranoid_kernel_is_named(tmp_path: Path) -> None:
    perf = script(tmp_path, f"cat >&2 <<END\n{REFUSED}END\nexit 255")
    status = status_of(perf, proc_tree(tmp_path / "proc", SKYLAKE_SP, paranoid=4))
    assert not status.works
    assert "perf_event_paranoid is 4" in status.reason and "CAP_PERFMON" in status.advice


def test_container_is_named(tmp_path: Path) -> None:
    perf = script(tmp_path, f"cat >&2 <<END\n{REFUSED}END\nexit 255")
    status = status_of(perf, proc_tree(tmp_path / "proc", SKYLAKE_SP, paranoid=1, seccomp=2))
    assert not status.works
    assert "seccomp" in status.reason


def test_perf_that_hangs_or_cannot_run_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "perf"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    status = status_of(path)
    assert not status.works and "cannot be run" in status.reason
    monkeypatch.setattr("roofline_agent.sources.perf_stat.probe.PROBE_TIMEOUT_S", 0.2)
    status = status_of(script(tmp_path, "exec sleep 60"))
    assert not status.works and "cannot be run" in status.reason


def test_without_cpuinfo(tmp_path: Path) -> None:
    assert not status_of(counting_perf(tmp_path), tmp_path / "nothing").works


# Running


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with ended(subprocess.Popen([sys.executable, "-c", FAULTING], stdout=subprocess.PIPE)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


TIME_AND_FAULTS = [HardwareEvent("cpu-clock", "ms", "ms"), HardwareEvent("page-faults", "faults")]


def real(*events: HardwareEvent, interval_ns: int = 50_000_000) -> PerfSource:
    source = source_of("perf", interval_ns=interval_ns)
    try:
        works = all(tried("perf", PER_PROCESS, event.perf).complete for event in events)
    except (OSError, subprocess.SubprocessError):
        works = False
    if not works:
        pytest.skip("perf does not count software events here")
    source.use([Counted(event.perf, event) for event in events], grouped(events, 4))
    return source


def scripted(tmp_path: Path, body: str, *events: HardwareEvent) -> PerfSource:
    source = source_of(script(tmp_path, body))
    source.use([Counted(event.perf, event) for event in events], grouped(events, 4))
    return source


def collect(source: PerfSource, ranks: list[Rank], count: int) -> list[Sample]:
    rows: list[Sample] = []
    wait_for(lambda: (rows.extend(source.sample(ranks)), len(rows) >= count)[1], f"{count} rows of perf")
    return rows


def perfs() -> list[psutil.Process]:
    return [process for process in psutil.Process().children() if process.name() == "perf"]


def test_real_counters_of_a_real_child(child: subprocess.Popen[bytes]) -> None:
    source, rank = real(*TIME_AND_FAULTS), Rank("j", "worker", 0, child.pid, 1)
    try:
        first, *rows = collect(source, [rank], 8)
    finally:
        source.close()
    assert first.values == (0, None, 0, None)
    faults = [row.values[2] for row in rows]
    assert faults == sorted(faults)  # type: ignore[type-var]
    assert faults[-1] > faults[0] > 0  # type: ignore[operator]
    times = [first.time_ns, *(row.time_ns for row in rows)]
    assert times == sorted(set(times))
    assert all(row.rank == rank and row.instance == "" and row.values[3] == 1.0 for row in rows)
    seen_ms = rows[-1].values[0] - rows[0].values[0]  # type: ignore[operator]
    assert 0 < seen_ms <= (times[-1] - times[1]) / 1e6 * 1.1, "one thread has one CPU"


def test_several_ranks_have_a_perf_each(child: subprocess.Popen[bytes]) -> None:
    source = real(*TIME_AND_FAULTS)
    ranks = [Rank("j", "worker", 0, child.pid, 1), Rank("j", "worker", 1, os.getpid(), 1)]
    try:
        rows = collect(source, ranks, 8)
        wait_for(lambda: len(perfs()) == 2)
    finally:
        source.close()
    assert {row.rank for row in rows} == set(ranks)


def test_idle_rank_counts_nothing_and_misses_nothing() -> None:
    source = real(HardwareEvent("page-faults", "faults"))
    with ended(subprocess.Popen(["sleep", "600"])) as process:
        rank = Rank("j", "ps", 0, process.pid, 1)
        try:
            rows = collect(source, [rank], 4)
        finally:
            source.close()
    assert {row.values for row in rows[1:]} == {(rows[0].values[0], None)}


def test_perf_ends_with_the_rank_and_with_the_source(child: subprocess.Popen[bytes]) -> None:
    source, rank = real(*TIME_AND_FAULTS), Rank("j", "worker", 0, child.pid, 1)
    collect(source, [rank], 1)
    (first,) = wait_for(perfs)  # behind a change of pace it may just start
    assert source.sample([])[-1].rank == rank, "its last interval"
    assert not first.is_running()
    collect(source, [rank], 1)
    source.close()
    assert perfs() == []


def test_reused_pid_is_another_rank(child: subprocess.Popen[bytes]) -> None:
    source = real(*TIME_AND_FAULTS)
    try:
        before = collect(source, [Rank("j", "worker", 0, child.pid, 1)], 4)
        later = Rank("j", "worker", 0, child.pid, 2)
        rows = [row for row in collect(source, [later], 4) if row.rank == later]
    finally:
        source.close()
    assert before[-1].values[2] and rows[0].values == (0, None, 0, None)


def test_factor_turns_counts_into_units(child: subprocess.Popen[bytes]) -> None:
    source = real(HardwareEvent("page-faults", "once"), HardwareEvent("minor-faults", "x16", "1", 16))
    try:
        *_, row = collect(source, [Rank("j", "worker", 0, child.pid, 1)], 2)
    finally:
        source.close()
    # The two are read one after the other.
    assert row.values[2] == pytest.approx(16 * row.values[0], rel=0.1)  # type: ignore[operator]
    assert row.values[2] > 0  # type: ignore[operator]


def test_rank_that_ends_is_no_failure(child: subprocess.Popen[bytes]) -> None:
    source = real(*TIME_AND_FAULTS, interval_ns=20_000_000)
    rank = Rank("j", "worker", 0, child.pid, 1)
    try:
        collect(source, [rank], 2)
        child.kill()
        child.wait()  # while it waits for its parent, perf stays
        wait_for(lambda: all(p.status() == psutil.STATUS_ZOMBIE for p in perfs()), "perf to end")
        after = [row for _ in range(2) for row in source.sample([rank])]
        assert {row.rank for row in after} <= {rank}
    finally:
        source.close()


# What goes wrong


def test_missing_counts_are_absent(tmp_path: Path) -> None:
    body = """cat >&2 <<END
1.0;100;;a;5;100.00;;
1.0;7;;b;5;50.00;;
1.0;9;msec;task-clock;5;100.00;;
2.0;<not counted>;;a;0;100.00;;
2.0;1;;b;5;50.00;;
2.0;9;msec;task-clock;5;100.00;;
3.0;10;;a;5;100.00;;
3.0;1;;b;5;50.00;;
3.0;9;msec;task-clock;5;100.00;;
END
exec sleep 60"""
    source = scripted(tmp_path, body, HardwareEvent("a", "a", "1", 2), HardwareEvent("b", "b"))
    try:
        rows = collect(source, [Rank("j", "worker", 0, os.getpid(), 1)], 4)
    finally:
        source.close()
    assert [r.values for r in rows] == [
        (0, None, 0, None),
        (200, 1.0, 7, 0.5),
        (None, 0.0, 8, 0.5),
        (220, 1.0, 9, 0.5),
    ]
    assert [b.time_ns - a.time_ns for a, b in pairwise(rows)] == [10**9] * 3


def test_perf_that_dies_is_reported_once_and_started_again_later(tmp_path: Path) -> None:
    body = f"echo x >> {tmp_path}/starts; echo '1.0;5;;a;1;100.00;;' >&2; echo 'Error: gone' >&2; exit 1"
    source = scripted(tmp_path, body, HardwareEvent("a", "a"))
    rank = Rank("j", "worker", 0, os.getpid(), 1)
    rows: list[Sample] = []
    errors: list[str] = []

    def ask() -> None:
        try:
            rows.extend(source.sample([rank]))
        except OSError as error:
            errors.append(str(error))

    wait_for(lambda: (ask(), errors)[1], "the complaint")
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        ask()
        time.sleep(0.01)
    assert errors == ["a rank is not counted: perf ended (status 1): Error: gone"]
    assert len((tmp_path / "starts").read_text().split()) == 1, "no tight loop"
    wait_for(lambda: (ask(), len((tmp_path / "starts").read_text().split()) > 1)[1], "another start")
    wait_for(lambda: (ask(), len(rows) >= 4)[1], "rows of the second perf")
    source.close()
    # 5 counted, a gap that nobody counted, 5 more; no row was lost to the complaint.
    assert [row.values for row in rows] == [(0, None), (5, 1.0), (5, 0.0), (10, 1.0)]
    assert len(errors) == 1


def test_perf_that_cannot_be_started_is_reported_once(tmp_path: Path) -> None:
    source = source_of(tmp_path / "gone")
    source.use([Counted("a", HardwareEvent("a", "a"))], [(HardwareEvent("a", "a"),)])
    rank = Rank("j", "worker", 0, os.getpid(), 1)
    errors = []
    for _ in range(20):
        try:
            source.sample([rank])
        except OSError as error:
            errors.append(str(error))
        time.sleep(0.02)
    source.close()
    assert len(errors) == 1 and "No such file" in errors[0]


def test_perf_that_prints_nothing_costs_nothing_but_its_rows(tmp_path: Path) -> None:
    source = scripted(tmp_path, "exec sleep 60", HardwareEvent("a", "a"))
    rank = Rank("j", "worker", 0, os.getpid(), 1)
    assert [source.sample([rank]) for _ in range(5)] == [[]] * 5
    source.close()


def test_new_rate_of_the_agent_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = scripted(tmp_path, f'echo "$*" >> {tmp_path}/starts; exec sleep 60', HardwareEvent("a", "a"))
    rank = Rank("j", "worker", 0, os.getpid(), 1)

    def intervals() -> list[str]:
        if not (tmp_path / "starts").exists():
            return []
        return [line.split("-I ")[1].split()[0] for line in (tmp_path / "starts").read_text().splitlines()]

    source.sample([rank])
    wait_for(lambda: intervals() == ["1000"], "the first perf")
    for asked in range(10):
        with monkeypatch.context() as patch:
            patch.setattr(time, "monotonic_ns", lambda now=50_000_000 * asked: now)
            source.sample([rank])
    wait_for(lambda: len(intervals()) > 1, "the second perf")
    source.close()
    assert intervals() == ["1000", "50"]
