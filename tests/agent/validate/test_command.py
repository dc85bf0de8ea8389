"""What `roofline-agent validate` shows, keeps and refuses."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from pathlib import Path

import pytest
from roofline_agent.records import SourceSettings
from roofline_agent.validate import command, kept
from roofline_agent.validate.node import ValidateRequest
from roofline_agent.validate.validation import Validation, from_json

from tests.agent.place import Place
from tests.fakes import clean_environ, ended, wait_for

from .made import FOUND, NO_RAPL, RIGHT


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def request_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ValidateRequest:
    monkeypatch.setattr(command, "running_ranks", lambda: ())
    return ValidateRequest({}, (), 10, SourceSettings(), tmp_path)


def outcome(
    request: ValidateRequest, found: Validation, monkeypatch: pytest.MonkeyPatch, form: str = "text"
) -> tuple[command.Outcome, list[str]]:
    def validate(request: ValidateRequest, show: object, progress: object) -> Validation:
        for one in (*found.unchecked, *found.checks):
            show(one)  # type: ignore[operator]
        return found

    monkeypatch.setattr(command, "validate", validate)
    lines: list[str] = []
    return command.run(request, form, False, lines.append, lambda text: None), lines


def test_rows_stand_below_their_work_and_what_was_not_checked_at_the_end(
    request_here: ValidateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, lines = outcome(request_here, FOUND, monkeypatch)
    assert done.status == 1
    assert lines[1] == RIGHT.work
    assert " ".join(lines[2].split()) == "ok process cpu_ns 0.5 s -0.10 % +0.00 % +0.40 % 2 %"
    assert lines[3].split()[:3] == ["OFF", "perf", "flops.f32.512"]
    assert lines[4] == "-    rapl: a virtual machine sees no energy counters"
    assert lines[5] == "     fix: run on bare metal"
    assert lines[6] == "note: no kernels of f16"
    assert lines[7].startswith("2 checks, 1 off by more than its tolerance: perf flops.f32.512; kept in ")
    assert done.document.splitlines() == lines
    assert kept.load(request_here.state) == FOUND


def test_exit_status_is_good_only_where_something_was_checked_and_nothing_is_off(
    request_here: ValidateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = FOUND._replace(checks=(RIGHT,))
    assert outcome(request_here, right, monkeypatch)[0].status == 0
    done, lines = outcome(request_here, FOUND._replace(checks=()), monkeypatch)
    assert done.status == 1 and lines[-1].startswith("nothing could be checked; kept in ")


def test_what_was_off_on_a_busy_node_is_shown_and_not_kept(
    request_here: ValidateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = FOUND._replace(disturbance="other processes took 40% of the CPUs meanwhile")
    done, lines = outcome(request_here, busy, monkeypatch)
    assert done.status == 1 and "not kept: other processes took 40% of the CPUs meanwhile" in lines[-1]
    assert kept.load(request_here.state) is None
    outcome(request_here, busy._replace(checks=(RIGHT,)), monkeypatch)
    assert kept.load(request_here.state) == busy._replace(checks=(RIGHT,)), (
        "what is right all the same is right"
    )


def test_json_is_the_validation(request_here: ValidateRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    done, _ = outcome(request_here, FOUND, monkeypatch, "json")
    assert from_json(json.loads(done.document)) == FOUND


def test_markdown_is_a_table_with_a_caption(
    request_here: ValidateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, _ = outcome(request_here, FOUND, monkeypatch, "md")
    lines = done.document.splitlines()
    assert lines[0].startswith("a CPU, Linux 6.1.0, 2026-11-25, roofline-agent 0.9: 2 checks, 1 off")
    rows = [line for line in lines if line.startswith("| ")]
    assert len({row.count("|") for row in rows}) == 1, "as many cells in each row"
    assert rows[-1].endswith("| -21.00 % | -20.00 % | -20.00 % | 2 % | **off** |")
    assert f"- rapl: {NO_RAPL.reason}" in lines


def test_table_has_amounts_that_people_read(request_here: ValidateRequest) -> None:
    amounts = {
        command.text.amount(RIGHT._replace(unit=unit, done=done, whole=whole))
        for unit, done, whole in (
            *(("byte", 33554448.0, 33554448.0), ("byte", 0.0, 65536.0), ("1", 6.0, 6.0), ("ns", 0.0, 5e8)),
            *(("FLOP", 3.21e10, 1.0), ("1", 16384.0, 1.0), ("J", 120.4, 1.0)),
        )
    }
    assert amounts == {"32 MiB", "0 of 64 KiB", "6", "0 of 0.5 s", "32.1 GFLOP", "16,384", "120 W"}


def test_beside_a_training_nothing_is_checked(place: Place) -> None:
    config = '{"cluster": {"worker": ["node1:1"]}, "task": {"type": "worker", "index": 0}}'
    training = subprocess.Popen(["sleep", "60"], env=clean_environ(TF_CONFIG=config))
    with ended(training):
        done = place.run("validate", "--only", "tcp", "--repeat", "1")
    assert done.returncode == 6
    assert "a training runs on this node" in done.stderr and "--force" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--format", "xml"], 2, "--format"),
        (["--repeat", "0"], 2, "--repeat"),
        (["--only", "x"], 2, "'x' is not one of process"),
        (["-o", "/nonexistent/file"], 6, "cannot write to /nonexistent/file"),
    ],
    ids=str,
)
def test_wrong_usage_is_said_before_anything_is_done(
    place: Place, arguments: list[str], status: int, says: str
) -> None:
    done = place.run("validate", *arguments)
    assert (done.returncode, says in done.stderr) == (status, True), done.stderr
    assert "Traceback" not in done.stderr
    assert not (place.root / "state").exists()


def test_whole_command_writes_its_file_and_doctor_knows(place: Place) -> None:
    file = place.root / "node.json"
    # Other tests of this machine may have what looks like ranks.
    options = ("--force", "--only", "tcp", "--repeat", "1", "--format", "json")
    done = place.run("validate", *options, "-o", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok   tcp tcp_sent_bytes" in done.stdout
    assert {one.source for one in from_json(json.loads(file.read_text())).checks} == {"tcp"}
    doctor = place.run("--sources", "process", "doctor").stdout
    (line,) = [one for one in doctor.splitlines() if one.startswith("ok   validation")]
    assert "3 checks, none off" in line


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_interrupt_leaves_no_process_no_file_and_the_old_result(
    place: Place, number: signal.Signals, status: int
) -> None:
    state = place.root / "state"
    kept.keep(state, FOUND)
    with ended(
        subprocess.Popen(
            place.arguments("validate", "--force", "--only", "hooks", "--repeat", "1000", "--format", "md"),
            env=clean_environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # the tests may run under nohup
        )
    ) as running:
        wait_for(lambda: children_of(running.pid), "the working process")
        (child, *_) = children_of(running.pid)
        running.send_signal(number)
        out, err = running.communicate(timeout=60)
    assert running.returncode == status
    assert err.decode().splitlines() == [
        *[line for line in err.decode().splitlines() if "interrupted" not in line],
        "roofline-agent validate: interrupted; the stored result is unchanged",
    ]
    assert b"Traceback" not in err and out == b""
    wait_for(lambda: not Path(f"/proc/{child}").exists(), "the end of the working process")
    assert [path.name for path in state.iterdir()] == ["validation.json"]
    assert kept.load(state) == FOUND


def children_of(pid: int) -> list[int]:
    """Of all threads of the process."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has just ended
            found += map(int, path.read_text().split())
    return found
