"""A real Ray Train job: its workers are ranks of their own, the driver that starts them is none."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path

import pytest

from ..end_to_end.conftest import Site, wait_until
from .conftest import interpreter
from .torch_runs import finish, wrapping

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]

TRAINING = Path(__file__).with_name("ray_training.py")
STEPS = 30
LOST_CPU_S = 0.02


def test_each_worker_is_a_rank(site: Site) -> None:
    python = interpreter("ROOFLINE_RAY_PYTHON")
    # What Ray leaves running for a while, of this test that is run again, is no part of this job.
    job = f"ray-{time.time_ns()}"
    site.server()
    site.agent()
    # Sockets of Ray's have long names: not in the folder of the test.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="ray") as sockets:
        words = [*wrapping("--job", job), python, TRAINING, site.folder, sockets]
        finish([str(part) for part in words], {**site.environ, "RAY_TRAIN_V2_ENABLED": "1"})
    for rank in (0, 1):
        wait_until(lambda rank=rank: site.steps(f"ddp:{rank}", job) == STEPS, what=f"all steps of ddp:{rank}")
    report = site.report(job)
    assert [rank["rank"] for rank in report["ranks"]] == ["ddp:0", "ddp:1"]
    assert not [note for note in report["notes"] if "started again" in note]
    steps = json.loads(site.ask("steps", "--job", job, "--format", "json").stdout)["steps"]
    for rank in (0, 1):
        own = json.loads((site.folder / f"{rank}.json").read_text())
        mine = [row["duration_ns"] / 1e9 for row in steps if row["rank"] == f"ddp:{rank}"]
        ratios = [one / two for one, two in zip(mine[1:], own["times"][1:], strict=True)]
        assert statistics.median(ratios) == pytest.approx(1, rel=0.02)
        # Between the hook's reading of the clock and the training's the CPU may have gone elsewhere.
        assert sum(mine[1:]) == pytest.approx(sum(own["times"][1:]), rel=0.01, abs=LOST_CPU_S)
