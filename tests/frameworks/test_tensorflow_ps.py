"""A real TensorFlow parameter-server training, with and without us."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ..end_to_end.conftest import COMMANDS, REPOSITORY, Site, values, wait_until

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]

EXAMPLE = REPOSITORY / "examples" / "tensorflow_ps"
BATCH = 32
STEPS = 40


def example_network() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_network", EXAMPLE / "network.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def launch(site: Site, python: str, wrapped: bool, steps: int = STEPS) -> list[str]:
    command: list[Any] = [sys.executable, EXAMPLE / "launch.py", "--python", python, "--steps", steps]
    command += ["--batch", BATCH, "--logs", site.folder / "training"]
    if wrapped:
        command += ["--prefix", f"{COMMANDS / 'roofline-agent'} run --job 42 --"]
    return [str(part) for part in command]


def train(site: Site, python: str, wrapped: bool) -> subprocess.CompletedProcess[str]:
    command = launch(site, python, wrapped)
    return subprocess.run(command, env=site.environ, capture_output=True, text=True, timeout=240)


def shape(text: str) -> list[str]:
    """The lines of a training with every number blanked: what must not differ."""
    return [re.sub(r"[0-9.]+", "N", line) for line in text.splitlines()]


def printed_rate(text: str) -> float:
    found = re.search(r"total images/sec: ([0-9.]+)", text)
    assert found, text
    return float(found[1])


def all_steps(site: Site) -> float:
    return site.steps("worker:0") + site.steps("worker:1")


def test_report_of_a_real_training(site: Site, tensorflow_python: str) -> None:
    site.server()
    site.agent()
    done = train(site, tensorflow_python, wrapped=True)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: all_steps(site) == 2 * STEPS, what="all steps arrive")
    report = site.report()
    assert [role["role"] for role in report["roles"]] == ["chief", "ps", "worker"]
    assert report["mode"] == "asynchronous"
    flops = example_network().flops_per_step(BATCH)
    for name in ("worker:0", "worker:1"):
        seen = values(report, name)
        assert seen["steps"] > 0
        assert seen["flops_per_step"] == flops
        assert seen["flops_per_second"] > 0 and seen["intensity.minimum"] > 0
    for name in ("chief:0", "ps:0"):
        seen = values(report, name)
        assert seen["flops_per_step"] is None and seen["flops_per_second"] is None
        assert seen["cpu_time_per_step"] > 0
    assert values(report, "ps:0")["sent_bytes_per_step"] > 1e6
    workers = next(role for role in report["roles"] if role["role"] == "worker")
    rate = workers["summary"]["values"]["examples_per_second"]["value"]
    assert rate == pytest.approx(printed_rate(done.stdout), rel=0.05)


def test_training_is_the_same_without_the_wrapper(site: Site, tensorflow_python: str) -> None:
    site.server()
    site.agent()
    wrapped = train(site, tensorflow_python, wrapped=True)
    bare = train(site, tensorflow_python, wrapped=False)
    assert wrapped.returncode == bare.returncode == 0
    assert shape(wrapped.stdout) == shape(bare.stdout)
    assert shape(wrapped.stderr) == shape(bare.stderr)
    for log in sorted((site.folder / "training").iterdir()):
        assert "onednn_verbose" not in log.read_text()


def test_killed_server_loses_no_step_of_a_real_training(site: Site, tensorflow_python: str) -> None:
    server = site.server("--seal", "1")
    site.agent()
    training = site.start(launch(site, tensorflow_python, wrapped=True), "training.log")
    wait_until(lambda: all_steps(site) > 10, 120, "steps arrive")
    server.kill()
    server.wait()
    time.sleep(1)
    site.server("--seal", "1")
    assert training.wait(timeout=200) == 0
    wait_until(lambda: all_steps(site) == 2 * STEPS, what="every step is there")
    report = site.report()
    flops = example_network().flops_per_step(BATCH)
    assert values(report, "worker:0")["flops_per_step"] == flops
    assert report["gaps"] == []


def test_killed_agent_leaves_a_gap_in_a_real_training(site: Site, tensorflow_python: str) -> None:
    site.server()
    agent = site.agent()
    training = site.start(launch(site, tensorflow_python, wrapped=True, steps=300), "training.log")
    wait_until(lambda: all_steps(site) > 20, 120, "steps arrive")
    agent.kill()
    agent.wait()
    time.sleep(2)
    before = all_steps(site)
    site.agent()
    assert training.wait(timeout=200) == 0
    wait_until(lambda: all_steps(site) > before + 20, what="marks resume")
    report = site.report()
    assert (
        len(report["gaps"]) == 1 and (report["gaps"][0]["end_ns"] - report["gaps"][0]["begin_ns"]) / 1e9 > 1
    )
    flops = example_network().flops_per_step(BATCH)
    assert values(report, "worker:0")["flops_per_step"] == flops
    assert Path(site.folder / "training").exists()
