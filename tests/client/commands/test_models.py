"""roofline, breakdown, trajectory and plot: what is asked, printed and drawn, in this process."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import grpc
import pytest
from roofline.v1 import models_pb2 as pb

from .. import models
from ..chunks import message, steps
from ..command_line import asking, one_line, run, run_process
from ..fake_server import Asked, answer, chunks, refuse, serving

# Model -> the command that asks for it.
COMMANDS: dict[str, tuple[str, ...]] = {
    "roofline": ("roofline", "--job", "42"),
    "time_roofline": ("roofline", "--job", "42", "--kind", "time"),
    "trajectory": ("trajectory", "--experiment", "scaling", "--over", "nodes"),
    "breakdown": ("breakdown", "--job", "42"),
}
ANSWERS = {
    **{model.method: answer(model.message()) for model in models.MODELS.values()},
    "GetSteps": chunks(message("steps", steps())),
}


@pytest.fixture(scope="module")
def site() -> Iterator[Asked]:
    with serving(**ANSWERS) as asked:
        yield asked


@pytest.mark.parametrize("model", COMMANDS)
def test_all_forms(site: Asked, model: str) -> None:
    done = {form: asking(site, *COMMANDS[model], "--format", form) for form in ("text", "json", "csv")}
    assert [d.returncode for d in done.values()] == [0, 0, 0], [d.stderr for d in done.values()]
    whole = json.loads(done["json"].stdout)
    assert whole["model"] == model and whole["version"] == 1
    assert all(f"  - {note}" in done["text"].stdout.splitlines() for note in whole["notes"])
    assert done["csv"].stderr.splitlines() == [f"roofline-client: note: {note}" for note in whole["notes"]]
    assert done["text"].stderr == done["json"].stderr == "" and "\x1b" not in done["text"].stdout
    assert len(list(csv.DictReader(io.StringIO(done["csv"].stdout)))) >= 1


def test_text_of_a_roofline(site: Asked) -> None:
    lines = asking(site, *COMMANDS["roofline"]).stdout.splitlines()
    assert lines[0] == "Job 42: classic roofline"
    worker = next(line for line in lines if line.startswith("worker:0 @node1"))
    assert worker.split()[2:7] == ["tensors", "24", "300", "GFLOP/s", "960"] and "3.2x" in worker
    assert "  worker:0: DRAM bandwidth holds it back" in lines
    assert "  ps:0: AMX FLOPs are not counted" in lines
    absent = next(line for line in lines if line.startswith("ps:0 @node1 (incomplete)"))
    assert absent.split()[3:5] == ["tensors", "-"]
    assert any(
        line == f"  - FLOP/byte, attainable, headroom of ps:0 (tensors): {models.WHY}" for line in lines
    )


def test_text_of_a_time_roofline(site: Asked) -> None:
    text = asking(site, *COMMANDS["time_roofline"]).stdout
    assert "node1, f32: peak.f32.512 2 TFLOP/s; dram.triad 40 GB/s; balance 50 FLOP/byte" in text
    assert "120 launches without FLOPs, 2 ms: not in the table" in text
    assert "overhead of 1 launch: hides 8.4 MFLOP" in text
    assert "  - launch overhead of node1: launch overhead was not measured" in text.splitlines()


def test_text_of_a_trajectory(site: Asked) -> None:
    lines = asking(site, *COMMANDS["trajectory"]).stdout.splitlines()
    assert lines[0] == "Experiment scaling (job1, job2, job4): scaling over nodes"
    stops = [line for line in lines if "examples/s" in line]
    assert [line.split()[0] for line in stops] == ["1", "2", "4"]
    assert "87.1%" in stops[2] and "3.48x" in stops[2]
    assert "  FLOP/s a node fall as nodes are added" in lines


def test_text_of_a_breakdown(site: Asked) -> None:
    lines = asking(site, *COMMANDS["breakdown"]).stdout.splitlines()
    wide = next(line for line in lines if line.startswith("  f32 512-bit"))
    assert wide.split()[-1] == "█" * 15 and "75.0%" in wide and "3 GFLOP" in wide
    # A table in which nothing is known says so by its reason alone.
    assert not any(line.startswith("  dram") for line in lines)
    assert any(line.startswith("  - dram of") for line in lines)


def test_crossing_of_a_network_roofline() -> None:
    with serving(GetRoofline=answer(models.roofline("network"))) as asked:
        text = asking(asked, "roofline", "--job", "42", "--kind", "network").stdout
    assert "from 48 examples a step on the network no longer holds it back" in text


def test_csv_of_a_roofline_has_units_in_its_names(site: Asked) -> None:
    done = asking(site, *COMMANDS["roofline"], "--format", "csv")
    first, second = csv.DictReader(io.StringIO(done.stdout))
    assert first["intensity_flops_per_byte"] == "24.0" and first["time_seconds"] == "1.8"
    assert second["intensity_flops_per_byte"] == "" and second["intensity_reason"] == models.WHY


def test_questions_arrive_as_asked(site: Asked) -> None:
    more = ("--steps", "3:9", "--rank", "worker:0", "--rank", "ps:0")
    wanted = pb.Subject(job="42", first_step=3, last_step=9, ranks=["worker:0", "ps:0"])
    for given, request in (
        (
            ("roofline", "--kind", "hierarchical", "--points", "phase"),
            pb.GetRooflineRequest(subject=wanted, kind="hierarchical", points="phase"),
        ),
        (
            ("roofline", "--kind", "time", "--points", "step"),
            pb.GetTimeRooflineRequest(subject=wanted, points="step"),
        ),
        (("breakdown", "--by", "rank"), pb.GetBreakdownRequest(subject=wanted, by="rank")),
    ):
        assert asking(site, *given, "--job", "42", *more).returncode == 0
        assert site.requests[-1] == request
    given = ("trajectory", "--job", "1", "--job", "2", "--over", "batch", "--role", "ps", "--steps", "5:")
    assert asking(site, *given).returncode == 0
    assert site.requests[-1] == pb.GetTrajectoryRequest(
        jobs=["1", "2"], over="batch", roles=["ps"], first_step=5
    )


def test_time_of_an_experiment_is_asked_for(site: Asked) -> None:
    given = ("roofline", "--kind", "time", "--experiment", "conv2d", "--over", "batch", "--steps", "5:")
    for form in ("text", "json", "csv"):
        done = asking(site, *given, "--format", form)
        assert done.returncode == 0 and done.stdout
        assert site.requests[-1] == pb.GetTimeRooflineRequest(
            subject=pb.Subject(first_step=5), experiment="conv2d", over="batch", points="kernel"
        )


@pytest.mark.parametrize(
    "wrong",
    [
        ("roofline",),
        ("roofline", "--job", "42", "--kind", "cubic"),
        ("roofline", "--job", "42", "--points", "epoch"),
        ("roofline", "--job", "42", "--kind", "time", "--points", "role"),
        ("roofline", "--job", "42", "--kind", "network", "--points", "kernel"),
        ("roofline", "--job", "1", "--job", "2"),
        ("roofline", "--experiment", "a", "--over", "batch"),
        ("roofline", "--job", "42", "--over", "batch"),
        ("roofline", "--kind", "time", "--experiment", "a"),
        ("roofline", "--kind", "time", "--job", "1", "--job", "2"),
        ("roofline", "--kind", "time", "--job", "1", "--experiment", "a", "--over", "batch"),
        ("breakdown", "--job", "42", "--by", "node"),
        ("trajectory", "--over", "nodes"),
        ("trajectory", "--over", "nodes", "--experiment", "a", "--job", "42"),
        ("trajectory", "--experiment", "a"),
    ],
)
def test_usage_errors(site: Asked, wrong: tuple[str, ...]) -> None:
    before = len(site.requests)
    done = asking(site, *wrong)
    assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr
    assert len(site.requests) == before


@pytest.mark.parametrize("model", COMMANDS)
@pytest.mark.parametrize(
    ("code", "exit_code"),
    [(grpc.StatusCode.NOT_FOUND, 5), (grpc.StatusCode.INVALID_ARGUMENT, 3), (grpc.StatusCode.UNAVAILABLE, 4)],
)
def test_exit_code_of_a_refusal(model: str, code: grpc.StatusCode, exit_code: int) -> None:
    with serving(**{models.MODELS[model].method: refuse(code, "the words of the server")}) as asked:
        one_line(asking(asked, *COMMANDS[model]), exit_code)


# -- plot ------------------------------------------------------------------------------------------

# Kind -> what else it needs.
PICTURES: dict[str, tuple[str, ...]] = {
    "roofline": ("--job", "42"),
    "hierarchical": ("--job", "42", "--points", "phase"),
    "network": ("--job", "42"),
    "time": ("--job", "42"),
    "trajectory": ("--experiment", "scaling", "--over", "nodes"),
    "breakdown": ("--job", "42", "--by", "rank"),
    "steps": ("--job", "42", "--rank", "worker:0"),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_picture_of_each_kind(site: Asked, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "x.svg"
    done = asking(site, "plot", "--kind", kind, *PICTURES[kind], "-o", file)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and done.stderr == f"{kind} written to {file}\n"
    assert file.read_text().startswith("<?xml") and os.listdir(tmp_path) == ["x.svg"]


@pytest.mark.slow
def test_home_that_cannot_be_written_to_is_no_matter_for_a_picture(site: Asked, tmp_path: Path) -> None:
    file = tmp_path / "x.png"
    asked = ("plot", "42", "-o", file, "--server", site.address)
    done = run_process(*asked, HOME="/proc", XDG_CACHE_HOME="", XDG_CONFIG_HOME="", MPLCONFIGDIR="")
    assert (done.returncode, done.stderr) == (0, f"roofline written to {file}\n")


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "begin"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")])
def test_ending_says_the_format(site: Asked, tmp_path: Path, ending: str, begin: bytes) -> None:
    file = tmp_path / f"x.{ending}"
    assert asking(site, "plot", "--kind", "roofline", "--job", "42", "-o", file).returncode == 0
    assert file.read_bytes().startswith(begin)


def test_time_of_several_jobs(site: Asked, tmp_path: Path) -> None:
    given = (
        "plot",
        "--kind",
        "time",
        "--job",
        "1",
        "--job",
        "2",
        "--over",
        "batch",
        "-o",
        tmp_path / "x.png",
    )
    assert asking(site, *given).returncode == 0
    request = site.requests[-1]
    assert (list(request.jobs), request.over, request.points) == (["1", "2"], "batch", "kernel")
    assert request.subject.job == ""


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (("--kind", "pie", "--job", "42"), "trajectory"),
        (("--kind", "roofline"), "--job"),
        (("--kind", "roofline", "--job", "1", "--job", "2"), "one job"),
        (("--kind", "roofline", "--job", "1", "--over", "nodes"), "--over"),
        (("--kind", "roofline", "--job", "1", "--by", "rank"), "--by"),
        (("--kind", "breakdown", "--job", "1", "--points", "rank"), "--points"),
        (("--kind", "breakdown", "--job", "1", "--by", "node"), "role, rank"),
        (("--kind", "time", "--job", "1", "--points", "phase"), "kernel, step"),
        (("--kind", "time", "--job", "1", "--job", "2"), "--over"),
        (("--kind", "time", "--experiment", "a", "--job", "2", "--over", "batch"), "either"),
        (("--kind", "trajectory", "--experiment", "a"), "--over"),
        (("--kind", "trajectory", "--over", "nodes"), "--experiment"),
        (("--kind", "trajectory", "--experiment", "a", "--over", "nodes", "--rank", "ps:0"), "--rank"),
        (("--kind", "steps", "--job", "42", "--role", "ps"), "--role"),
    ],
)
def test_options_that_do_not_go_together(site: Asked, tmp_path: Path, wrong: Any, word: str) -> None:
    before = len(site.requests)
    done = asking(site, "plot", *wrong, "-o", tmp_path / "x.png")
    assert done.returncode == 2 and word in " ".join(done.stderr.split()), done.stderr
    assert len(site.requests) == before and os.listdir(tmp_path) == []


def test_ending_is_checked_before_the_question(site: Asked, tmp_path: Path) -> None:
    before = len(site.requests)
    done = asking(site, "plot", "--kind", "roofline", "--job", "42", "-o", tmp_path / "x.bmp")
    assert done.returncode == 2 and ".svg" in done.stderr and len(site.requests) == before


def test_nothing_to_draw_leaves_no_file(tmp_path: Path) -> None:
    empty = pb.Roofline(kind="classic", notes=["no ceilings: roofline-agent calibrate"])
    with serving(GetRoofline=answer(empty)) as asked:
        done = asking(asked, "plot", "--kind", "roofline", "--job", "42", "-o", tmp_path / "x.png")
    assert done.returncode == 5 and len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == []


def test_picture_that_cannot_be_written_leaves_the_old_one(site: Asked, tmp_path: Path) -> None:
    missing = tmp_path / "no" / "x.png"
    one_line(asking(site, "plot", "--kind", "roofline", "--job", "42", "-o", missing), 1, "cannot write")
    assert os.listdir(tmp_path) == []


def test_help_names_the_kinds() -> None:
    done = run("plot", "--help")
    assert done.returncode == 0 and all(kind in done.stdout for kind in PICTURES)
    assert "with --kind steps every step" in " ".join(done.stdout.split())
    for command in ("roofline", "trajectory", "breakdown"):
        assert f"  roofline-client {command} --" in run(command, "--help").stdout


@pytest.mark.slow
def test_picture_appears_whole_or_not_at_all(site: Asked, tmp_path: Path) -> None:
    """What stands there stays until the new one is finished."""
    file = tmp_path / "x.png"
    file.write_text("old")
    failing = mock.patch(
        "matplotlib.figure.Figure.savefig", side_effect=OSError(28, "No space left on device")
    )
    with failing:
        one_line(asking(site, "plot", "--kind", "roofline", "--job", "42", "-o", file), 1, "No space left")
    assert file.read_text() == "old" and os.listdir(tmp_path) == ["x.png"]
    assert asking(site, "plot", "--kind", "roofline", "--job", "42", "-o", file).returncode == 0
    assert file.read_bytes().startswith(b"\x89PNG") and os.listdir(tmp_path) == ["x.png"]
