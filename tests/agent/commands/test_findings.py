"""What the doctor finds on this node."""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path

import pytest
from roofline_agent.calibrate import store
from roofline_agent.calibrate.calibration import Calibration, Ceiling
from roofline_agent.commands.findings import Finding, examine, examine_agent
from roofline_agent.config import Config
from roofline_agent.errors import ConfigError
from roofline_agent.machine import read_machine
from roofline_agent.records import Provenance
from roofline_agent.validate import kept
from roofline_agent.validate.validation import Validation

from tests.agent.validate.made import FOUND, WRONG


def findings(config: Config) -> dict[str, Finding]:
    return {finding.what: finding for finding in examine(config, os.environ)}


def test_doctor_finds_nothing_running(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        free = one.getsockname()[1]
    config = Config(state=str(tmp_path / "state"), socket=str(tmp_path / "s"), server=f"127.0.0.1:{free}")
    found = findings(config)
    assert found["source process"].works
    for what in ("ceilings", "validation", "agent", "server"):
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
    here = read_machine()
    kept = Calibration(here.host, here.cpu_model, 2, 10**18, ceilings, ("busy",))
    store.save(kept, tmp_path / "ceilings.json")
    config = Config(state=str(tmp_path), sources=("process",))
    found = findings(config)["ceilings"]
    assert found.works and found.text.startswith("3 measured 2001-09-")
    assert found.text.endswith(", of 1 GPU too")
    assert found.advice.startswith("1 notes on them in ")
    store.save(kept._replace(host="node9"), tmp_path / "ceilings.json")
    found = findings(config)["ceilings"]
    assert found.works and "on node9" in found.text and "roofline-agent calibrate" in found.advice
    store.save(kept._replace(host="node9", cpu_model="another CPU"), tmp_path / "ceilings.json")
    found = findings(config)["ceilings"]
    assert not found.works and "another machine (node9, another CPU)" in found.text


def test_unknown_source_is_wrong_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown source 'x'; known are process, tcp, perf"):
        examine(Config(sources=("x",)), {})


def validated(**fields: object) -> Validation:
    """Of this machine, where CPU time was found off."""
    here = read_machine()
    off = WRONG._replace(source="process", metric="cpu_ns")
    found = FOUND._replace(host=here.host, cpu_model=here.cpu_model, kernel=here.kernel, checks=(off,))
    return found._replace(**fields)  # type: ignore[arg-type]


def test_doctor_names_a_source_that_was_found_off(tmp_path: Path) -> None:
    kept.keep(tmp_path, validated())
    found = findings(Config(state=str(tmp_path), sources=("process", "tcp")))
    assert found["source process"].works
    assert "its values are doubtful: cpu_ns was 20 % too low" in found["source process"].text
    assert "marked as estimated; run `roofline-agent validate`" in found["source process"].advice
    assert "doubtful" not in found["source tcp"].text
    assert found["validation"].works
    assert "1 check, 1 off by more than its tolerance: process cpu_ns" in found["validation"].text
    assert found["validation"].advice == ""


def test_validation_of_another_kernel_holds_but_should_be_made_again(tmp_path: Path) -> None:
    kept.keep(tmp_path, validated(kernel="1.0"))
    found = findings(Config(state=str(tmp_path), sources=("process",)))
    assert found["validation"].works and "it was made with Linux 1.0, now it is" in found["validation"].advice
    assert "doubtful" in found["source process"].text


@pytest.mark.parametrize("fields", [{"host": "elsewhere"}, {"cpu_model": "another CPU"}])
def test_validation_of_another_machine_is_none(tmp_path: Path, fields: dict[str, str]) -> None:
    kept.keep(tmp_path, validated(**fields))
    found = findings(Config(state=str(tmp_path), sources=("process",)))
    assert not found["validation"].works and "is of another machine" in found["validation"].text
    assert "doubtful" not in found["source process"].text


def test_doctor_reads_a_broken_validation_as_none(tmp_path: Path) -> None:
    kept.path_in(tmp_path).write_text("{")
    found = findings(Config(state=str(tmp_path), sources=("process",)))["validation"]
    assert not found.works and str(tmp_path) in found.text


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
def test_doctor_says_that_the_agent_is_another_users(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
        agent.bind(str(path))
        agent.listen()
        os.chown(path, 1, 1)
        found = examine_agent(path)
    assert found.works and found.text == f"listens at {path}, as user {pwd.getpwuid(1).pw_name}"
    assert "--state" in found.advice
