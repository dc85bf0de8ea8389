"""What `roofline-agent calibrate` prints, keeps and refuses; measuring itself is tested elsewhere."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from roofline_agent.calibrate import command, store
from roofline_agent.calibrate import gpu as gpu_package
from roofline_agent.calibrate.busy import Busy
from roofline_agent.calibrate.calibration import Calibration, Ceiling, from_json
from roofline_agent.calibrate.command import CalibrateOptions, run
from roofline_agent.calibrate.compare.table import ComparisonRow
from roofline_agent.calibrate.compare.tools import Compared
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import Hardware, this_hardware
from roofline_agent.records import Rank

PEAK = Ceiling("peak.f32.512", "compute", "", "f32", 512, 4e11, "FLOP/s", 0.03, "AVX-512", 7)
HBM = Ceiling("hbm.triad", "memory", "hbm", "", 0, 3e12, "byte/s", 0.0, "torch", 8, device="gpu 0")
MEASURED = Calibration("node1", "a CPU", 2, 9, (PEAK,), ("the node was busy",))


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CalibrateOptions:
    def measure(
        progress: Callable[[Ceiling], None], effort: str, prefer: bool, compiled: bool
    ) -> Calibration:
        progress(PEAK)
        return MEASURED._replace(effort=effort)

    monkeypatch.setattr(command, "calibrate", measure)
    monkeypatch.setattr(command, "running_ranks", lambda: ())
    monkeypatch.setattr(gpu_package, "measure_gpus", lambda progress, python, quick, force: ((), ()))
    return CalibrateOptions(tmp_path / "ceilings.json", "normal", None, None, False)


def printed_by(options: CalibrateOptions) -> str:
    out = io.StringIO()
    run(options, out, lambda line: None)
    return out.getvalue()


def test_table_notes_and_place_are_printed_and_the_result_kept(options: CalibrateOptions) -> None:
    lines = printed_by(options).splitlines()
    assert lines[0].startswith("ceiling")
    assert lines[1].startswith("peak.f32.512")
    assert lines[-2:] == ["note: the node was busy", f"kept in {options.path}"]
    assert store.load(options.path) == MEASURED


def test_ceilings_of_gpus_are_kept_with_those_of_the_cpus(
    options: CalibrateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def measure(
        progress: Callable[[Ceiling], None], python: str | None, quick: bool, force: bool
    ) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
        asked.append((python, quick, force))
        progress(HBM)
        return (HBM,), ("gpu 1: no driver",)

    monkeypatch.setattr(gpu_package, "measure_gpus", measure)
    printed = printed_by(options._replace(python="/opt/python", effort="quick"))
    assert asked == [("/opt/python", True, False)]
    assert "gpu 0 hbm.triad" in printed
    kept = store.load(options.path)
    assert kept is not None
    hurried = "from --quick calibration"
    assert kept.ceilings == (PEAK._replace(doubt=hurried), HBM._replace(doubt=hurried))
    assert kept.notes == ("the node was busy", "gpu 1: no driver")


def test_gpus_of_a_node_whose_cpus_cannot_be_measured_are_kept(
    options: CalibrateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(progress: object, effort: str, prefer: bool, compiled: bool) -> Calibration:
        raise CalibrationError("no C compiler")

    monkeypatch.setattr(command, "calibrate", refuse)
    with pytest.raises(CalibrationError, match="no C compiler"):
        printed_by(options)  # no GPU either
    assert not options.path.exists()
    monkeypatch.setattr(gpu_package, "measure_gpus", lambda progress, python, quick, force: ((HBM,), ()))
    assert "note: no C compiler" in printed_by(options)
    kept = store.load(options.path)
    assert kept is not None
    assert kept.ceilings == (HBM,)


def test_ceilings_of_gpus_outlive_a_calibration_without_their_framework(
    options: CalibrateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_package, "measure_gpus", lambda progress, python, quick, force: ((HBM,), ()))
    printed_by(options._replace(python="/opt/python"))
    monkeypatch.setattr(gpu_package, "measure_gpus", lambda progress, python, quick, force: ((), ()))
    printed = printed_by(options)
    assert "as not measured this time: gpu 0 hbm.triad" in printed
    kept = store.load(options.path)
    assert kept is not None
    assert kept.ceilings == (PEAK, HBM)
    assert from_json(json.loads(printed_by(options._replace(as_json=True)))) == kept


def test_json_is_a_calibration_with_nothing_else_around(options: CalibrateOptions) -> None:
    assert from_json(json.loads(printed_by(options._replace(as_json=True)))) == MEASURED


def test_file_is_compared_and_the_table_printed(options: CalibrateOptions, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    store.save(MEASURED._replace(host="node2", ceilings=(PEAK._replace(value=2e11),)), other)
    printed = printed_by(options._replace(compare=str(other)))
    assert printed.splitlines()[-1].split()[:5] == ["peak.f32.512", "400.0", "200.0", "GFLOP/s", "2.00"]
    (row,) = json.loads(printed_by(options._replace(compare=str(other), as_json=True)))["comparison"]
    assert row["ratio"] == 2.0


def test_file_that_cannot_be_compared_is_refused_before_anything_is_measured(
    options: CalibrateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(progress: object, effort: str, prefer: bool, compiled: bool) -> Calibration:
        raise AssertionError("measured")

    monkeypatch.setattr(command, "calibrate", never)
    with pytest.raises(CalibrationError, match="nowhere"):
        printed_by(options._replace(compare="nowhere"))


def test_tools_are_compared_and_what_is_missing_is_said(
    options: CalibrateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = Compared([ComparisonRow("dram.read", 3e10, 2e10, "byte/s", "likwid-bench")], ("no GEMM",))
    monkeypatch.setattr(command.tools, "compare_tools", lambda *arguments: compared)
    monkeypatch.setattr(command, "this_hardware", lambda: Hardware("n", "", frozenset(), (0,), (), 0))
    printed = printed_by(options._replace(compare="tools"))
    lines = printed.splitlines()
    assert lines[-5].split()[:5] == ["dram.read", "30.0", "20.0", "GB/s", "1.50"]
    assert lines[-3] == "dram.read: NOT within 10% of likwid-bench"
    assert lines[-1] == "note: no GEMM"


def test_no_tools_are_compared_within_a_limit_on_cpu_time(
    options: CalibrateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = Hardware("n", "", frozenset(), (0,), (), 0, node_cpus=2, cpu_limit=0.5)
    monkeypatch.setattr(command, "this_hardware", lambda: limited)
    assert "note: no tools are compared within a cgroup's limit" in printed_by(
        options._replace(compare="tools")
    )


def test_hurried_result_replaces_no_thorough_one(options: CalibrateOptions) -> None:
    quick = options._replace(effort="quick")
    assert f"kept in {options.path}" in printed_by(quick)
    before = store.load(options.path)
    assert before is not None
    store.save(before._replace(effort="full"), options.path)
    assert "not kept: --quick is only for a look" in printed_by(quick)
    kept = store.load(options.path)
    assert kept is not None
    assert kept.effort == "full"
    reported: list[str] = []
    run(quick._replace(as_json=True), io.StringIO(), reported.append)
    assert len(reported) == 1 and "not kept: --quick" in reported[0]


def test_ceilings_measured_beside_a_training_say_so(
    options: CalibrateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "running_ranks", lambda: (Rank("42", "ps", 0, 123),))
    printed_by(options._replace(force=True))
    kept = store.load(options.path)
    assert kept is not None
    assert kept.ceilings[0].doubt == "measured beside a training"


def test_interrupted_measurement_keeps_the_old_file(
    options: CalibrateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(MEASURED._replace(host="before"), options.path)

    def interrupt(progress: object, effort: str, prefer: bool, compiled: bool) -> Calibration:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "calibrate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        printed_by(options)
    kept = store.load(options.path)
    assert kept is not None
    assert kept.host == "before"


RANKS = (Rank("42", "ps", 0, 123), Rank("42", "worker", 0, 124))


def test_nothing_is_measured_beside_a_training(
    options: CalibrateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object, **more: object) -> Calibration:
        raise AssertionError("measured")

    monkeypatch.setattr(command, "running_ranks", lambda: RANKS)
    monkeypatch.setattr(command, "calibrate", never)
    monkeypatch.setattr(gpu_package, "measure_gpus", never)
    with pytest.raises(Busy, match=r"job 42 ps 0 \(pid 123\), job 42 worker 0 \(pid 124\)"):
        printed_by(options)
    assert not options.path.exists()
    with pytest.raises(Busy, match="also not with --force"):
        printed_by(options._replace(force=True, compare="tools"))


@pytest.mark.parametrize(("ranks", "preferred"), [(RANKS, False), ((), True)])
def test_forced_calibration_leaves_a_training_its_priority_and_says_so(
    options: CalibrateOptions, monkeypatch: pytest.MonkeyPatch, ranks: tuple[Rank, ...], preferred: bool
) -> None:
    asked = []

    def measure(progress: object, effort: str, prefer: bool, compiled: bool) -> Calibration:
        asked.append(prefer)
        return MEASURED

    monkeypatch.setattr(command, "running_ranks", lambda: ranks)
    monkeypatch.setattr(command, "calibrate", measure)
    printed = printed_by(options._replace(force=True))
    assert asked == [preferred]
    assert ("measured beside a training" in printed) == bool(ranks)
    kept = store.load(options.path)
    assert kept is not None
    assert any("job 42 worker 0 (pid 124)" in note for note in kept.notes) == bool(ranks)


@pytest.fixture
def able() -> None:
    try:
        this_hardware()
    except CalibrationError as error:
        pytest.skip(str(error))


COMMAND = [sys.executable, "-m", "roofline_agent"]


@pytest.mark.slow
def test_ctrl_c_leaves_no_process_and_the_old_file(able: None, tmp_path: Path) -> None:
    store.save(MEASURED, tmp_path / "ceilings.json")
    arguments = [*COMMAND, "--state", str(tmp_path), "calibrate", "--full", "--force"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as agent:
        assert agent.stdout
        assert agent.stderr
        agent.stdout.readline()
        agent.stdout.readline()  # it measures
        children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
        agent.send_signal(signal.SIGINT)
        assert agent.wait(60) == 130
        told = "interrupted; the stored result is unchanged"
        assert agent.stderr.read() == f"roofline-agent calibrate: {told}\n"
    assert len(children) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(children[0]), 0)
    assert [path.name for path in tmp_path.iterdir()] == ["ceilings.json"]
    assert store.load(tmp_path / "ceilings.json") == MEASURED


def test_python_that_cannot_be_run_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    asked = [*COMMAND, "--state", tmp_path, "calibrate", "--quick", "--python", tmp_path / "nothing"]
    done = subprocess.run(asked, capture_output=True, text=True)
    assert done.returncode == 2 and "nothing' cannot be run as a program" in done.stderr
    assert not (tmp_path / "ceilings.json").exists()


def test_full_and_quick_exclude_each_other() -> None:
    done = subprocess.run([*COMMAND, "calibrate", "--full", "--quick"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "not together with --quick" in done.stderr
