"""Real Horovod trainings of two ranks: what is stored against what script and timeline say."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ..end_to_end.conftest import COMMANDS, REPOSITORY, Site, wait_until
from .conftest import with_horovod

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]

EXAMPLE = REPOSITORY / "examples" / "horovod"
STEPS, BATCH, RANKS = 30, 16, 2
AGENT = COMMANDS / "roofline-agent"


def network() -> ModuleType:
    spec = importlib.util.spec_from_file_location("horovod_example_network", EXAMPLE / "network.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def torch(torch_python: str) -> str:
    return with_horovod(torch_python, "torch")


@pytest.fixture
def tensorflow(tensorflow_python: str) -> str:
    return with_horovod(tensorflow_python, "tensorflow")


@pytest.fixture
def running(site: Site) -> Site:
    site.server()
    site.agent()
    return site


def horovodrun(python: str, *options: Any) -> list[Any]:
    return [
        Path(python).with_name("horovodrun"),
        "-np",
        RANKS,
        "-H",
        f"localhost:{RANKS}",
        "--gloo",
        *options,
    ]


def train(site: Site, launcher: list[Any], wrap: list[Any], training: list[Any]) -> list[dict[str, Any]]:
    """Run it as job 7; what each rank logged about itself."""
    journal = site.folder / "journal"
    command = [*launcher, AGENT, "run", "--job", "7", *wrap, "--", *training]
    command += ["--steps", STEPS, "--batch", BATCH, "--journal", journal]
    path = f"{Path(training[0]).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [str(part) for part in command],
        env={**site.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "onednn_verbose" not in done.stdout
    return [json.loads((journal / f"rank{rank}.json").read_text()) for rank in range(RANKS)]


def rows(site: Site) -> dict[str, list[dict[str, Any]]]:
    """The steps that the server has, by rank."""
    done = site.ask("steps", "--job", "7", "--format", "json")
    found: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(done.stdout)["steps"] if done.returncode == 0 else []:
        found.setdefault(row["rank"], []).append(row)
    return found


def all_rows(site: Site, **at_least: int) -> dict[str, list[dict[str, Any]]]:
    """Once all steps are there, and so many of something at rank 0 (`engine_allreduce=5`)."""

    def complete() -> dict[str, list[dict[str, Any]]]:
        found = rows(site)
        there = len(found) == RANKS and all(len(steps) == STEPS for steps in found.values())
        there = there and all(row["flops"] is not None for steps in found.values() for row in steps)
        for name, count in at_least.items():
            there = there and total(found["horovod:0"], f"{name.replace('_', '.', 1)}.count") >= count
        return found if there else {}

    try:
        return wait_until(complete, 30, f"{STEPS} steps of {RANKS} ranks and {at_least} arrive")
    except AssertionError:
        found = rows(site)
        counts = {rank: (len(steps), steps[-1]) for rank, steps in found.items()}
        raise AssertionError(f"{at_least} did not arrive: {counts}") from None


def total(steps: list[dict[str, Any]], column: str) -> float:
    return sum(row.get(column) or 0 for row in steps)


def check_steps(found: dict[str, list[dict[str, Any]]], logged: list[dict[str, Any]]) -> None:
    """Steps, examples, FLOPs and roles, to the last step."""
    flops = network().flops_per_step(BATCH)
    assert sorted(found) == ["horovod:0", "horovod:1"]
    for journal in logged:
        steps = found[f"horovod:{journal['rank']}"]
        assert [row["step"] for row in steps] == list(range(journal["steps"]))
        assert total(steps, "examples") == journal["examples"]
        assert {row["flops"] for row in steps} == {flops}
        # From the end of the third step to the end of the last, for both the same: on which side of a border
        # Keras' callbacks stand, one of which broadcasts at first, is a matter of taste.
        seconds = (journal["ends_ns"][-1] - journal["ends_ns"][3]) / 1e9
        assert total(steps[3:], "duration_ns") / 1e9 == pytest.approx(seconds, rel=0.05)


def check_gradients(site: Site, found: dict[str, list[dict[str, Any]]]) -> None:
    """What each step reduced, by what the framework asked for; and what that made the ranks send."""
    size, tensors = network().gradient_bytes(), len(network().weights())
    for steps in found.values():
        if steps[0].get("asked.allreduce.count") is not None:
            assert {row["asked.allreduce.count"] for row in steps} == {tensors}
            assert {row["asked.allreduce.bytes"] for row in steps} == {size}
        ring = 2 * (RANKS - 1) / RANKS * size
        # Counters are read four times a second: the first steps share a reading with the broadcast and what
        # was before it, the last ones with the idle end.
        sent = [row["sent_bytes"] for row in steps[5:-5] if row["sent_bytes"] is not None]
        assert len(sent) >= STEPS * 0.5
        assert sum(sent) / len(sent) == pytest.approx(ring, rel=0.1)
    facts = said(site)
    assert facts["gradient.bytes"] == str(size) and facts["gradient.tensors"] == str(tensors)


def said(site: Site) -> dict[str, str]:
    text = site.ask("report", "--job", "7", "--full").stdout
    return dict(re.findall(r"^ *([a-z]+\.[\w.]+) = (.*)$", text, re.MULTILINE))


def fused_in(path: Path, name: str) -> tuple[int, int]:
    """(collectives, tensors in them) of a timeline: tensors of one collective begin it one after another."""
    begun = [event["name"] for event in json.loads(path.read_text()) if event["ph"] == "B"]
    starts = [name == after != before for before, after in pairwise(["", *begun])]
    return sum(starts), begun.count(name)


@pytest.mark.parametrize(
    "option",
    [
        ("--cycle-time-ms", "1"),
        ("--cycle-time-ms", "5"),
        ("--cycle-time-ms", "20"),
        ("--cycle-time-ms", "50"),
        ("--fusion-threshold-mb", "0"),
    ],
    ids=" ".join,
)
def test_pytorch_executes_what_the_timeline_holds(running: Site, torch: str, option: tuple[str, str]) -> None:
    timeline = running.folder / "timeline.json"
    launcher = horovodrun(torch, *option, "--timeline-filename", timeline)
    logged = train(running, launcher, [], [torch, EXAMPLE / "train_torch.py"])
    collectives, tensors = fused_in(timeline, "GLOO_ALLREDUCE")
    found = all_rows(running, engine_allreduce=collectives, asked_allreduce=tensors)
    check_steps(found, logged)
    check_gradients(running, found)
    rank_0 = found["horovod:0"]
    assert total(rank_0, "engine.allreduce.count") == collectives
    assert total(rank_0, "engine.allreduce.bytes") == STEPS * network().gradient_bytes()
    assert total(rank_0, "asked.allreduce.count") == tensors == STEPS * len(network().weights())
    assert (collectives == tensors) == (option[0] == "--fusion-threshold-mb")
    assert "engine.allreduce.count" not in found["horovod:1"][0] or not total(
        found["horovod:1"], "engine.allreduce.count"
    )
    setting = "HOROVOD_CYCLE_TIME" if "cycle" in option[0] else "HOROVOD_FUSION_THRESHOLD"
    assert float(said(running)[f"setting.{setting}"]) == float(option[1])
    print(f"{' '.join(option)}: {tensors} tensors in {collectives} collectives")


def test_planted_straggler_is_named(running: Site, torch: str) -> None:
    training = [torch, EXAMPLE / "train_torch.py", "--slow-rank", 1, "--slow-seconds", 0.15]
    logged = train(running, horovodrun(torch), [], training)
    check_steps(all_rows(running), logged)
    done = running.ask("stragglers", "--job", "7", "--format", "json")
    assert done.returncode == 0, done.stderr
    causes = json.loads(done.stdout)["causes"]
    assert causes and causes[0]["rank"] == "horovod:1", done.stdout


@pytest.mark.parametrize("loop", ["fit", "tape"])
def test_tensorflow(running: Site, tensorflow: str, loop: str) -> None:
    training = [tensorflow, EXAMPLE / "train_keras.py", "--loop", loop]
    logged = train(running, horovodrun(tensorflow), ["--horovod-timeline"], training)
    tensors = STEPS * len(network().weights())
    found = all_rows(running, asked_allreduce=tensors)
    check_steps(found, logged)
    check_gradients(running, found)
    rank_0 = found["horovod:0"]
    assert total(rank_0, "asked.allreduce.count") == tensors
    assert STEPS <= total(rank_0, "engine.allreduce.count") < tensors
    assert total(rank_0, "engine.allreduce.bytes") == STEPS * network().gradient_bytes()
    assert total(rank_0, "engine.cycle.count") > 0


def test_loop_of_tensors_has_examples(running: Site, torch: str) -> None:
    logged = train(running, horovodrun(torch), [], [torch, EXAMPLE / "train_torch.py", "--tensors"])
    found = all_rows(running)
    check_steps(found, logged)
    assert {row["examples"] for steps in found.values() for row in steps} == {BATCH}


def test_mpi(running: Site, torch: str) -> None:
    mpirun = shutil.which("mpirun")
    asked = [torch, "-c", "import horovod.torch as hvd; raise SystemExit(not hvd.mpi_built())"]
    if mpirun is None or subprocess.run(asked, capture_output=True).returncode:
        pytest.skip("no mpirun, or no MPI in Horovod: install openmpi-bin and libopenmpi-dev, build it anew")
    # Over TCP: in shared memory, which MPI would take on one node, no byte is seen.
    launcher = [mpirun, "--allow-run-as-root", "--oversubscribe", "-np", RANKS]
    launcher += ["-mca", "btl", "tcp,self", "-mca", "btl_tcp_if_include", "lo"]
    logged = train(running, launcher, ["--horovod-timeline"], [torch, EXAMPLE / "train_torch.py"])
    found = all_rows(running, asked_allreduce=STEPS * len(network().weights()))
    check_steps(found, logged)
    check_gradients(running, found)
    assert total(found["horovod:0"], "engine.allreduce.count") >= STEPS
    assert said(running)["setting.HOROVOD_TIMELINE"].startswith("/proc/")


def test_training_is_the_same_without_the_wrapper(site: Site, torch: str) -> None:
    """Losses and their order: neither hooks nor timeline change a result."""
    training = [torch, EXAMPLE / "train_torch.py", "--steps", 20]
    printed = []
    for wrap in ([], [AGENT, "run", "--horovod-timeline", "--"]):
        command = [str(part) for part in [*horovodrun(torch), *wrap, *training]]
        done = subprocess.run(command, env=site.environ, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1] and "loss" in printed[0]
