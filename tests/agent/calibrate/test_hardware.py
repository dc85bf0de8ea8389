"""Parsing of small recorded /proc and /sys trees."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_agent.calibrate import hardware
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import Cache, Hardware

CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz
flags\t\t: fpu sse sse2 avx fma avx2 avx512f
bugs\t\t: spectre_v1

processor\t: 1
model name\t: Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz
flags\t\t: fpu sse sse2 avx fma avx2 avx512f
"""

MEMINFO = """\
MemTotal:       24684000 kB
MemFree:        21000000 kB
MemAvailable:   23000000 kB
"""


def add_cache(root: Path, cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> None:
    directory = root / f"devices/system/cpu/cpu{cpu}/cache/index{index}"
    directory.mkdir(parents=True)
    for name, text in (("level", str(level)), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
        (directory / name).write_text(text + "\n")


def two_sockets(root: Path) -> Path:
    """Four CPUs, two on each socket; an L3 of 28160 KiB per socket."""
    for cpu in range(4):
        add_cache(root, cpu, 0, 1, "Data", "32K", str(cpu))
        add_cache(root, cpu, 1, 1, "Instruction", "32K", str(cpu))
        add_cache(root, cpu, 2, 2, "Unified", "1024K", str(cpu))
        add_cache(root, cpu, 3, 3, "Unified", "28160K", "0-1" if cpu < 2 else "2-3")
    return root


def machine_with(root: Path, cpus: tuple[int, ...]) -> Hardware:
    return Hardware("node1", "a CPU", frozenset(), cpus, hardware.caches(root, cpus), 0)


def test_cache_shared_by_several_cpus_counts_once(tmp_path: Path) -> None:
    root = two_sockets(tmp_path)
    assert machine_with(root, (0, 1, 2, 3)).last_level_cache_bytes == 2 * 28160 * 1024


def test_caches_of_cpus_not_in_use_do_not_count(tmp_path: Path) -> None:
    root = two_sockets(tmp_path)
    assert machine_with(root, (2, 3)).last_level_cache_bytes == 28160 * 1024


def test_cpu_without_l3_counts_its_l2(tmp_path: Path) -> None:
    add_cache(tmp_path, 0, 0, 1, "Data", "48K", "0")
    add_cache(tmp_path, 0, 2, 2, "Unified", "2M", "0-3")
    assert machine_with(tmp_path, (0,)).last_level_cache_bytes == 2 << 20


def test_caches_are_told_inner_first_with_those_who_share_them(tmp_path: Path) -> None:
    kib = 1024
    assert hardware.caches(two_sockets(tmp_path), (0, 1)) == (
        Cache(1, 32 * kib, frozenset({0})),
        Cache(1, 32 * kib, frozenset({1})),
        Cache(2, 1024 * kib, frozenset({0})),
        Cache(2, 1024 * kib, frozenset({1})),
        Cache(3, 28160 * kib, frozenset({0, 1})),
    )


@pytest.mark.parametrize("broken", ["level", "size", "shared_cpu_list"])
def test_cache_that_sysfs_does_not_tell_is_unknown_not_zero(tmp_path: Path, broken: str) -> None:
    root = two_sockets(tmp_path)
    (root / f"devices/system/cpu/cpu3/cache/index3/{broken}").unlink()
    assert machine_with(root, (0, 1, 2, 3)).last_level_cache_bytes is None


def test_machine_without_caches_in_sysfs_is_unknown(tmp_path: Path) -> None:
    assert machine_with(tmp_path, (0,)).last_level_cache_bytes is None


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", {0}), ("0-2", {0, 1, 2}), ("0-1,8,10-11", {0, 1, 8, 10, 11})]
)
def test_lists_of_cpus(text: str, cpus: set[int]) -> None:
    assert hardware.parse_cpus(text) == cpus


@pytest.mark.parametrize(("text", "size"), [("32K", 32768), ("2M", 2 << 20), ("1G", 1 << 30), ("512", 512)])
def test_sizes(text: str, size: int) -> None:
    assert hardware.parse_size(text) == size


def test_only_flags_that_every_processor_has_count() -> None:
    other = CPUINFO.replace(" avx512f\n", "\n", 1)
    assert hardware.cpu_flags(CPUINFO) >= {"avx512f", "fma", "sse2"}
    assert hardware.cpu_flags(other) == hardware.cpu_flags(CPUINFO) - {"avx512f"}


def test_flags_of_arm_are_its_features() -> None:
    assert hardware.cpu_flags("processor\t: 0\nFeatures\t: fp asimd\n") == {"fp", "asimd"}
    assert hardware.cpu_flags("processor\t: 0\n") == frozenset()


def test_available_memory_is_memavailable() -> None:
    assert hardware.available_bytes(MEMINFO) == 23000000 * 1024
    with pytest.raises(CalibrationError, match="MemAvailable"):
        hardware.available_bytes("MemTotal: 1 kB\n")


def test_machine_is_read_from_the_given_roots(tmp_path: Path) -> None:
    proc, sys_root = tmp_path / "proc", two_sockets(tmp_path / "sys")
    proc.mkdir()
    (proc / "cpuinfo").write_text(CPUINFO)
    (proc / "meminfo").write_text(MEMINFO)
    for cpu in range(4):  # two threads on each core
        topology = sys_root / f"devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir()
        (topology / "physical_package_id").write_text(f"{cpu // 2}\n")
        (topology / "core_id").write_text("0\n")
    (sys_root / "devices/system/cpu/online").write_text("0-5,8-9\n")
    assert hardware.read_hardware(proc, sys_root, (0, 1, 2, 3), "node1") == Hardware(
        host="node1",
        cpu_model="Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz",
        flags=frozenset({"fpu", "sse", "sse2", "avx", "fma", "avx2", "avx512f"}),
        cpus=(0, 1, 2, 3),
        caches=hardware.caches(sys_root, (0, 1, 2, 3)),
        available_bytes=23000000 * 1024,
        vendor="GenuineIntel",
        family=6,
        model=85,
        cores=2,
        sockets=2,
        core_of=(0, 0, 2, 2),
        node_cpus=8,
    )


def test_cores_of_two_dies_are_as_many_as_they_are(tmp_path: Path) -> None:
    """Where a kernel numbers the cores of each die of a socket from 0."""
    proc, sys_root = tmp_path / "proc", two_sockets(tmp_path / "sys")
    proc.mkdir()
    (proc / "cpuinfo").write_text(CPUINFO)
    (proc / "meminfo").write_text(MEMINFO)
    for cpu in range(4):
        topology = sys_root / f"devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir()
        (topology / "physical_package_id").write_text("0\n")
        (topology / "die_id").write_text(f"{cpu // 2}\n")
        (topology / "core_id").write_text(f"{cpu % 2}\n")
    (sys_root / "devices/system/cpu/online").write_text("0-3\n")
    found = hardware.read_hardware(proc, sys_root, (0, 1, 2, 3), "node1")
    assert (found.cores, found.sockets, found.core_of) == (4, 1, (0, 1, 2, 3))


def test_cores_that_sysfs_does_not_tell_are_unknown(tmp_path: Path) -> None:
    proc, sys_root = tmp_path / "proc", two_sockets(tmp_path / "sys")
    proc.mkdir()
    (proc / "cpuinfo").write_text(CPUINFO)
    (proc / "meminfo").write_text(MEMINFO)
    found = hardware.read_hardware(proc, sys_root, (0, 1), "node1")
    assert (found.cores, found.sockets, found.core_of, found.node_cpus) == (0, 0, (), 0)
    assert not found.is_part


def test_machine_has_no_more_memory_than_its_cgroup_grants(tmp_path: Path) -> None:
    proc, sys_root = tmp_path / "proc", two_sockets(tmp_path / "sys")
    (proc / "self").mkdir(parents=True)
    (proc / "cpuinfo").write_text(CPUINFO)
    (proc / "meminfo").write_text(MEMINFO)
    (proc / "self/cgroup").write_text("0::/job\n")
    (proc / "self/mountinfo").write_text("30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    job = sys_root / "fs/cgroup/job"
    job.mkdir(parents=True)
    (job / "memory.max").write_text("1000000\n")
    (job / "memory.current").write_text("400000\n")
    assert hardware.read_hardware(proc, sys_root, (0, 1), "node1").available_bytes == 600_000


def test_missing_proc_is_named(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=str(tmp_path / "cpuinfo")):
        hardware.read_hardware(tmp_path, tmp_path, (0,), "node1")


ARM_CPUINFO = """\
processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd fphp asimdhp atomics
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

processor\t: 1
Features\t: fp asimd fphp asimdhp
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd0c
"""


def test_arm_is_told_by_its_numbers(tmp_path: Path) -> None:
    proc, sys_root = tmp_path / "proc", two_sockets(tmp_path / "sys")
    proc.mkdir()
    (proc / "cpuinfo").write_text(ARM_CPUINFO)
    (proc / "meminfo").write_text(MEMINFO)
    found = hardware.read_hardware(proc, sys_root, (0, 1), "node1")
    assert found.cpu_model == "Arm Neoverse N1"
    assert (found.vendor, found.family, found.model) == ("0x41", 8, 0xD0C)
    assert found.flags == {"fp", "asimd", "fphp", "asimdhp"}
    assert found.last_level_cache_bytes == 28160 * 1024
    assert not found.is_virtual


@pytest.mark.parametrize(
    ("system", "architecture", "pointer_bytes"),
    [("linux", "armv7l", 4), ("linux", "x86_64", 4), ("darwin", "arm64", 8)],
)
def test_other_systems_are_refused_by_name(system: str, architecture: str, pointer_bytes: int) -> None:
    with pytest.raises(CalibrationError, match=rf"{8 * pointer_bytes}-bit Python on {system} {architecture}"):
        hardware.require_64_bit_linux(system, architecture, pointer_bytes)


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64", "ppc64le"])
def test_64_bit_linux_is_accepted(architecture: str) -> None:
    hardware.require_64_bit_linux("linux", architecture, 8)
