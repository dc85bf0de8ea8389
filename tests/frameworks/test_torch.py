"""A real PyTorch training: steps from the optimizer's hook, FLOPs from oneDNN and MKL lines together."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ..end_to_end.conftest import COMMANDS, Site, values, wait_until

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]

TRAINING = Path(__file__).with_name("torch_training.py")
FLOPS_PER_STEP = 1_969_471_488
STEPS = 40


def test_torch_steps_and_flops(site: Site, torch_python: str) -> None:
    site.server()
    site.agent()
    wrapped = [
        COMMANDS / "roofline-agent",
        "run",
        "--job",
        "7",
        "--role",
        "ddp",
        "--",
        torch_python,
        TRAINING,
        STEPS,
    ]
    done = subprocess.run(
        [str(part) for part in wrapped], env=site.environ, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    bare = subprocess.run(
        [torch_python, TRAINING, str(STEPS)], env=site.environ, capture_output=True, text=True, timeout=240
    )
    assert done.stdout == bare.stdout
    # A mark ends a step and begins the next, so the first of all has no beginning.
    wait_until(lambda: site.steps("ddp:0", "7") == STEPS - 1, what="all steps arrive")
    seen = values(site.report("7"), "ddp:0")
    assert seen["flops_per_step"] == FLOPS_PER_STEP
    assert seen["examples_per_second"] is None  # nobody said how many examples a step has


def test_torchrun_ranks_are_told_apart(site: Site, torch_python: str) -> None:
    site.server()
    site.agent()
    wrap = [COMMANDS / "roofline-agent", "run", "--job", "8", "--", torch_python, TRAINING, STEPS]
    launcher = [Path(torch_python).with_name("torchrun"), "--nproc-per-node", 2, "--no-python", *wrap]
    done = subprocess.run(
        [str(part) for part in launcher], env=site.environ, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    for rank in ("ddp:0", "ddp:1"):
        wait_until(lambda rank=rank: site.steps(rank, "8") == STEPS - 1, what=f"all steps of {rank} arrive")
        assert values(site.report("8"), rank)["flops_per_step"] == FLOPS_PER_STEP
