"""Memory traffic per socket from made-up resctrl trees: caches, groups that come and go, absent readings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest
from roofline_agent.sources.resctrl import ResctrlSource

from .resctrl_files import INFO, ROOT, cpu, monitor
from .trees import CLOCK, rows, settings, write


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two sockets with one cache each; the cache ids are not the sockets' numbers."""
    write(tmp_path, {**INFO, **cpu(0, 0, 0), **cpu(1, 2, 1), **monitor(0, 1000, 600), **monitor(2, 50, 40)})
    return tmp_path


@pytest.fixture
def source(tree: Path) -> Iterator[ResctrlSource]:
    source = ResctrlSource(settings(tree))
    yield source
    source.close()


def values(source: ResctrlSource) -> dict[str, tuple[int | float | None, ...]]:
    CLOCK.advance(60)  # the groups were listed long ago
    return {name: tuple(row.values()) for name, row in rows(source).items()}


def test_each_socket_has_its_traffic(source: ResctrlSource) -> None:
    assert source.probe().works
    assert values(source) == {"socket 0": (1000, 600), "socket 1": (50, 40)}


def test_caches_of_one_socket_are_added_up(tree: Path) -> None:
    write(tree, {**cpu(2, 4, 1), **monitor(4, 7, 7)})
    assert values(ResctrlSource(settings(tree)))["socket 1"] == (57, 47)


def test_cache_of_an_unknown_socket_keeps_its_own_name(source: ResctrlSource, tree: Path) -> None:
    write(tree, monitor(9, 5, 5))
    assert values(source)["L3 9"] == (5, 5)


def test_control_groups_count_and_their_monitoring_groups_do_not_count_twice(
    source: ResctrlSource, tree: Path
) -> None:
    write(tree, monitor(0, 300, 200, "job/"))
    write(tree, monitor(0, 100, 100, "job/mon_groups/rank0/"))
    write(tree, monitor(0, 400, 400, "mon_groups/rest/"))
    assert values(source)["socket 0"] == (1300, 800)


def test_what_a_vanished_group_moved_is_not_forgotten(source: ResctrlSource, tree: Path) -> None:
    write(tree, monitor(0, 300, 200, "job/"))
    assert values(source)["socket 0"] == (1300, 800)
    rmtree(tree / ROOT / "job")
    assert values(source)["socket 0"] == (1300, 800)
    write(tree, monitor(0, 1010, 601))
    assert values(source)["socket 0"] == (1310, 801)


def test_group_that_vanishes_between_two_looks_costs_nothing(source: ResctrlSource, tree: Path) -> None:
    write(tree, monitor(0, 300, 200, "job/"))
    values(source)
    for name in ("mbm_total_bytes", "mbm_local_bytes"):
        (tree / ROOT / f"job/mon_data/mon_L3_00/{name}").write_text(
            ""
        )  # an open file of a group that has gone
    rmtree(tree / ROOT / "job")
    assert rows(source)["socket 0"] == {"dram_total_bytes": 1300, "dram_local_bytes": 800}


@pytest.mark.parametrize("word", ["Unavailable", "Error", "Unassigned", "", "-1"])
def test_reading_that_is_not_there_is_absent_and_not_zero(
    source: ResctrlSource, tree: Path, word: str
) -> None:
    values(source)
    write(tree, monitor(0, word, 700))
    assert values(source)["socket 0"] == (None, 700)
    write(tree, monitor(0, 1500, 800))
    assert values(source)["socket 0"] == (1500, 800), "what was counted meanwhile is there again"


def test_count_that_starts_over_never_falls(source: ResctrlSource, tree: Path) -> None:
    values(source)
    write(tree, monitor(0, 10, 5))
    assert values(source)["socket 0"] == (1000, 600)
    write(tree, monitor(0, 30, 6))
    assert values(source)["socket 0"] == (1020, 601)


def test_unmounted_while_running_gives_no_rows(source: ResctrlSource, tree: Path) -> None:
    values(source)
    rmtree(tree / ROOT)
    (tree / ROOT).mkdir()
    assert values(source) == {}


def test_reason_without_resctrl(tmp_path: Path) -> None:
    status = ResctrlSource(settings(tmp_path)).probe()
    assert not status.works and "no resctrl" in status.reason


def test_reason_where_it_is_not_mounted(tmp_path: Path) -> None:
    (tmp_path / ROOT).mkdir(parents=True)
    write(tmp_path, {"proc/cpuinfo": "flags\t\t: fpu cqm_mbm_total cqm_mbm_local\n"})
    status = ResctrlSource(settings(tmp_path)).probe()
    assert (status.works, status.advice) == (False, "mount -t resctrl resctrl /sys/fs/resctrl")


def test_reason_where_the_cpu_cannot_count(tmp_path: Path) -> None:
    (tmp_path / ROOT).mkdir(parents=True)
    write(tmp_path, {"proc/cpuinfo": "flags\t\t: fpu avx2\n"})
    status = ResctrlSource(settings(tmp_path)).probe()
    assert not status.works and "cqm_mbm_total" in status.reason and "bandwidth" in status.advice


def test_reason_where_only_allocation_is_there(tmp_path: Path) -> None:
    write(tmp_path, {f"{ROOT}/info/L3/num_closids": "16\n", f"{ROOT}/schemata": "L3:0=7ff\n"})
    status = ResctrlSource(settings(tmp_path)).probe()
    assert not status.works and "does not count memory traffic" in status.reason


def test_traffic_of_this_machine() -> None:
    source = ResctrlSource(settings())
    status = source.probe()
    if not status.works:
        pytest.skip(status.reason)
    found = rows(source)
    assert found and all(row["dram_total_bytes"] is not None for row in found.values())
    source.close()
