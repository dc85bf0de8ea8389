"""Real TensorFlow trainings without parameter servers: mirrored workers and plain Keras."""

from __future__ import annotations

import csv
import importlib.util
import re
import subprocess
import sys
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest

from ..end_to_end.conftest import COMMANDS, REPOSITORY, Site, values, wait_until

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]

EXAMPLE = REPOSITORY / "examples" / "tensorflow_multiworker"
JOB = "tensorflow-mirrored"
BATCH, EPOCHS, STEPS = 32, 2, 12
ROUNDING_NS = 1000  # times of the report are on the server's clock, durations on the node's


def example_network() -> ModuleType:
    spec = importlib.util.spec_from_file_location("multiworker_network", EXAMPLE / "network.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(site: Site, command: list[Any]) -> str:
    shape = ["--batch", BATCH, "--epochs", EPOCHS, "--steps", STEPS, "--validate"]
    done = subprocess.run(
        [str(part) for part in [*command, *shape]],
        env=site.environ,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows_of(site: Site, rank: str) -> list[dict[str, str]]:
    """All steps of a rank, in order."""
    options = ("--job", JOB, "--rank", rank, "--format", "csv", "--last", "0")
    done = site.ask("steps", *options)
    assert done.returncode == 0, done.stderr
    return sorted(csv.DictReader(done.stdout.splitlines()), key=lambda row: int(row["step"]))


def assert_work(site: Site, rank: str, printed: str, breaks: bool = True) -> list[dict[str, str]]:
    """Steps, examples and FLOPs to the last step as the script logged them.

    Steps follow each other without a gap, but for epochs where something `breaks` the chain between them.
    """
    found = re.search(r"steps: ([0-9]+) images: ([0-9]+)", printed)
    assert found, printed
    steps, images = int(found[1]), int(found[2])
    assert (steps, images) == (EPOCHS * STEPS, EPOCHS * STEPS * BATCH)
    wait_until(lambda: site.worked(rank, steps, JOB), what=f"all steps of {rank} arrive")
    rows = rows_of(site, rank)
    assert [int(row["step"]) for row in rows] == list(range(steps)), "numbers go on from epoch to epoch"
    assert sum(int(row["examples"]) for row in rows) == images
    assert values(site.report(JOB), rank)["flops_per_step"] == example_network().flops_per_step(BATCH)
    gaps = [
        int(after["begin_ns"]) - int(before["begin_ns"]) - int(before["duration_ns"])
        for before, after in pairwise(rows)
    ]
    joined = [abs(gap) < ROUNDING_NS for gap in gaps]
    assert joined == [not breaks or (step + 1) % STEPS > 0 for step in range(steps - 1)]
    return rows


@pytest.mark.parametrize("loop", ["fit", "iterator", "batches"])
def test_mirrored_workers(site: Site, tensorflow_python: str, loop: str) -> None:
    site.server()
    site.agent()
    wrap = f"{COMMANDS / 'roofline-agent'} run --job {JOB} --"
    launch = [sys.executable, EXAMPLE / "launch.py", "--python", tensorflow_python, "--prefix", wrap]
    printed = run(site, [*launch, "--loop", loop])
    for rank in ("worker:0", "worker:1"):
        # An evaluation that shares the iterator of the training looks like a pause between two steps.
        rows = assert_work(site, rank, printed, breaks=loop != "iterator")
        if loop == "batches":
            assert all(float(row["input_time"]) > 0 for row in rows)
    report = site.report(JOB)
    assert report["mode"] == "synchronous"
    assert [role["role"] for role in report["roles"]] == ["worker"]
    tables = export(site)
    calls = [row for row in tables["spans"] if row["name"] == "phase.call"]
    assert len(calls) == 2 * EPOCHS * STEPS
    assert_traffic(tables)


def export(site: Site) -> dict[str, list[dict[str, str]]]:
    """All data of the job as they were measured, by data set."""
    folder = site.folder / "exported"
    done = site.ask("export", "--job", JOB, "-o", folder)
    assert done.returncode == 0, done.stderr
    return {path.stem: list(csv.DictReader(path.read_text().splitlines())) for path in folder.glob("*.csv")}


def assert_traffic(tables: dict[str, list[dict[str, str]]]) -> None:
    """A ring of two: each sends the parameters' gradients once a step, 2 (N-1)/N of their size."""
    size = 4 * example_network().parameter_count()
    for rank in ("worker:0", "worker:1"):
        last = [row for row in tables["samples_tcp"] if row["rank"] == rank and not row["instance"]][-1]
        ends = [
            int(row["time_ns"]) for row in tables["marks"] if row["rank"] == rank and row["kind"] == "end"
        ]
        # Connections are read once a second, and reading them takes a moment on a busy node.
        before, after = (sum(end <= int(last["time_ns"]) + late for end in ends) for late in (0, 500_000_000))
        for direction in ("tcp_sent_bytes", "tcp_received_bytes"):
            assert 0.9 * (before - 1) * size <= int(last[direction]) <= 1.1 * (after + 1) * size


def test_plain_keras(site: Site, tensorflow_python: str) -> None:
    site.server()
    site.agent()
    wrap = [COMMANDS / "roofline-agent", "run", "--job", JOB, "--role", "worker", "--"]
    printed = run(site, [*wrap, tensorflow_python, EXAMPLE / "train.py"])
    assert_work(site, "worker:0", printed)
