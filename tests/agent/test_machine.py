"""Facts about this node, and what the doctor says of it."""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path

import psutil
import pytest
from roofline_agent.calibrate import store
from roofline_agent.calibrate.records import Calibration, Ceiling
from roofline_agent.commands.doctor import Finding, examine
from roofline_agent.config import Config
from roofline_agent.errors import ConfigError
from roofline_agent.machine import boot_id, read_machine
from roofline_agent.records import Provenance


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


def test_hidden_facts_are_empty(tmp_path: Path) -> None:
    machine = read_machine(tmp_path)
    assert (machine.cpu_model, machine.sockets) == ("", 1)
    assert boot_id(tmp_path) == ""


def test_boot_id_is_the_kernels() -> None:
    assert boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip() != ""


def findings(config: Config) -> dict[str, Finding]:
    return {finding.what: finding for finding in examine(config, os.environ)}


def test_doctor_finds_nothing_running(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        free = one.getsockname()[1]
    config = Config(state=str(tmp_path / "state"), socket=str(tmp_path / "s"), server=f"127.0.0.1:{free}")
    found = findings(config)
    assert found["source process"].works
    for what in ("ceilings", "agent", "server"):
        assert not found[what].works
        assert found[what].text and found[what].advice
    assert not (tmp_path / "state").exists(), "it changes nothing"


def test_doctor_finds_what_runs(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent,
    ):
        agent.bind(str(path))
        agent.listen()
        config = Config(
            state=str(tmp_path),
            socket=str(path),
            server=f"127.0.0.1:{server.getsockname()[1]}",
            sources=("tcp",),
        )
        found = findings(config)
    assert found["agent"].works and found["server"].works
    assert [what for what in found if what.startswith("source")] == ["source tcp"]


def test_doctor_reads_broken_ceilings_as_none(tmp_path: Path) -> None:
    (tmp_path / "ceilings.json").write_text("{")
    found = findings(Config(state=str(tmp_path), sources=("process",)))["ceilings"]
    assert not found.works and str(tmp_path) in found.text


def test_doctor_counts_what_was_measured_not_what_is_theory(tmp_path: Path) -> None:
    peak = Ceiling("peak.f32.512", "compute", "", "f32", 512, 4e11, "FLOP/s", 0.03, "AVX-512", 7)
    theory = peak._replace(name="peak.f32.512.theory", provenance=int(Provenance.ANALYTIC))
    ceilings = (peak, theory, peak._replace(device="gpu 0"), peak._replace(device="gpu 0", name="peak.f16"))
    store.save(Calibration("node1", "a CPU", 2, 10**18, ceilings, ("busy",)), tmp_path / "ceilings.json")
    found = findings(Config(state=str(tmp_path), sources=("process",)))["ceilings"]
    assert found.works and found.text.startswith("3 measured 2001-09-")
    assert found.text.endswith(", of 1 GPU too")
    assert found.advice.startswith("1 notes on them in ")


def test_unknown_source_is_wrong_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown source 'x'; known are process, tcp, perf"):
        examine(Config(sources=("x",)), {})
