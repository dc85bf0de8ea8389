"""Use and limits of cgroups: made-up trees of both versions, and throttling of a real child where allowed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

import pytest
from roofline_agent.records import Rank
from roofline_agent.sources.cgroup import CgroupSource
from roofline_agent.sources.cgroup_tree import CgroupLevel, levels, parse_membership, parse_mounts, why_unseen
from roofline_agent.sources.files import numbers_by_word

from tests.fakes import ended, wait_for

from .cgroup_files import ROOT, V1, V2, home, v2
from .trees import CLOCK, by_name, settings, write

WORKERS = [Rank("j", "worker", i, 100 + i, 1) for i in range(3)]
Row = dict[str, int | float | None]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write(tmp_path, {"proc/self/mountinfo": V2, f"{ROOT}/cgroup.controllers": "cpu memory\n"})
    return tmp_path


@pytest.fixture
def source(tree: Path) -> Iterator[CgroupSource]:
    source = CgroupSource(settings(tree))
    yield source
    source.close()


def look(source: CgroupSource, ranks: list[Rank]) -> dict[tuple[str | None, str], Row]:
    CLOCK.advance(60)
    return {(row.rank and row.rank.key, row.instance): by_name(source, row) for row in source.sample(ranks)}


def only(found: dict[tuple[str | None, str], Row]) -> Row:
    (row,) = found.values()
    return row


def test_rank_alone_in_its_cgroup_has_the_row(source: CgroupSource, tree: Path) -> None:
    write(tree, v2("pod/a", "150000 100000", "8589934592", 4096) | home(WORKERS[0], "/pod/a"))
    assert source.probe().works
    assert look(source, WORKERS[:1]) == {
        ("worker:0", ""): {
            "cgroup_cpu_ns": 500_000,
            "cgroup_throttled_ns": 70_000,
            "cgroup_throttled_periods": 3,
            "cgroup_cpu_limit": 1.5,
            "cgroup_memory_bytes": 4096,
            "cgroup_memory_limit_bytes": 8 << 30,
            "cgroup_oom_kills": 2,
        }
    }


def test_ranks_that_share_a_cgroup_have_one_row_of_the_node(source: CgroupSource, tree: Path) -> None:
    write(tree, v2("slurm/job_7/step_0") | v2("other"))
    write(tree, home(WORKERS[0], "/slurm/job_7/step_0") | home(WORKERS[1], "/slurm/job_7/step_0"))
    write(tree, home(WORKERS[2], "/other"))
    assert set(look(source, WORKERS)) == {(None, "job_7/step_0"), ("worker:2", "")}


def test_limit_of_the_job_holds_for_ranks_further_down(source: CgroupSource, tree: Path) -> None:
    write(
        tree,
        v2("job_7", "200000 100000", "1000000", 999_000) | v2("job_7/task_0", used=5) | v2("job_7/task_1"),
    )
    write(tree, home(WORKERS[0], "/job_7/task_0") | home(WORKERS[1], "/job_7/task_1"))
    found = look(source, WORKERS[:2])
    assert set(found) == {(None, "job_7"), ("worker:0", ""), ("worker:1", "")}
    row = found[None, "job_7"]
    assert (row["cgroup_memory_bytes"], row["cgroup_memory_limit_bytes"]) == (999_000, 1_000_000)
    assert row["cgroup_cpu_limit"] == 2.0


def test_of_a_limit_that_ranks_share_each_has_its_part(source: CgroupSource, tree: Path) -> None:
    write(tree, v2("pod/a", "150000 100000", used=4096))
    write(tree, home(WORKERS[0], "/pod/a") | home(WORKERS[1], "/pod/a"))
    found = look(source, WORKERS[:2])
    assert found[None, "pod/a"]["cgroup_throttled_ns"] == 70_000
    for rank in ("worker:0", "worker:1"):
        known = {name: value for name, value in found[rank, ""].items() if value is not None}
        assert known == {"cgroup_throttled_ns": 35_000, "cgroup_cpu_limit": 0.75}


def test_cpu_limit_above_cgroups_with_memory_of_their_own_is_shared_too(
    source: CgroupSource, tree: Path
) -> None:
    write(
        tree, v2("train.slice", "200000 100000") | v2("train.slice/w0", used=5) | v2("train.slice/w1", used=6)
    )
    write(tree, home(WORKERS[0], "/train.slice/w0") | home(WORKERS[1], "/train.slice/w1"))
    found = look(source, WORKERS[:2])
    assert set(found) == {(None, "train.slice"), ("worker:0", ""), ("worker:1", "")}
    node = found[None, "train.slice"]
    assert (node["cgroup_cpu_ns"], node["cgroup_cpu_limit"], node["cgroup_throttled_ns"]) == (
        500_000,
        2,
        70_000,
    )
    assert node["cgroup_memory_bytes"] is None
    for used, rank in ((5, "worker:0"), (6, "worker:1")):
        row = found[rank, ""]
        assert (row["cgroup_cpu_limit"], row["cgroup_throttled_ns"]) == (1.0, 35_000)
        assert (row["cgroup_memory_bytes"], row["cgroup_cpu_ns"]) == (used, None)


def test_throttling_of_the_past_is_not_shared_out_anew_when_a_rank_ends(
    source: CgroupSource, tree: Path
) -> None:
    write(tree, v2("pod/a", "150000 100000"))
    for rank in WORKERS:
        write(tree, home(rank, "/pod/a"))
    seen = []
    for usec, ranks in ((60, 3), (90, 3), (90, 2), (110, 2), (110, 1), (115, 1)):
        write(tree, {f"{ROOT}/pod/a/cpu.stat": f"usage_usec 5\nthrottled_usec {usec}\n"})
        seen.append(look(source, WORKERS[:ranks])["worker:0", ""]["cgroup_throttled_ns"])
    assert seen == [20_000, 30_000, 30_000, 40_000, 40_000, 45_000]


def test_rank_that_is_moved_has_no_throttling_of_the_past(source: CgroupSource, tree: Path) -> None:
    write(tree, v2("a", "150000 100000") | v2("b", "150000 100000") | home(WORKERS[0], "/a"))
    write(tree, {f"{ROOT}/b/cpu.stat": "throttled_usec 9000\n"})
    assert only(look(source, WORKERS[:1]))["cgroup_throttled_ns"] == 70_000
    write(tree, home(WORKERS[0], "/b"))
    assert only(look(source, WORKERS[:1]))["cgroup_throttled_ns"] == 70_000
    write(tree, {f"{ROOT}/b/cpu.stat": "throttled_usec 9001\n"})
    assert only(look(source, WORKERS[:1]))["cgroup_throttled_ns"] == 71_000


def test_lowest_limit_counts_and_each_resource_has_its_own(source: CgroupSource, tree: Path) -> None:
    write(tree, v2("pod", "max 100000", "1000", 900) | v2("pod/c", "50000 100000", "5000", 800))
    write(tree, home(WORKERS[0], "/pod/c"))
    row = only(look(source, WORKERS[:1]))
    assert (row["cgroup_cpu_limit"], row["cgroup_memory_limit_bytes"]) == (0.5, 1000)
    assert row["cgroup_memory_bytes"] == 900


def test_without_limits_use_is_that_of_the_ranks_own_cgroup(source: CgroupSource, tree: Path) -> None:
    write(tree, v2("user", used=9) | v2("user/session", used=6) | home(WORKERS[0], "/user/session"))
    row = only(look(source, WORKERS[:1]))
    assert (row["cgroup_memory_bytes"], row["cgroup_memory_limit_bytes"]) == (6, None)
    assert row["cgroup_cpu_limit"] is None


def test_rank_in_the_root_has_no_row(source: CgroupSource, tree: Path) -> None:
    write(tree, home(WORKERS[0], "/") | {f"{ROOT}/cpu.stat": "usage_usec 5\n"})
    assert look(source, WORKERS[:1]) == {}


def test_container_sees_its_own_cgroup_as_the_root(source: CgroupSource, tree: Path) -> None:
    write(tree, v2("", "100000 100000", "2000", 100) | home(WORKERS[0], "/") | home(WORKERS[1], "/"))
    assert set(look(source, WORKERS[:2])) == {(None, "/"), ("worker:0", ""), ("worker:1", "")}


def test_part_of_the_tree_mounted_in_a_container_is_found() -> None:
    mounts = parse_mounts(V2.replace(" / /sys", " /docker/abc /sys").encode(), "/sys")
    here = levels(mounts, [(frozenset(), "/docker/abc/x")], "cpu")
    assert [level.directory for level in here] == ["/sys/fs/cgroup/x", "/sys/fs/cgroup"]
    assert levels(mounts, [(frozenset(), "/docker/abcd/x")], "cpu") == []


def test_cgroup_outside_the_namespace_is_out_of_sight(source: CgroupSource, tree: Path) -> None:
    write(tree, v2("") | v2("../other") | home(WORKERS[0], "/../other"))
    assert look(source, WORKERS[:1]) == {}


def test_first_version_is_read_with_its_own_files(tree: Path) -> None:
    write(tree, {"proc/self/mountinfo": V1 + V2.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified")})
    write(tree, home(WORKERS[0], "/docker/x", version=1))
    write(
        tree,
        {
            f"{ROOT}/cpu/docker/x/cpu.stat": "nr_periods 5\nnr_throttled 4\nthrottled_time 123\n",
            f"{ROOT}/cpu/docker/x/cpu.cfs_quota_us": "250000\n",
            f"{ROOT}/cpu/docker/x/cpu.cfs_period_us": "100000\n",
            f"{ROOT}/cpu/docker/cpu.cfs_quota_us": "-1\n",
            f"{ROOT}/cpu/docker/cpu.cfs_period_us": "100000\n",
            f"{ROOT}/cpuacct/docker/x/cpuacct.usage": "987\n",
            f"{ROOT}/memory/docker/x/memory.limit_in_bytes": "9223372036854771712\n",
            f"{ROOT}/memory/docker/x/memory.usage_in_bytes": "55\n",
            f"{ROOT}/memory/docker/x/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 6\n",
        },
    )
    source = CgroupSource(settings(tree))
    assert source.probe().works
    assert list(only(look(source, WORKERS[:1])).values()) == [987, 123, 4, 2.5, 55, None, 6]
    source.close()


def test_rank_that_is_moved_is_followed(source: CgroupSource, tree: Path) -> None:
    write(tree, v2("a", used=1) | v2("b", used=2) | home(WORKERS[0], "/a"))
    assert only(look(source, WORKERS[:1]))["cgroup_memory_bytes"] == 1
    write(tree, home(WORKERS[0], "/b"))
    assert only(look(source, WORKERS[:1]))["cgroup_memory_bytes"] == 2


def test_new_rank_is_looked_up_at_once(source: CgroupSource, tree: Path) -> None:
    write(tree, v2("a") | v2("b") | home(WORKERS[0], "/a") | home(WORKERS[1], "/b"))
    look(source, WORKERS[:1])
    CLOCK.advance(1)
    assert len(source.sample(WORKERS[:2])) == 2


def test_rows_come_once_a_second(source: CgroupSource, tree: Path) -> None:
    write(tree, v2("a") | home(WORKERS[0], "/a"))
    assert len(source.sample(WORKERS[:1])) == 1
    assert source.sample(WORKERS[:1]) == []


def test_what_cannot_be_read_is_absent(source: CgroupSource, tree: Path) -> None:
    write(tree, v2("a", "nonsense", "") | home(WORKERS[0], "/a"))
    write(tree, {f"{ROOT}/a/cpu.stat": "usage_usec 7\nuser_usec\n", f"{ROOT}/a/memory.current": "?\n"})
    (tree / ROOT / "a/memory.events").unlink()
    assert list(only(look(source, WORKERS[:1])).values()) == [7000, None, None, None, None, None, None]


@pytest.mark.parametrize("text", ["", "nonsense", "0:\n", "0::relative\n", "::\n", "5:memory\n"])
def test_malformed_membership_gives_no_row(source: CgroupSource, tree: Path, text: str) -> None:
    write(tree, v2("a") | {"proc/100/cgroup": text})
    assert look(source, WORKERS[:1]) == {}


def test_rank_and_cgroup_that_have_gone_have_no_row(source: CgroupSource, tree: Path) -> None:
    write(tree, v2("a") | home(WORKERS[0], "/a"))
    assert look(source, [*WORKERS[:1], Rank("j", "ps", 0, 5, 1)]).keys() == {("worker:0", "")}
    for file in (tree / ROOT / "a").iterdir():
        file.write_text("")  # what is open of a cgroup that has gone can be read no more
    rmtree(tree / ROOT / "a")
    assert look(source, WORKERS[:1]) == {}
    rmtree(tree / "proc/100")
    assert look(source, WORKERS[:1]) == {}
    before = len(os.listdir("/proc/self/fd"))
    look(source, [])
    assert len(os.listdir("/proc/self/fd")) <= before


def test_names_are_short_but_tell_two_apart(source: CgroupSource, tree: Path) -> None:
    long_id = "0123456789ab" + "c" * 52
    paths = ["/x/pod1/main", "/y/pod1/main", f"/system.slice/docker-{long_id}.scope"]
    ranks = [Rank("j", "worker", i, 200 + i, 1) for i in range(6)]
    for at, rank in enumerate(ranks):
        write(tree, v2(paths[at % 3][1:]) | home(rank, paths[at % 3]))
    assert set(look(source, ranks)) == {
        (None, "/x/pod1/main"),
        (None, "/y/pod1/main"),
        (None, "system.slice/docker-0123456789ab.scope"),
    }


def test_no_mount_is_no_source(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/mountinfo": "22 1 0:5 / / rw - ext4 /dev/vda rw\n"})
    status = CgroupSource(settings(tmp_path)).probe()
    assert not status.works and "no cgroup file system" in status.reason and status.advice


def test_path_with_colons_is_kept_whole() -> None:
    assert parse_membership(b"4:memory,cpu:/a:b\n") == [(frozenset({"memory", "cpu"}), "/a:b")]


def test_real_root_is_known_by_the_file_it_lacks(tree: Path) -> None:
    assert CgroupLevel(str(tree / ROOT), "/", True).is_root
    write(tree, v2(""))
    assert not CgroupLevel(str(tree / ROOT), "/", True).is_root


@contextmanager
def limited(quota: int) -> Iterator[Path]:
    """A cgroup of this machine that may use quota of each 100,000 us of CPU time."""
    mounts = parse_mounts(Path("/proc/self/mountinfo").read_bytes(), "/sys")
    mine = parse_membership(Path("/proc/self/cgroup").read_bytes())
    above = levels(mounts, mine, "cpu")
    if not above:
        pytest.skip("no cgroup of this process is in sight")
    directory = Path(above[0].directory) / f"roofline-test-{os.getpid()}"
    try:
        directory.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        if above[0].unified:
            (directory / "cpu.max").write_text(f"{quota} 100000")
        else:
            (directory / "cpu.cfs_quota_us").write_text(str(quota))
        yield directory
    except OSError as error:
        pytest.skip(f"no limit can be set here: {error}")
    finally:
        wait_for(lambda: not (directory / "cgroup.procs").read_text())
        directory.rmdir()


def throttled_ns(directory: Path) -> int:
    counts = numbers_by_word((directory / "cpu.stat").read_bytes())
    return counts.get(b"throttled_time") or 1000 * counts[b"throttled_usec"]


def test_child_that_is_throttled_here_is_seen_throttled() -> None:
    with limited(20_000) as directory:
        command = [sys.executable, "-c", "while True: pass"]
        with ended(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as child:
            (directory / "cgroup.procs").write_text(str(child.pid))
            source = CgroupSource(settings())
            rank = Rank("j", "worker", 0, child.pid, 1)
            first = only(look(source, [rank]))
            assert first["cgroup_cpu_limit"] == 0.2
            wait_for(lambda: only(look(source, [rank]))["cgroup_throttled_periods"] >= 5)  # type: ignore
            before = throttled_ns(directory)
            row = only(look(source, [rank]))
            assert 0 < before <= row["cgroup_throttled_ns"] <= throttled_ns(directory)  # type: ignore
            used = row["cgroup_cpu_ns"]  # absent where v1 accounts CPU time in another hierarchy
            assert used is None or used > 0
            source.close()


def test_cgroup_outside_the_namespace_of_the_agent_is_unseen_and_it_is_said(tmp_path: Path) -> None:
    write(tmp_path, home(WORKERS[0], "/../../kubepods/pod1/c1") | home(WORKERS[1], "/..", 1))
    write(tmp_path, home(WORKERS[2], "/job_7/..oddly..named"))
    proc = str(tmp_path / "proc")
    assert ["cgroup namespace of its own" in why_unseen(proc, rank.pid) for rank in WORKERS] == [
        True,
        True,
        False,
    ]
    assert why_unseen(proc, 4711) == "", "it has gone"


FROM_INSIDE = """
import os
from roofline_agent.sources.cgroup_tree import why_unseen
print([bool(why_unseen("/proc", pid)) for pid in (os.getppid(), os.getpid())])
"""


def test_kernel_shows_cgroups_outside_a_namespace_so() -> None:
    mounts = parse_mounts(Path("/proc/self/mountinfo").read_bytes(), "/sys")
    found = levels(mounts, parse_membership(Path("/proc/self/cgroup").read_bytes()), "memory")
    if not found:
        pytest.skip("no cgroups here")
    place = Path(found[-1].directory, f"roofline-test-{os.getpid()}")
    try:
        place.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        script = 'echo $$ > "$0/cgroup.procs" && exec unshare --cgroup "$@"'
        command = ["sh", "-c", script, str(place), sys.executable, "-c", FROM_INSIDE]
        done = subprocess.run(command, capture_output=True, text=True)
    finally:
        wait_for(lambda: not (place / "cgroup.procs").read_text())
        place.rmdir()
    if done.returncode:
        pytest.skip(f"not permitted here: {done.stderr}")
    assert done.stdout == "[True, False]\n"
