"""Facts about this node."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil
import pytest
from roofline_agent.machine import boot_id, cpu_name, read_machine


def test_this_machine() -> None:
    machine = read_machine()
    assert (machine.host, machine.kernel) == (platform.node(), platform.release())
    assert machine.cpus == os.cpu_count()
    assert 0 < machine.cores <= machine.cpus
    assert machine.memory_bytes == psutil.virtual_memory().total
    assert machine.cpu_model


def test_sockets_are_distinct_physical_ids(tmp_path: Path) -> None:
    cpu = "processor\t: {}\nmodel name\t: Some: CPU @ 2 GHz\nphysical id\t: {}\n\n"
    (tmp_path / "cpuinfo").write_text("".join(cpu.format(n, n // 2) for n in range(4)))
    machine = read_machine(tmp_path)
    assert (machine.sockets, machine.cpu_model) == (2, "Some: CPU @ 2 GHz")


@pytest.mark.parametrize(("packages", "sockets"), [(["36", "36", "3180"], 2), (["-1", "-1"], 1)])
def test_sockets_of_arm_are_those_of_sysfs(packages: list[str], sockets: int, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n")
    for number, package in enumerate(packages):
        topology = tmp_path / f"devices/system/cpu/cpu{number}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{package}\n")
    assert read_machine(tmp_path, tmp_path).sockets == sockets


def test_arm_cpu_is_named_by_its_numbers() -> None:
    arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: {}\n"
    assert cpu_name(arm.format("0xd40")) == "Arm Neoverse V1"
    assert cpu_name(arm.format("0xfff")) == "Arm CPU of implementer 0x41, part 0xfff"
    assert cpu_name("processor\t: 0\n") == ""


def test_hidden_facts_are_empty(tmp_path: Path) -> None:
    machine = read_machine(tmp_path, tmp_path)
    assert (machine.cpu_model, machine.sockets) == ("", 1)
    assert boot_id(tmp_path) == ""


def test_boot_id_is_the_kernels() -> None:
    assert boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip() != ""
