"""The node's CPU time, memory and waiting: from made-up files, and next to psutil on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from roofline_agent.records import SourceStatus
from roofline_agent.sources.node import (
    METRICS,
    NodeSource,
    parse_available,
    parse_cpu_times,
    parse_pressure,
)

from tests.fakes import wait_for

from .node_files import FILES
from .trees import CLOCK, by_name, settings, write

TICK = 10_000_000


@pytest.fixture
def source(tmp_path: Path) -> Iterator[NodeSource]:
    write(tmp_path, FILES)
    source = NodeSource(settings(tmp_path))
    yield source
    source.close()


def row(source: NodeSource, fresh: bool = True) -> dict[str, int | float | None]:
    """One row, as if the last was long ago; fresh: the slow files too."""
    CLOCK.advance(60 if fresh else 1)
    (sample,) = source.sample([])
    assert (sample.rank, sample.instance) == (None, "")
    return by_name(source, sample)


def test_every_value_has_its_unit(source: NodeSource) -> None:
    assert source.probe() == SourceStatus("node", True)
    assert row(source) == {
        "node_cpu_busy_ns": (100 + 20 + 30 + 6 + 7) * TICK,
        "node_cpu_iowait_ns": 50 * TICK,
        "node_cpu_steal_ns": 8 * TICK,
        "node_memory_available_bytes": 640 * 1024,
        "node_cpu_pressure_ns": 5_289_719_000,
        "node_memory_pressure_ns": 0,
        "node_io_pressure_ns": 12_000,
        "node_cpu_hz": 2_500_000_000,
    }


def test_guest_time_is_not_counted_twice() -> None:
    assert parse_cpu_times(b"cpu  10 5 0 0 0 0 0 0 10 5\n") == (15 * TICK, 0, 0)


@pytest.mark.parametrize(
    "text", [b"", None, b"cpu0 1 2 3 4 5 6 7 8\n", b"cpu 1 2\n", b"cpu  a b c d e f g h\n"]
)
def test_malformed_cpu_line_is_absent(text: bytes | None) -> None:
    assert parse_cpu_times(text) is None


def test_line_of_zeros_is_a_sandbox_and_no_idle_machine(tmp_path: Path, source: NodeSource) -> None:
    write(tmp_path, {"proc/stat": "cpu  0 0 0 0 0 0 0 0 0 0\n"})
    status = source.probe()
    assert not status.works and "counts no CPU time" in status.reason
    assert source.sample([]) == []


@pytest.mark.parametrize("text", [None, b"", b"MemTotal: 5 kB\n", b"MemAvailable: lots kB\n"])
def test_memory_nobody_counts_is_absent(text: bytes | None) -> None:
    assert parse_available(text) is None


@pytest.mark.parametrize("text", [None, b"", b"full avg10=0.00 total=5\n", b"some avg10=0.00 total=\n"])
def test_pressure_nobody_counts_is_absent(text: bytes | None) -> None:
    assert parse_pressure(text) is None


def test_counts_never_fall(tmp_path: Path, source: NodeSource) -> None:
    row(source)
    write(tmp_path, {"proc/stat": "cpu  99 20 30 4000 20 6 7 9 90 1\n"})
    after = row(source)
    assert after["node_cpu_iowait_ns"] == 50 * TICK
    assert after["node_cpu_busy_ns"] == 163 * TICK
    assert after["node_cpu_steal_ns"] == 9 * TICK


def test_slow_files_are_read_now_and_then(source: NodeSource) -> None:
    assert None not in row(source, fresh=False).values()
    second = row(source, fresh=False)
    assert second["node_cpu_busy_ns"] == 163 * TICK
    assert {name for name, value in second.items() if value is None} == {m.name for m in METRICS[3:]}


def test_stat_is_not_read_more_than_five_times_a_second(source: NodeSource) -> None:
    assert len(source.sample([])) == 1
    assert source.sample([]) == []


def test_what_is_missing_is_reported_and_absent(tmp_path: Path) -> None:
    write(tmp_path, {"proc/stat": FILES["proc/stat"]})
    source = NodeSource(settings(tmp_path))
    assert source.probe().works
    assert "psi=1" in source.probe().reason and "no cpufreq" in source.probe().reason
    assert list(row(source).values())[3:] == [None] * 5


def test_at_most_sixteen_of_many_cpus_are_asked_for_their_clock(tmp_path: Path, source: NodeSource) -> None:
    for cpu in range(100):
        write(tmp_path, {f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq": f"{cpu}\n"})
    many = NodeSource(settings(tmp_path))
    assert 8 <= len(many._clocks) <= 16
    assert 40_000 < row(many)["node_cpu_hz"] < 60_000  # type: ignore[operator]
    many.close()


def test_this_machine_is_seen_as_psutil_sees_it() -> None:
    source = NodeSource(settings())
    if not source.probe().works:
        pytest.skip(source.probe().reason)

    def busy() -> float:
        times = psutil.cpu_times()
        return times.user + times.nice + times.system + times.irq + times.softirq

    before = busy()
    values = row(source)
    assert before - 0.05 <= values["node_cpu_busy_ns"] / 1e9 <= busy() + 0.05  # type: ignore[operator]
    available = psutil.virtual_memory().available
    assert values["node_memory_available_bytes"] == pytest.approx(available, rel=0.2)

    start = time.process_time()
    while time.process_time() - start < 0.1:
        pass
    grown = wait_for(lambda: row(source)["node_cpu_busy_ns"] - values["node_cpu_busy_ns"])  # type: ignore
    assert grown >= 50_000_000, "a tenth of a second of our own is in it"
    source.close()
