"""Energy per socket from made-up power zones: wraps, dies, what is hidden; from real ones where there are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.records import MetricKind, Scope, SourceSettings
from roofline_agent.sources.files import CounterFile
from roofline_agent.sources.rapl import METRICS, RaplSource

from tests.fakes import wait_for

from .rapl_files import TOP, TWO_SOCKETS, ZONES, zone
from .trees import rows, settings, write


@pytest.fixture
def source(tmp_path: Path) -> Iterator[RaplSource]:
    source = RaplSource(settings(tmp_path))
    yield source
    source.close()


def values(source: RaplSource) -> dict[str, tuple[int | float | None, ...]]:
    return {name: tuple(row.values()) for name, row in rows(source).items()}


def test_each_socket_has_a_row_with_its_own_zones(tmp_path: Path, source: RaplSource) -> None:
    write(tmp_path, TWO_SOCKETS)
    assert source.probe().works
    assert values(source) == {"socket 0": (5.0, 0.7, 1.5), "socket 1": (6.0, 0.9, None)}
    assert all(row.rank is None for row in source.sample([]))


def test_metrics_are_growing_joules_of_a_socket() -> None:
    assert {(m.unit, m.kind, m.scope, m.is_double) for m in METRICS} == {
        ("J", MetricKind.CUMULATIVE, Scope.SOCKET, True)
    }


def test_counter_that_wraps_goes_on(tmp_path: Path, source: RaplSource) -> None:
    write(tmp_path, zone("intel-rapl:0", "package-0", TOP - 1_000_000))
    (first,) = values(source).values()
    write(tmp_path, zone("intel-rapl:0", "package-0", 2_000_000))
    (second,) = values(source).values()
    assert second[0] - first[0] == pytest.approx(3.0, abs=1e-5)  # type: ignore[operator]
    write(tmp_path, zone("intel-rapl:0", "package-0", 2_500_000))
    (third,) = values(source).values()
    assert third[0] - second[0] == pytest.approx(0.5)  # type: ignore[operator]


@given(st.integers(10, 10**6), st.data())
def test_energy_is_the_sum_of_its_steps_however_often_it_wraps(modulus: int, data: st.DataObject) -> None:
    class Made(CounterFile):
        reading: int | None = 0

        def number(self) -> int | None:
            return self.reading

    steps = data.draw(st.lists(st.integers(0, modulus // 2), max_size=30))
    counter, sum_of = Made("", modulus), 0
    assert counter.count() == 0
    for step in steps:
        sum_of += step
        counter.reading = sum_of % modulus
        assert counter.count() == sum_of


def test_counter_that_started_over_does_not_jump(tmp_path: Path, source: RaplSource) -> None:
    write(tmp_path, zone("intel-rapl:0", "package-0", 40_000_000))
    assert values(source)["socket 0"][0] == 40.0
    write(tmp_path, zone("intel-rapl:0", "package-0", 1_000_000))
    assert values(source)["socket 0"][0] == 40.0, "not a wrap: that would be 262 kJ"
    write(tmp_path, zone("intel-rapl:0", "package-0", 3_000_000))
    assert values(source)["socket 0"][0] == 42.0


def test_second_way_to_the_same_package_is_not_counted(tmp_path: Path, source: RaplSource) -> None:
    write(tmp_path, {**TWO_SOCKETS, **zone("intel-rapl-mmio:0", "package-0", 77)})
    assert values(source)["socket 0"][0] == 5.0


def test_mmio_alone_is_used(tmp_path: Path, source: RaplSource) -> None:
    write(tmp_path, zone("intel-rapl-mmio:0", "package-0", 4_000_000))
    assert values(source) == {"socket 0": (4.0, None, None)}


def test_dies_of_one_package_are_added_up(tmp_path: Path, source: RaplSource) -> None:
    write(tmp_path, zone("intel-rapl:0", "package-0-die-0", 1_000_000))
    write(tmp_path, zone("intel-rapl:1", "package-0-die-1", 2_000_000))
    assert values(source) == {"socket 0": (3.0, None, None)}
    (tmp_path / ZONES / "intel-rapl:1/energy_uj").write_text("what\n")
    assert values(source) == {}, "half of a socket is not a socket"


def test_zone_that_vanishes_costs_its_value_and_comes_back(tmp_path: Path, source: RaplSource) -> None:
    write(tmp_path, TWO_SOCKETS)
    assert len(values(source)) == 2
    (tmp_path / ZONES / "intel-rapl:0:1/energy_uj").write_text("")
    assert values(source)["socket 0"] == (5.0, None, 1.5)
    write(tmp_path, zone("intel-rapl:0:1", "dram", 800_000))
    assert values(source)["socket 0"] == (5.0, 0.8, 1.5)


def test_no_powercap_is_no_source(tmp_path: Path, source: RaplSource) -> None:
    status = source.probe()
    assert not status.works and "driver is not loaded" in status.reason
    assert "modprobe intel_rapl_msr" in status.advice
    assert source.sample([]) == []


def test_virtual_machine_is_named_as_the_reason(tmp_path: Path, source: RaplSource) -> None:
    write(tmp_path, {"proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu hypervisor avx2\n"})
    assert source.probe().reason == "a virtual machine sees no energy counters"


def test_platform_alone_is_no_socket(tmp_path: Path, source: RaplSource) -> None:
    write(tmp_path, zone("intel-rapl:0", "psys", 1))
    status = source.probe()
    assert not status.works and "no zone of a processor's package" in status.reason


def test_unreadable_counters_name_the_way_out(tmp_path: Path, source: RaplSource) -> None:
    write(tmp_path, TWO_SOCKETS)
    for file in (tmp_path / ZONES).glob("*/energy_uj"):
        file.unlink()
        file.mkdir()  # even root cannot read that
    status = source.probe()
    assert not status.works and "root alone" in status.reason
    assert "chmod a+r" in status.advice


def test_files_are_closed(tmp_path: Path) -> None:
    write(tmp_path, TWO_SOCKETS)
    before = len(os.listdir("/proc/self/fd"))
    source = RaplSource(settings(tmp_path))
    source.probe()
    source.sample([])
    assert len(os.listdir("/proc/self/fd")) == before + 5
    source.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_energy_of_this_machine_grows() -> None:
    source = RaplSource(SourceSettings())
    status = source.probe()
    if not status.works:
        pytest.skip(status.reason)
    first = values(source)
    assert first
    wait_for(lambda: all(values(source)[name][0] > row[0] for name, row in first.items()))  # type: ignore
    source.close()
