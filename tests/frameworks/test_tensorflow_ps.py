"""A real TensorFlow parameter-server training, with and without us."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import free_port

from ..end_to_end.conftest import COMMANDS, REPOSITORY, Site, values, wait_until
from .tensorflow_ps_example import BATCH, JOB, STEPS, example_network, launch

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]


def train(
    site: Site, python: str, wrapped: bool, options: Sequence[Any] = (), steps: int = STEPS
) -> subprocess.CompletedProcess[str]:
    command = launch(site, python, wrapped, steps, options)
    return subprocess.run(command, env=site.environ, capture_output=True, text=True, timeout=240)


def shape(text: str) -> list[str]:
    """The lines of a training with every number blanked: what must not differ."""
    return [re.sub(r"[0-9.]+", "N", line) for line in text.splitlines()]


def printed_rate(text: str) -> float:
    found = re.search(r"total images/sec: ([0-9.]+)", text)
    assert found, text
    return float(found[1])


def all_steps(site: Site) -> float:
    return site.steps("worker:0", JOB) + site.steps("worker:1", JOB)


@pytest.mark.parametrize(
    ("servers", "workers", "mode", "each"),
    [
        (1, 2, "asynchronous", 3 * STEPS),
        (2, 4, "asynchronous", 2 * STEPS),
        (2, 2, "synchronous", 3 * STEPS),
    ],
    ids=["1 ps, 2 workers", "2 ps, 4 workers", "2 ps, 2 workers, join"],
)
def test_report_of_a_real_training(
    site: Site, tensorflow_python: str, servers: int, workers: int, mode: str, each: int
) -> None:
    site.server()
    site.agent()
    sync = ["--sync"] if mode == "synchronous" else []
    done = train(site, tensorflow_python, True, ["--ps", servers, "--workers", workers, *sync], each)
    assert done.returncode == 0, done.stdout + done.stderr
    steps, images = printed_totals(done.stdout)
    assert (steps, images) == (workers * each, workers * each * BATCH)
    names = [f"worker:{index}" for index in range(workers)]
    wait_until(lambda: sum(site.steps(name, JOB) for name in names) == steps, what="all steps arrive")
    wait_until(lambda: all(site.worked(name, site.steps(name, JOB), JOB) for name in names), what="kernels")
    report = site.report(JOB)
    assert [role["role"] for role in report["roles"]] == ["chief", "ps", "worker"]
    assert report["mode"] == mode
    assert_work_of_workers(site, report, names, steps, images)
    assert_serving(report, ["chief:0", *(f"ps:{index}" for index in range(servers))])
    placed = assert_payload(report, servers)
    assert_traffic(site, report, placed, steps, rounds=each if sync else steps)
    if not sync:
        role = next(role for role in report["roles"] if role["role"] == "worker")
        rate = role["summary"]["values"]["examples_per_second"]["value"]
        assert rate == pytest.approx(printed_rate(done.stdout), rel=0.05)


def test_server_has_a_point_where_an_optimizer_of_keras_updates(site: Site, tensorflow_python: str) -> None:
    """AlexNet of examples/papers, SGD with momentum: 4 FLOPs of each parameter, for each step of a worker."""
    site.server()
    site.agent()
    cluster = {role: [f"localhost:{free_port()}"] for role in ("ps", "worker", "chief")}
    script = REPOSITORY / "examples" / "papers" / "train_ps.py"
    wrapper = [COMMANDS / "roofline-agent", "run", "--job", JOB, "--", tensorflow_python]
    ranks = []
    try:
        for role in cluster:
            config = json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})
            environ = {**site.environ, "TF_CONFIG": config, "CUDA_VISIBLE_DEVICES": ""}
            ranks.append(subprocess.Popen([*wrapper, script, "--steps", "12"], env=environ))
        assert ranks[-1].wait(240) == 0
        wait_until(lambda: site.steps("worker:0", JOB) == 12, what="all steps arrive")
        report = site.report(JOB)
    finally:
        for rank in ranks:
            rank.terminate()
            rank.wait(60)
    facts = {one["name"]: one["value"] for one in report["facts"]}
    variables, size = (int(number) for number in facts["payload.ps:0.total"].split("/"))
    assert variables == 16
    role = next(role for role in report["roles"] if role["role"] == "ps")
    found = {name: one["value"] for name, one in role["summary"]["values"].items()}
    assert found["flops_per_step"] == size / 4 * 4
    assert found["bytes_per_step.minimum"] == 5 * size
    assert found["intensity.minimum"] == pytest.approx(0.2)


def printed_totals(text: str) -> tuple[int, int]:
    found = re.search(r"total steps: ([0-9]+) images: ([0-9]+)", text)
    assert found, text
    return int(found[1]), int(found[2])


def assert_work_of_workers(site: Site, report: Any, names: list[str], steps: int, images: int) -> None:
    """Every step, example and FLOP that the script itself logged, to the last step."""
    rows = step_rows(site)
    mine = [row for row in rows if row["rank"] in names]
    assert len(mine) == steps
    assert sum(int(row["examples"]) for row in mine) == images
    flops = example_network().flops_per_step(BATCH)
    for name in names:
        seen = values(report, name)
        assert seen["steps"] > 0 and seen["flops_per_step"] == flops
        assert seen["flops_per_second"] > 0 and seen["intensity.minimum"] > 0


def assert_serving(report: Any, names: list[str]) -> None:
    for name in names:
        seen = values(report, name)
        assert seen["flops_per_step"] is None and seen["flops_per_second"] is None
        assert seen["cpu_time_per_step"] > 0


def assert_payload(report: Any, servers: int) -> list[int]:
    """Bytes of the parameters on each server, as the chief told them: all there, in their size classes."""
    facts = {fact["name"]: fact["value"] for fact in report["facts"]}
    size = 4 * example_network().parameter_count()
    assert int(facts["gradient.bytes"]) == size
    placed = []
    for server in range(servers):
        parts = {
            name: [int(number) for number in facts[f"payload.ps:{server}.{name}"].split("/")]
            for name in ("small", "medium", "large", "total")
        }
        total = parts.pop("total")
        assert [sum(part[at] for part in parts.values()) for at in (0, 1)] == total
        placed.append(total[1])
    assert sum(placed) == size
    large = [facts[f"payload.ps:{server}.large"] for server in range(servers)]
    assert sorted(large, reverse=True)[0] == f"1/{4 * 2560 * 256}", "one variable has more than a MiB"
    return placed


def assert_traffic(site: Site, report: Any, placed: list[int], steps: int, rounds: int) -> None:
    """In a step a worker pulls every parameter once and pushes its gradient: so much is on the sockets."""
    size, exported = sum(placed), export(site)
    ends = [(mark["rank"], int(mark["time_ns"])) for mark in exported["marks"] if mark["kind"] == "end"]
    for sample in last_samples(exported["samples_tcp"]):
        # Connections are read once a second, and reading them takes a moment on a busy node.
        before, after = (
            bytes_by(ends, sample["rank"], int(sample["time_ns"]) + late, placed) for late in (0, 500_000_000)
        )
        for direction in ("tcp_sent_bytes", "tcp_received_bytes"):
            assert 0.9 * before - size <= int(sample[direction]) <= 1.1 * after + size, sample["rank"]
    for direction in ("sent_bytes_per_step", "received_bytes_per_step"):
        served = sum(values(report, f"ps:{server}")[direction] for server in range(len(placed)))
        # Of the last second there is one reading for training and rest together: the windows get too little.
        assert served == pytest.approx(steps / rounds * size, rel=0.15)


def bytes_by(ends: list[tuple[str, int]], rank: str, time_ns: int, placed: list[int]) -> int:
    """What a rank should have moved in either direction for the steps that had ended by then."""
    done = [worker for worker, end in ends if end <= time_ns]
    role, index = rank.split(":")
    return done.count(rank) * sum(placed) if role == "worker" else len(done) * placed[int(index)]


def last_samples(samples: list[dict[str, str]]) -> list[dict[str, str]]:
    """The last row of each worker and parameter server as a whole."""
    mine = [row for row in samples if not row["instance"] and row["rank"].startswith(("worker", "ps"))]
    return list({row["rank"]: row for row in sorted(mine, key=lambda row: int(row["time_ns"]))}.values())


def step_rows(site: Site) -> list[dict[str, str]]:
    done = site.ask("steps", "--job", JOB, "--format", "csv", "--last", "0")
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(done.stdout.splitlines()))


def export(site: Site) -> dict[str, list[dict[str, str]]]:
    """All data of the job as they were measured, by data set."""
    folder = site.folder / "exported"
    done = site.ask("export", "--job", JOB, "-o", folder)
    assert done.returncode == 0, done.stderr
    return {path.stem: list(csv.DictReader(path.read_text().splitlines())) for path in folder.glob("*.csv")}


def test_training_is_the_same_without_the_wrapper(site: Site, tensorflow_python: str) -> None:
    site.server()
    site.agent()
    wrapped = train(site, tensorflow_python, wrapped=True)
    bare = train(site, tensorflow_python, wrapped=False)
    assert wrapped.returncode == bare.returncode == 0
    assert shape(wrapped.stdout) == shape(bare.stdout)
    lines = wrapped.stderr.splitlines(keepends=True)
    said = [line for line in lines if not line.startswith("roofline-agent: recorded as job")]
    assert shape("".join(said)) == shape(bare.stderr)
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
    report = site.report(JOB)
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
    report = site.report(JOB)
    assert (
        len(report["gaps"]) == 1 and (report["gaps"][0]["end_ns"] - report["gaps"][0]["begin_ns"]) / 1e9 > 1
    )
    flops = example_network().flops_per_step(BATCH)
    assert values(report, "worker:0")["flops_per_step"] == flops
    assert Path(site.folder / "training").exists()
