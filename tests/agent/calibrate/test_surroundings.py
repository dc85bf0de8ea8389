from __future__ import annotations

from pathlib import Path

import pytest
from roofline_agent.calibrate.surroundings import Times, cpu_limit, cpu_times, disturbance

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
    assert disturbance(Times(100, 50, 0, 3), Times(140, 55, 0, 38)) == ()
    assert disturbance(None, Times(140, 55, 0, 38)) == ()


def test_others_at_work_are_told_with_their_share() -> None:
    (note,) = disturbance(Times(100, 50, 0, 3), Times(140, 54, 0, 31))
    assert "other processes took 20% of the CPUs" in note
    assert "calibrate again while it is idle" in note


def test_what_the_host_takes_is_not_other_processes() -> None:
    (note,) = disturbance(Times(100, 50, 0, 3), Times(140, 54, 8, 31))
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
