from __future__ import annotations

from pathlib import Path

import pytest
from roofline_agent.calibrate.interference import CpuTimes, cpu_limit, cpu_times, disturbance, memory_room

STAT = """\
cpu  1000 0 500 8000 100 0 0 400 0 0
cpu0 600 0 300 4000 50 0 0 200 0 0
cpu1 400 0 200 4000 50 0 0 200 0 0
intr 12345
"""


def test_times_are_those_of_the_cpus_in_use(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(STAT)
    both, second = cpu_times((0, 1), tmp_path), cpu_times((1,), tmp_path)
    assert both is not None and second is not None
    assert both.total / second.total == pytest.approx(10_000 / 4_850)
    assert (both.idle / both.total, second.stolen / second.total) == pytest.approx((0.81, 200 / 4850))


@pytest.mark.parametrize("content", ["", "cpu0 1 2 3\n", "cpu0 a b c d e f g h\n"])
def test_times_that_cannot_be_read_are_not_known(tmp_path: Path, content: str) -> None:
    (tmp_path / "stat").write_text(content)
    assert cpu_times((0,), tmp_path) is None
    assert cpu_times((0,), tmp_path / "nowhere") is None


def test_idle_node_has_nothing_to_say() -> None:
    # 20 s on two CPUs: we took 35 of 40 CPU seconds, nobody the rest.
    assert disturbance(CpuTimes(100, 50, 0, 3), CpuTimes(140, 55, 0, 38)) == ()
    assert disturbance(None, CpuTimes(140, 55, 0, 38)) == ()


def test_others_at_work_are_told_with_their_share() -> None:
    (note,) = disturbance(CpuTimes(100, 50, 0, 3), CpuTimes(140, 54, 0, 31))
    assert "other processes took 20% of the CPUs" in note
    assert "calibrate again while it is idle" in note


def test_what_the_host_takes_is_not_other_processes() -> None:
    (note,) = disturbance(CpuTimes(100, 50, 0, 3), CpuTimes(140, 54, 8, 31))
    assert "the host gave 20%" in note


def cgroup(tmp_path: Path, lines: str, files: dict[str, str]) -> float | None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(lines)
    for name, content in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return cpu_limit(tmp_path / "proc", tmp_path / "sys")


@pytest.mark.parametrize(
    ("lines", "files", "limit"),
    [
        ("0::/\n", {"cpu.max": "150000 100000"}, 1.5),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, 0.5),
        ("0::/a\n", {"a/cpu.max": "max 100000"}, None),
        ("0::/a\n", {}, None),
        (
            "4:cpu,cpuacct:/x\n0::/\n",
            {"cpu/x/cpu.cfs_quota_us": "300000", "cpu/x/cpu.cfs_period_us": "100000"},
            3.0,
        ),
        ("4:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "-1", "cpu/x/cpu.cfs_period_us": "100000"}, None),
        # In a container the path is the host's, and its own folder is mounted at the top.
        ("4:cpu:/docker/1\n", {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
        ("nonsense\n", {}, None),
    ],
)
def test_limits_of_both_versions_of_cgroups(
    tmp_path: Path, lines: str, files: dict[str, str], limit: float | None
) -> None:
    assert cgroup(tmp_path, lines, files) == limit


def test_no_cgroups_no_limit(tmp_path: Path) -> None:
    assert cpu_limit(tmp_path, tmp_path) is None


V1 = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
V2 = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def room(tmp_path: Path, mounts: str, lines: str, files: dict[str, str]) -> int | None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(mounts)
    (tmp_path / "proc/self/cgroup").write_text(lines)
    for name, content in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return memory_room(tmp_path / "proc", tmp_path / "sys")


@pytest.mark.parametrize(
    ("mounts", "lines", "files", "expected"),
    [
        # The batch system's limit is above, and others in it hold memory too.
        (
            V2,
            "0::/slurm/job1/step0\n",
            {
                "slurm/job1/step0/memory.max": "max",
                "slurm/job1/step0/memory.current": "100",
                "slurm/job1/memory.max": "8000",
                "slurm/job1/memory.current": "3000",
                "slurm/memory.max": "90000",
                "slurm/memory.current": "88000",
            },
            2000,
        ),
        # Files read once give way; those in use do not.
        (
            V2,
            "0::/a\n",
            {
                "a/memory.max": "8000",
                "a/memory.current": "7000",
                "a/memory.stat": "anon 3000\nactive_file 1000\ninactive_file 3000",
            },
            4000,
        ),
        (
            V1,
            "4:memory:/job/1\n0::/\n",
            {
                "memory/job/1/memory.limit_in_bytes": "9223372036854771712",
                "memory/job/1/memory.usage_in_bytes": "10",
                "memory/job/memory.limit_in_bytes": "5000",
                "memory/job/memory.usage_in_bytes": "2000",
                "memory/job/memory.stat": "inactive_file 1\ntotal_inactive_file 500",
            },
            3500,
        ),
        (V2, "0::/a\n", {"a/memory.max": "100", "a/memory.current": "150"}, 0),
        (V2, "0::/a\n", {"a/memory.max": "max", "a/memory.current": "150"}, None),
        (V2, "0::/a\n", {"a/memory.max": "100"}, None),
        ("", "0::/a\n", {}, None),
    ],
)
def test_room_under_the_memory_limits_of_both_versions_of_cgroups(
    tmp_path: Path, mounts: str, lines: str, files: dict[str, str], expected: int | None
) -> None:
    assert room(tmp_path, mounts, lines, files) == expected
