"""Steps of real trainings that their framework's own profiler records: `run --trace` and `roofline-client
trace`."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from ..client import perfetto
from ..end_to_end.conftest import COMMANDS, Site, values, wait_until
from .tensorflow_ps_example import EXAMPLE, example_network
from .torch_runs import DDP, finish, torchrun, wrapping

pytestmark = [pytest.mark.framework, pytest.mark.timeout(400)]
# Of a step of that training, as it counts them by hand.
FLOPS_PER_STEP = (
    2 * 16 * (32 * 3 * 32 * 32 * 9 * 2 + 64 * 32 * 32 * 32 * 9 * 3 + 4096 * 256 * 3 + 256 * 10 * 3)
)
CNN = Path(__file__).with_name("torch_training.py")
STEPS = 60
TRACED = range(30, 33)
TRACED_NAMES = tuple(f"step {at}" for at in TRACED)


def trained(site: Site, python: str, *options: str) -> str:
    """A traced training of a network whose FLOPs are known; what its wrapper printed."""
    wrap = wrapping("--job", "1", "--trace", "30-32", *options)
    command = [str(part) for part in [*wrap, python, CNN, STEPS]]
    done = finish(command, site.environ | {"ROOFLINE_ROLE": "worker"})
    wait_until(lambda: site.worked("worker:0", STEPS, "1"), what="all steps and kernels arrive")
    if "trace recorded: " in done.stderr:
        wait_for_trace(site)
    return done.stderr


def wait_for_trace(site: Site) -> None:
    """What became of a trace is said after the last of its kernels, which may be a batch after the first."""

    def said() -> bool:
        known = site.known("1")
        return known is not None and any("recorded: steps 30-32" in note for note in known.notes)

    wait_until(said, what="what was recorded is said")


def exported(site: Site) -> Path:
    folder = site.folder / "raw"
    assert site.ask("export", "--job", "1", "-o", folder, "--force").returncode == 0
    return folder


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def steps_of(site: Site, which: str) -> list[dict[str, Any]]:
    done = site.ask("steps", "--job", "1", "--steps", which, "--format", "json")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["rows"])


def test_traced_steps_have_operators_and_say_nothing_of_the_others(site: Site, torch_python: str) -> None:
    site.server()
    site.agent()
    printed = trained(site, torch_python, "--no-kernels")
    assert "trace recorded: steps 30-32, " in printed
    assert not list(Path(os.environ["TMPDIR"]).glob("roofline-trace-*/*.json")), "the trace is removed"

    report = json.loads(site.ask("report", "--job", "1", "--format", "json").stdout)
    left = {one["reason"]: one["steps"] for one in report["verdict"]["left_out"]}
    assert left["traced"] == len(TRACED)
    assert values(report, "worker:0")["between.trace.count"] == 2, "started and stopped"
    # The other steps did the same, as far as is known.
    assert values(report, "worker:0")["flops_per_step"] == pytest.approx(FLOPS_PER_STEP, rel=0.01)

    check_account(exported(site))
    check_layers(site)


def check_layers(site: Site) -> None:
    """The second convolution is the third module of the network: it has all its FLOPs, backward too."""
    convolution = 2 * 16 * 64 * 32 * 32 * 32 * 9 * 3
    done = site.ask("roofline", "--job", "1", "--points", "layer", "--format", "json")
    points = {point["label"]: point for point in json.loads(done.stdout)["points"]}
    found = points["Sequential/2"]
    done_in_all = found["flops_per_second"]["value"] * found["time"]["value"]
    assert done_in_all == pytest.approx(convolution * len(TRACED), rel=0.01)
    assert {f"Sequential/{at}" for at in (0, 2, 6, 8)} == set(points), "each product has its layer"

    layers = parts_of(site, "layers_by_time")
    assert {"(optimizer)", "(gradients)", "(nothing ran)"} < set(layers)
    assert layers["(nothing ran)"] < 0.2 * sum(layers.values()), "operators fill the steps of one thread"


def parts_of(site: Site, kind: str, rank: str = "worker:0", job: str = "1") -> dict[str, float]:
    done = site.ask("breakdown", "--job", job, "--by", "rank", "--rank", rank, "--format", "json")
    assert done.returncode == 0, done.stderr
    parts = [part for part in json.loads(done.stdout)["parts"] if part["kind"] == kind]
    return {part["part"]: part["value"]["value"] for part in parts}


def test_account_of_a_traced_step_agrees_with_its_trace(site: Site, torch_python: str) -> None:
    """What computes, by the account that hooks and counters give, and the operators of the trace."""
    site.server()
    site.agent(interval=0.02)
    trained(site, torch_python, "--no-kernels")
    steps = f"{TRACED[0]}:{TRACED[-1]}"
    report = json.loads(site.ask("report", "--job", "1", "--steps", steps, "--format", "json").stdout)
    (account,) = report["verdict"]["accounts"]
    parts = {part["part"]: part["time"]["value"] for part in account["parts"]}
    layers = parts_of(site, "layers_by_time")
    step = sum(layers.values())
    assert sum(parts.values()) == pytest.approx(step, rel=0.05), "both are of the whole step"
    ran = step - layers["(nothing ran)"]
    # Of a thread that lacks a CPU operators last longer: the account tells that apart, where the thread of a
    # step was measured; of short steps that is not each.
    computing = {"compute", "contention", "stopped"}
    computed = sum(time for name, time in parts.items() if computing.issuperset(name.split("|")))
    assert computed == pytest.approx(ran, abs=0.05 * step)


def check_account(raw: Path) -> None:
    """Phases of the traced steps, as hooks tell them, against the operators of the trace within them."""
    marks = {
        int(row["step"]): int(row["time_ns"]) for row in rows_of(raw / "marks.csv") if row["kind"] == "border"
    }
    begin, end = marks[TRACED[0] - 1], marks[TRACED[-1]]
    calls = [(int(row["begin_ns"]), int(row["duration_ns"])) for row in rows_of(raw / "calls.csv")]
    assert all(begin <= start < end for start, _ in calls), "there are calls in traced steps alone"
    backward = [
        (int(row["begin_ns"]), int(row["end_ns"]))
        for row in rows_of(raw / "spans.csv")
        if row["name"] == "phase.backward" and begin <= int(row["begin_ns"]) < end
    ]
    assert len(backward) == len(TRACED)
    lasted = sum(until - since for since, until in backward)
    computed = sum(time for at, time in calls if any(since <= at < until for since, until in backward))
    assert computed == pytest.approx(lasted, rel=0.05)


def test_trace_beside_sampled_kernels_changes_no_number_of_the_job(site: Site, torch_python: str) -> None:
    site.server()
    site.agent()
    trained(site, torch_python)
    done = site.ask("roofline", "--job", "1", "--points", "kernel", "--format", "json")
    assert "aten::" not in done.stdout, "the library's kernels are what is known of the other steps"
    traced = site.ask("roofline", "--job", "1", "--points", "kernel", "--steps", "30:32", "--format", "json")
    assert "aten::convolution_backward" in traced.stdout


def test_steps_that_never_come_are_named(site: Site, torch_python: str) -> None:
    site.server()
    site.agent()
    wrap = wrapping("--job", "1", "--trace", "1000")
    command = [str(part) for part in [*wrap, torch_python, CNN, 20]]
    done = finish(command, site.environ | {"ROOFLINE_ROLE": "worker"})
    assert "trace not recorded: step 1000: the training ended before these steps did" in done.stderr


def test_running_job_is_traced_on_request(site: Site, torch_python: str) -> None:
    site.server()
    site.agent()
    command = [*wrapping("--job", "1", "--no-kernels"), torch_python, CNN, 100_000]
    training = site.start(command, "rank.log", ROOFLINE_ROLE="worker")
    wait_until(lambda: site.steps("worker:0", "1") > 8, what="it trains")

    done = site.ask("trace", "--job", "1", "--steps", "2", "--format", "json")
    assert done.returncode == 0, done.stderr
    (rank,) = json.loads(done.stdout)["ranks"]
    assert rank["rank"] == "worker:0"
    found = re.fullmatch(r"recorded: steps (\d+)-(\d+), (\d+) operators .*", rank["text"])
    assert found, rank
    first, last = int(found[1]), int(found[2])
    assert last == first + 1
    wait_until(lambda: site.steps("worker:0", "1") > last + 5, what="it trains on")
    wait_until(lambda: site.seen("1")["worker:0"]["flops_per_step"], what="what was traced is known")
    assert values(site.report("1"), "worker:0")["flops_per_step"] == pytest.approx(FLOPS_PER_STEP, rel=0.01)

    unknown = site.ask("trace", "--job", "1", "--rank", "worker:9")
    assert (unknown.returncode, "these do: worker:0" in unknown.stderr) == (5, True)
    training.terminate()
    training.wait()
    wait_until(lambda: site.ask("trace", "--job", "1").returncode == 3, what="a job that is over is refused")


def test_tensorflow_operations_of_traced_steps(site: Site, tensorflow_python: str) -> None:
    site.server()
    site.agent()
    script = Path(__file__).with_name("traced_tensorflow.py")
    wrap = wrapping("--job", "1", "--trace", "30-32", "--no-kernels")
    done = finish(
        [str(part) for part in [*wrap, tensorflow_python, script, STEPS]],
        site.environ | {"ROOFLINE_ROLE": "worker"},
    )
    assert "trace recorded: steps 30-32, " in done.stderr
    wait_until(lambda: site.steps("worker:0", "1") == STEPS, what="all steps arrive")
    wait_for_trace(site)
    calls = rows_of(exported(site) / "calls.csv")
    products = [row for row in calls if "MatMul" in row["operation"]]
    assert {row["problem"] for row in products if "gradient_tape" in row["problem"]}, "named by layer"
    flops = 2 * 64 * 700
    by_layer = dict.fromkeys({row["layer"] for row in products}, 0)
    for row in products:
        by_layer[row["layer"]] += int(row["flops"])
    # Of the first the gradient of the input is not needed.
    each = {"dense": 2 * 700, "dense_1": 3 * 700, "dense_2": 3 * 700, "dense_3": 3}
    assert by_layer == {f"sequential/{name}": flops * outputs * len(TRACED) for name, outputs in each.items()}
    # Four layers: a product each forward, two backward, of the first but one: it has no input to train.
    assert len(products) == len(TRACED) * (4 + 2 * 4 - 1)
    report = json.loads(site.ask("report", "--job", "1", "--format", "json").stdout)
    assert {one["reason"]: one["steps"] for one in report["verdict"]["left_out"]}["traced"] == len(TRACED)
    assert values(report, "worker:0")["between.trace.count"] == 2, "started and stopped"


def test_traced_ranks_of_a_data_parallel_training(site: Site, torch_python: str, tmp_path: Path) -> None:
    """Both trace the same steps: their operators lie in these, and what they were held by the collective is
    told apart from the time in which nothing ran."""
    site.server()
    site.agent()
    traced = ("--job", "1", "--trace", "30-32", "--no-kernels")
    command = torchrun(torch_python, wrapping(*traced), [DDP, "--steps", STEPS, "--epoch", STEPS])
    done = finish(command, site.environ | {"OMP_NUM_THREADS": "1"})
    assert done.stderr.count("trace recorded: steps 30-32, ") == 2
    wait_until(lambda: all(site.steps(f"ddp:{at}", "1") == STEPS for at in (0, 1)), what="all steps arrive")
    wait_for_trace(site)
    layers = parts_of(site, "layers_by_time", "ddp:0")
    assert {"Sequential/0", "Sequential/2", "Sequential/4", "(collective)"} < set(layers)
    assert 0 < layers["(collective)"] < sum(layers.values())

    file = tmp_path / "timeline.json"
    assert site.ask("timeline", "--job", "1", "--kernels", "-o", file).returncode == 0
    for rank in ("ddp:0", "ddp:1"):
        rows = slices_of(json.loads(file.read_text()), rank)
        steps = [one for one in rows["steps"] if one["name"] in TRACED_NAMES]
        begin, end = min(one["ts"] for one in steps), max(one["ts"] + one["dur"] for one in steps)
        assert len(steps) == 3 and len(rows["kernels"]) > 300
        assert all(begin <= one["ts"] <= end for one in rows["kernels"])
        assert {one["name"] for one in rows["layers"]} > {"Sequential/0", "Sequential/2", "Sequential/4"}
        assert any(one.get("args", {}).get("layer") == "Sequential/2" for one in rows["kernels"])
    if perfetto.engine() is not None and shutil.which("node"):
        slices, complaints = perfetto.ask(file, perfetto.SLICES, perfetto.COMPLAINTS)
        assert complaints == [] and {"kernels", "layers"} <= {
            one["thread"].partition(" ")[0] for one in slices
        }
        perfetto.never_overlaps(slices)


def slices_of(trace: dict[str, Any], rank: str) -> dict[str, list[dict[str, Any]]]:
    """Of a rank, by the row that they are drawn in."""
    named = [event for event in trace["traceEvents"] if event["ph"] == "M"]
    (pid,) = [e["pid"] for e in named if e["name"] == "process_name" and rank in e["args"]["name"]]
    rows = {e["tid"]: e["args"]["name"] for e in named if e["name"] == "thread_name" and e["pid"] == pid}
    found: dict[str, list[dict[str, Any]]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["pid"] == pid:
            found.setdefault(rows[event["tid"]].partition(" ")[0], []).append(event)
    return found


def test_worker_of_parameter_servers_is_traced_on_request(site: Site, tensorflow_python: str) -> None:
    """A worker runs no Python of its own: its steps are those that the chief has marked. By layer it did what
    the network of the example needs; what it receives are the variables."""
    site.server()
    site.agent()
    network = example_network()
    command: list[Any] = [sys.executable, EXAMPLE / "launch.py", "--python", tensorflow_python]
    command += ["--steps", 2000, "--batch", 32, "--logs", site.folder / "training"]
    command += ["--prefix", f"{COMMANDS / 'roofline-agent'} run --job 1 --no-kernels --"]
    training = site.start(command, "training.log")
    wait_until(lambda: site.steps("worker:0", "1") > 20, seconds=150, what="it trains")

    done = site.ask("trace", "--job", "1", "--steps", "3", "--format", "json")
    ranks = {one["rank"]: one for one in json.loads(done.stdout)["ranks"]}
    assert ranks["worker:0"]["recorded"] and ranks["worker:1"]["recorded"], ranks
    assert "computes none" in ranks["chief:0"]["text"]
    assert "no layers" in ranks["ps:0"]["text"]
    wait_until(lambda: len(parts_of(site, "layers_by_time")) > 5, what="the traced steps are known")
    layers = parts_of(site, "layers_by_time")
    names = {f"conv{at}" for at in range(3)} | {f"dense{at}" for at in range(2)}
    assert names | {"(RecvTensor)", "(SendTensor)", "(updates on servers)"} <= set(layers)
    assert values(site.report("1"), "worker:0")["flops_per_step"] == network.flops_per_step(32)

    raw = exported(site)
    received = {row["problem"] for row in rows_of(raw / "waits.csv") if row["operation"] == "RecvTensor"}
    assert any(name.startswith("conv1/Conv2D/ReadVariableOp") and name.endswith("ps:0") for name in received)
    training.terminate()
    training.wait()


PROFILES_ITSELF = """
import sys
import torch
from torch.profiler import ProfilerActivity, profile

layer = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
begin, end = map(int, sys.argv[1:])
for step in range(40):
    if step == begin:
        own = profile(activities=[ProfilerActivity.CPU])
        own.start()
    layer(torch.ones(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == end:
        own.stop()
        print("products", sum(event.name == "aten::addmm" for event in own.events()))
"""


@pytest.mark.parametrize(("begin", "end"), [(5, 35), (15, 35), (5, 15), (12, 13)])
def test_profile_of_the_training_itself_is_left_as_it_is(
    site: Site, torch_python: str, begin: int, end: int
) -> None:
    """It records before, while or after ours would: it has all its steps, and ours says why it has none."""
    site.agent()
    script = site.folder / "train.py"
    script.write_text(PROFILES_ITSELF)
    command = [*wrapping("--job", "1", "--trace", "10-20", "--no-kernels"), torch_python, script, begin, end]
    done = finish([str(part) for part in command], site.environ | {"ROOFLINE_ROLE": "worker"})
    assert f"products {end - begin + 1}\n" in done.stdout
    assert "the training records something with PyTorch's profiler itself" in done.stderr


@pytest.mark.parametrize(("begin", "end"), [(5, 35), (15, 35)])
def test_tensorflows_profile_of_the_training_itself_is_left_as_it_is(
    site: Site, tensorflow_python: str, begin: int, end: int
) -> None:
    site.agent()
    script = Path(__file__).with_name("traced_tensorflow.py")
    wrap = wrapping("--job", "1", "--trace", "10-20", "--no-kernels")
    command = [str(part) for part in [*wrap, tensorflow_python, script, 40, begin, end]]
    done = finish(command, site.environ | {"ROOFLINE_ROLE": "worker"})
    assert "traces 1\n" in done.stdout
    assert "trace not recorded: steps 10-20: " in done.stderr


JAX_FLOPS = 5 * 2 * 128 * 256 * 1024  # two products forward, three backward: the first has no input to train


@pytest.mark.parametrize("every", [1, 1000])
def test_jax_operations_of_traced_steps(site: Site, jax_python: str, every: int) -> None:
    """Of a training that reads its loss at every step, and of one that never does and runs ahead."""
    site.server()
    site.agent()
    script = Path(__file__).with_name("traced_jax.py")
    command = [*wrapping("--job", "1", "--trace", "30-32"), jax_python, script, STEPS, every]
    done = finish([str(part) for part in command], site.environ | {"ROOFLINE_ROLE": "worker"})
    assert "trace recorded: steps 30-32, " in done.stderr
    wait_until(lambda: site.steps("worker:0", "1") == STEPS, what="all steps arrive")
    wait_for_trace(site)
    raw = exported(site)
    calls = rows_of(raw / "calls.csv")
    marks = {
        int(row["step"]): int(row["time_ns"]) for row in rows_of(raw / "marks.csv") if row["kind"] == "border"
    }
    begin, end = marks[TRACED[0] - 1], marks[TRACED[-1]]
    inside = [row for row in calls if begin <= int(row["begin_ns"]) < end]
    assert {row["library"] for row in inside} == {"jax"}, "the compiled function is not recorded beside them"
    assert {row["problem"].partition("/")[0] for row in inside} == {"jit_train"}
    assert {row["library"] for row in calls if row not in inside} == {"xla"}
    # Which operations there are is XLA's affair, but it is the same in each step.
    assert len(inside) % len(TRACED) == 0 and len(inside) >= 5 * len(TRACED)

    report = json.loads(site.ask("report", "--job", "1", "--format", "json").stdout)
    assert {one["reason"]: one["steps"] for one in report["verdict"]["left_out"]}["traced"] == len(TRACED)
    assert values(report, "worker:0")["between.trace.count"] == 2, "started and stopped"
    assert values(report, "worker:0")["flops_per_step"] == pytest.approx(JAX_FLOPS, rel=0.05)


@pytest.mark.parametrize(("begin", "end"), [(5, 35), (15, 35)])
def test_jax_profile_of_the_training_itself_is_left_as_it_is(
    site: Site, jax_python: str, begin: int, end: int
) -> None:
    site.agent()
    script = Path(__file__).with_name("traced_jax.py")
    wrap = wrapping("--job", "1", "--trace", "10-20")
    command = [str(part) for part in [*wrap, jax_python, script, 40, 1, begin, end]]
    done = finish(command, site.environ | {"ROOFLINE_ROLE": "worker"})
    assert "traces 1\n" in done.stdout
    assert "trace not recorded: steps 10-20: " in done.stderr


def test_running_jax_job_is_traced_on_request(site: Site, jax_python: str) -> None:
    """Of a training that never reads a result: its steps are known only when they are asked for."""
    site.server()
    site.agent()
    script = Path(__file__).with_name("traced_jax.py")
    command = [*wrapping("--job", "1"), jax_python, script, 1_000_000, 1_000_000]
    training = site.start([str(part) for part in command], "rank.log", ROOFLINE_ROLE="worker")
    wait_until(lambda: site.steps("worker:0", "1") > 8, what="it trains")
    done = site.ask("trace", "--job", "1", "--steps", "2", "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    (rank,) = json.loads(done.stdout)["ranks"]
    found = re.fullmatch(r"recorded: steps (\d+)-(\d+), (\d+) operators .*", rank["text"])
    assert found and int(found[2]) == int(found[1]) + 1, rank
    assert int(found[3]) >= 2 * 5
    wait_until(lambda: site.steps("worker:0", "1") > int(found[2]) + 5, what="it trains on")
    training.terminate()
    training.wait()
