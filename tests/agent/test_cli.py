"""The agent as its user meets it: real processes, exit codes, one clear line for every error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import AGENT, clean_environ, ended

from .place import Place, run


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_second_agent_on_one_state_is_refused(place: Place) -> None:
    with ended(place.start()):
        second = run("--state", str(place.root / "state"), "--socket", str(place.root / "other.sock"))
        third = run("--state", str(place.root / "fresh"), "--socket", str(place.socket))
    assert (second.returncode, third.returncode) == (6, 6)
    assert "another agent already works with" in second.stderr and "--state" in second.stderr
    assert "another agent listens at" in third.stderr and "--socket" in third.stderr
    assert len(second.stderr.splitlines()) == len(third.stderr.splitlines()) == 1


def test_place_that_cannot_be_had(place: Place) -> None:
    (place.root / "file").write_text("")
    done = run("--state", str(place.root / "file" / "x"))
    assert done.returncode == 6
    assert "choose another --state" in done.stderr and "Traceback" not in done.stderr


def test_malformed_configuration(place: Place) -> None:
    config = place.root / "agent.toml"
    config.write_text("interval = ")
    done = place.run("--config", str(config))
    assert done.returncode == 3
    assert str(config) in done.stderr and "TOML" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--interval", "100"], 3, "interval = 100.0 s is outside 0.01 .. 60.0 s"),
        (["--interval", "soon"], 2, "--interval"),
        (["--server", "nowhere"], 3, "must be HOST:PORT"),
        (["--server", "::1:7642"], 3, "as in [::1]:7642"),
        (["--sources", "process,x"], 3, "unknown source 'x'"),
        (["--nonsense"], 2, "--nonsense"),
        (["nonsense"], 2, "nonsense"),
        (["run"], 2, "Missing argument"),
        (["doctor", "--format", "xml"], 2, "--format"),
    ],
    ids=str,
)
def test_wrong_usage(place: Place, arguments: list[str], status: int, says: str) -> None:
    done = place.run(*arguments)
    assert done.returncode == status
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_variables_are_named_as_the_place_of_an_error(place: Place) -> None:
    done = place.run(ROOFLINE_INTERVAL="0")
    assert done.returncode == 3
    assert "environment" in done.stderr


def test_sources_may_have_spaces(place: Place) -> None:
    assert place.run("--sources", "process, tcp", "doctor").returncode == 0


def test_sources_before_calibrate_are_no_wrong_configuration(place: Place) -> None:
    config = '{"cluster": {"worker": ["node1:1"]}, "task": {"type": "worker", "index": 0}}'
    training = subprocess.Popen(["sleep", "60"], env=clean_environ(TF_CONFIG=config))
    with ended(training):
        done = place.run("--sources", "process,tcp", "calibrate", "--quick")
    assert done.returncode == 6, "it refuses to measure beside a training, and nothing else"


@pytest.mark.slow
def test_doctor_for_people_and_for_programs(place: Place) -> None:
    text = place.run("--server", "127.0.0.1:1", "doctor")
    assert text.returncode == 0
    assert "ok   source process" in text.stdout
    lines = text.stdout.splitlines()
    (at,) = [n for n, line in enumerate(lines) if line.startswith("off  agent")]
    assert lines[at + 1].strip().startswith("fix: ")
    (at,) = [n for n, line in enumerate(lines) if line.startswith("ok   source process")]
    assert lines[at + 1].strip() == "fills: CPU time and utilization, memory"
    (at,) = [n for n, line in enumerate(lines) if line.startswith("off  kernels ncu")]
    assert "ROOFLINE_NCU" in lines[at + 1]
    findings = json.loads(place.run("--server", "127.0.0.1:1", "doctor", "--format", "json").stdout)
    assert {f["what"]: f["works"] for f in findings}["source process"] is True
    assert all(f["works"] or f["text"] for f in findings)
    assert all(f["fills"] for f in findings if f["what"].startswith("source "))


def test_doctor_fails_where_no_source_works(place: Place) -> None:
    done = place.run("--sources", "perf", "doctor", ROOFLINE_PERF="/nonexistent/perf")
    assert done.returncode == 1
    assert "perf is not installed" in done.stdout


def test_names_that_agents_would_cut_are_refused() -> None:
    for option in ("--job", "--role", "--name"):
        done = run("run", option, "a" * 129, "--", "true")
        assert done.returncode == 2 and "more than 128 characters" in done.stderr
        assert run("run", option, "a" * 128, "--", "true").returncode == 0


def test_names_that_a_job_cannot_be_asked_for_by_are_refused_but_stop_no_training() -> None:
    for name in ("last", "42/1"):
        done = run("run", "--job", name, "--", "true")
        assert done.returncode == 2 and f"'{name}' stands for" in done.stderr
        done = run("run", "--", "true", ROOFLINE_JOB=name)
        assert done.returncode == 0 and f"ROOFLINE_JOB: '{name}' stands for" in done.stderr


def test_calibrate_knows_its_formats(place: Place) -> None:
    done = place.run("calibrate", "--quick", "--format", "yaml")
    assert done.returncode == 2 and "text or json" in done.stderr


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("roofline-agent 0.")


def test_help_shows_examples_and_exit_codes() -> None:
    done = run("--help")
    assert done.returncode == 0
    for part in (
        "Examples:",
        "roofline-agent run --job 42 -- python train.py",
        "Exit codes:",
        "--server",
        "doctor",
    ):
        assert part in done.stdout
    assert "Examples:" in run("run", "--help").stdout


def test_wrapping_loads_nothing_heavy() -> None:
    code = "import sys, roofline_agent.run.wrapper, roofline_agent.cli; print(*sys.modules)"
    done = subprocess.run([AGENT[0], "-c", code], capture_output=True, text=True, timeout=60)
    assert not {"grpc", "google.protobuf", "psutil", "sqlite3", "numpy"} & set(done.stdout.split())
    assert "roofline_agent.run.wrapper" in done.stdout.split()


def test_settings_before_run_reach_the_rank(place: Place) -> None:
    show = "import os; print(os.environ['ROOFLINE_SOCKET'], os.environ['ROOFLINE_JOB'])"
    done = place.run("--socket", "/tmp/its.sock", "--job", "9", "run", "--", sys.executable, "-c", show)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["/tmp/its.sock", "9"]
    done = place.run(
        "--job",
        "9",
        "run",
        "--job",
        "10",
        "--",
        sys.executable,
        "-c",
        "import os; print(os.environ['ROOFLINE_JOB'])",
    )
    assert done.stdout.split() == ["10"], "the one nearer to the rank counts"
