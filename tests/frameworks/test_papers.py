"""The papers' experiments, by one point of each: what `make papers` runs, at its shortest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..end_to_end.conftest import COMMANDS, REPOSITORY
from .conftest import with_horovod

pytestmark = [pytest.mark.framework, pytest.mark.timeout(1200)]

PARAMETER_SERVER = "ps-networkalexnet-ps1-workers1-batch16-onednn1"
TRACED = f"traced-{PARAMETER_SERVER}-traced3"
KERNEL = "conv2d-batch-frameworktorch-layerconv2d-batch4"
PROCESSES = "processes-processes1-threads2-batch64-nodes1-cycle1-fusion64"
LINK = "net-rate2gbit"
# Multiply-adds of a convolution: batch 4, 64 channels and filters of 3 x 3, images of 56 x 56.
MULTIPLY_ADDS = 4 * 64 * 64 * 3**2 * 56**2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With ceilings that were measured in a hurry: no test asks for them."""
    if os.geteuid() or not all(map(shutil.which, ("ip", "tc", "nsenter", "unshare", "taskset"))):
        pytest.skip("network namespaces need root, iproute2 and util-linux")
    state = ["--state", tmp_path / "agent", "calibrate", "--quick", "--force"]
    subprocess.run([COMMANDS / "roofline-agent", *state], check=True, capture_output=True)
    return tmp_path


def test_a_point_of_each_experiment_is_run_and_judged(
    folder: Path, tensorflow_python: str, torch_python: str
) -> None:
    with_horovod(torch_python, "torch")
    command = [sys.executable, REPOSITORY / "examples" / "papers" / "run.py", "--quick", "--folder", folder]
    command += ["--tensorflow-python", tensorflow_python, "--torch-python", torch_python, "--docs", folder]
    command += ["--only", PARAMETER_SERVER, KERNEL, PROCESSES, LINK]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

    numbers = {
        one["key"]: one["numbers"]
        for one in map(json.loads, (folder / "readings.jsonl").read_text().splitlines())
    }
    assert set(numbers) == {PARAMETER_SERVER, TRACED, KERNEL, PROCESSES}
    layers = {name: share for name, share in numbers[TRACED].items() if name.startswith("traced.")}
    assert sum(layers.values()) == pytest.approx(1) and layers["traced.communication"] > 0.1
    # Each variable is pushed and pulled once a step; bytes at its borders are interpolated.
    held = numbers[PARAMETER_SERVER]["ps:0.payload.total.bytes"]
    assert numbers[PARAMETER_SERVER]["worker.sent_bytes_per_step"] == pytest.approx(held, rel=0.1)
    kernels = [n for name, n in numbers[KERNEL].items() if name.endswith(".flops") and "convolution" in name]
    assert kernels == pytest.approx([2 * MULTIPLY_ADDS] * 3)
    page = (folder / "papers.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    for claim in (
        "On a slow link the link limits, not gRPC",
        "In a short job with a small network launching",
    ):
        (row,) = [row for row in rows if row.startswith(f"| {claim}")]
        assert "can't be judged" not in row, row
