"""Kernels of a sample of steps tell what those of all steps tell: FLOPs, bytes, intensity, to 1 %."""

from __future__ import annotations

import csv
import json
from statistics import mean
from typing import Any

import pytest

from ..end_to_end.conftest import REPOSITORY, Site, values, wait_until
from .conftest import interpreter
from .torch_runs import DDP, finish, torchrun, wrapping

pytestmark = [pytest.mark.framework, pytest.mark.timeout(400)]
KERNELS = REPOSITORY / "examples" / "kernels"
CPU = ["--device", "cpu", "--threads", 1]
CONV2D = [KERNELS / "conv2d.py", *CPU, "--batch", 4, "--size", 15, "--channels", 16, "--filters", 32]
LSTM = [KERNELS / "lstm.py", *CPU, "--batch", 4, "--length", 5, "--hidden", 32]
KERAS = REPOSITORY / "tests" / "frameworks" / "keras_updates.py"
CNN = [REPOSITORY / "tests" / "frameworks" / "torch_training.py"]
STEPS = 120
WORK = ("flops_per_step", "bytes_per_step.minimum", "intensity.minimum")


def trained(site: Site, python: str, job: str, script: list[Any], options: list[str]) -> dict[str, Any]:
    """What the report, the time-based roofline and the breakdown say of the work of a training's steps."""
    rank = "ddp:0" if script[0] == DDP else "worker:0"
    if script[0] == DDP:
        command = torchrun(python, wrapping("--job", job, *options), script)
    else:
        command = [str(part) for part in [*wrapping("--job", job, *options), python, *script]]
    finish(command, site.environ | {"ROOFLINE_ROLE": "worker"} if rank == "worker:0" else site.environ)
    wait_until(lambda: site.worked(rank, STEPS, job), what="all steps and kernels arrive")
    asked = {
        name: json.loads(site.ask(*question, "--job", job, "--format", "json").stdout)
        for name, question in {"time": ["roofline", "--kind", "time"], "breakdown": ["breakdown"]}.items()
    }
    found = {name: values(site.report(job), rank)[name] for name in WORK}
    for point in (point for panel in asked["time"]["panels"] for point in panel["points"]):
        for name in ("flops", "bytes"):
            found[f"{point['rank']} {point['label']} {name}"] = point[name]["value"]
        found[f"{point['rank']} {point['label']} launches"] = point["launches"]
    for part in asked["breakdown"]["parts"]:
        if part["kind"] in ("flops_by_precision", "flops_by_width", "work_and_memory", "traffic_by_level"):
            found[f"{part['kind']} {part['part']}"] = part["value"]["value"]
    return {name: value for name, value in found.items() if value is not None and "network" not in name}


def recorded(site: Site, job: str) -> int:
    """How many kernel calls of a job were recorded."""
    folder = site.folder / f"raw-{job}"
    assert site.ask("export", "--job", job, "-o", folder).returncode == 0
    return len((folder / "calls.csv").read_text().splitlines()) - 1


@pytest.mark.parametrize(
    "script",
    [
        [*CNN, STEPS],
        [*CONV2D, "--steps", STEPS],
        [*LSTM, "--steps", STEPS],
        [DDP, "--steps", STEPS, "--epoch", STEPS, "--batch", 16],
    ],
    ids=["cnn", "conv2d", "lstm", "ddp"],
)
def test_sample_tells_what_all_steps_tell(site: Site, torch_python: str, script: list[Any]) -> None:
    site.server()
    site.agent()
    every = trained(site, torch_python, "1", script, ["--kernels", "all"])
    sample = trained(site, torch_python, "2", script, [])
    assert len(every) > len(WORK)
    assert sample == pytest.approx(every, rel=0.01)
    assert recorded(site, "2") < 0.5 * recorded(site, "1"), "calls of most steps were not recorded"


@pytest.mark.parametrize("variable", ["ROOFLINE_TF_PYTHON", "ROOFLINE_KERAS3_PYTHON"])
def test_sample_of_a_keras_training_tells_what_all_steps_tell(site: Site, variable: str) -> None:
    """Its oneDNN prints from the start on, until it is switched by its own flag."""
    script = [KERAS, STEPS, 1]
    site.server()
    site.agent()
    every = trained(site, interpreter(variable), "1", script, ["--kernels", "all"])
    sample = trained(site, interpreter(variable), "2", script, [])
    assert len(every) > len(WORK)
    assert sample == pytest.approx(every, rel=0.01)
    assert recorded(site, "2") < 0.5 * recorded(site, "1"), "calls of most steps were not recorded"


@pytest.mark.parametrize("variable", ["ROOFLINE_TF_PYTHON", "ROOFLINE_KERAS3_PYTHON"])
def test_sample_of_calls_of_eight_updates_tells_what_all_steps_tell(site: Site, variable: str) -> None:
    """A step is an eighth of its call's time, not of its work: the mean of all is what can be told."""
    site.server()
    site.agent()
    means = []
    for job, options in (("1", ["--kernels", "all"]), ("2", [])):
        trained(site, interpreter(variable), job, [KERAS, STEPS, 8], options)
        steps = csv.DictReader(site.ask("steps", "--job", job, "--format", "csv").stdout.splitlines())
        flops = [float(step["flops"]) for step in steps]
        assert len(flops) == STEPS
        means.append(mean(flops))
    assert means[1] == pytest.approx(means[0], rel=0.01)
    assert recorded(site, "2") < 0.5 * recorded(site, "1"), "calls of most steps were not recorded"
