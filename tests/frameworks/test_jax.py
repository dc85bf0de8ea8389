"""Real JAX trainings: steps, examples, FLOPs and ranks against what a training says of itself."""

from __future__ import annotations

import json
import statistics
import struct
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from roofline_step.packets import CALLS, KERNEL

from ..end_to_end.conftest import Site, values, wait_until
from ..fakes import FakeAgent, clean_environ, decode_mark, decode_spans, free_port
from .conftest import interpreter
from .torch_runs import finish, said, wrapping

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]

TRAINING = Path(__file__).with_name("jax_training.py")
STEPS = 60
BORDER, BEGIN = 3, 1
ON_CPU = {"JAX_PLATFORMS": "cpu"}
TWO_DEVICES = {**ON_CPU, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}

Own = dict[str, Any]


@dataclass
class Heard:
    """What one process sent to the agent."""

    ends: dict[int, int] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)
    examples: dict[int, int | None] = field(default_factory=dict)
    likes: dict[int, int] = field(default_factory=dict)
    between: list[tuple[str, int, int]] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    kernels: dict[int, list[Any]] = field(default_factory=dict)
    calls: list[tuple[int, int, int]] = field(default_factory=list)
    covered: list[tuple[int, int]] = field(default_factory=list)

    def add(self, pid: int, data: bytes) -> None:
        if data[:1] == b"M":
            mark = decode_mark(pid, data)
            if mark.kind == BEGIN:
                self.begins[mark.step] = mark.time_ns
            elif mark.kind == BORDER:
                assert mark.step not in self.ends
                self.ends[mark.step] = mark.time_ns
                self.examples[mark.step], self.likes[mark.step] = mark.examples, mark.like
        elif data[:1] == b"S":
            self.between += [(s.name, s.begin, s.end) for s in decode_spans(data) if s.name[:8] == "between."]
        elif data[:1] == b"F":
            name, _, value = data[4:].decode().partition("=")
            self.facts[name] = value
        elif data[:1] == b"K":
            self.kernels[KERNEL.unpack_from(data)[1]] = json.loads(data[KERNEL.size :])
        elif data[:1] == b"C":
            _, count, begin, through = CALLS.unpack_from(data)
            columns = struct.unpack_from(f"<{3 * count}q", data, CALLS.size)
            self.calls += zip(columns[:count], columns[count : 2 * count], columns[2 * count :], strict=True)
            if count:
                self.covered.append((begin, through))

    def seconds(self, step: int) -> float:
        """How long a step took."""
        return (self.ends[step] - self.begins.get(step, self.ends[step - 1])) / 1e9

    def flops(self, step: int) -> int:
        """Of the calls whose middle lies in a step."""
        begin, end = self.begins.get(step, self.ends[step - 1]), self.ends[step]
        return sum(self.kernels[k][6] for k, at, took in self.calls if begin <= at + took // 2 < end)


def command(python: str, *arguments: Any) -> list[str]:
    return [str(part) for part in [*wrapping(), python, TRAINING, *arguments]]


def listened(commands: list[tuple[list[str], dict[str, str]]]) -> tuple[list[Own], dict[int, Heard]]:
    """Run trainings at the same time: what they say of themselves, and what each sent, by pid."""
    heard: dict[int, Heard] = {}
    with tempfile.TemporaryDirectory() as folder, FakeAgent(Path(folder) / "agent.sock") as agent:

        def receive() -> None:
            for pid, data in agent.poll(0.1):
                heard.setdefault(pid, Heard()).add(pid, data)

        environ = clean_environ(ROOFLINE_SOCKET=str(agent.path))
        running = [
            subprocess.Popen(words, env={**environ, **more}, stdout=subprocess.PIPE, text=True)
            for words, more in commands
        ]
        try:
            while any(one.poll() is None for one in running):
                receive()
        finally:
            for one in running:
                one.kill()
        receive()
        text = "".join(one.communicate()[0] for one in running)
        assert [one.returncode for one in running] == [0] * len(running)
    own = [line for lines in said(text).values() for line in lines]
    return own, heard


def alone(kind: str, environ: dict[str, str] = ON_CPU, steps: int = STEPS) -> tuple[Own, Heard]:
    python = interpreter("ROOFLINE_JAX_PYTHON")
    (own,), heard = listened([(command(python, steps, kind), environ)])
    return own, heard[own["pid"]]


def check(own: Own, heard: Heard, first: int = 0) -> None:
    """Steps agree within 2 % in the median, sums within 1 %: from the second stretch on, for the first has
    the compilation."""
    steps, times = own["steps"], own["times"]
    every = steps // len(times)
    assert list(heard.ends) == sorted(heard.ends)
    mine = [heard.seconds(k) for k in range(first, first + steps)]
    stretches = [sum(mine[at : at + every]) for at in range(0, steps, every)]
    ratios = [one / two for one, two in zip(stretches[1:], times[1:], strict=True)]
    assert statistics.median(ratios) == pytest.approx(1, rel=0.02)
    assert sum(stretches[1:]) == pytest.approx(sum(times[1:]), rel=0.01)
    if "examples" in own:
        assert {heard.examples[k] for k in range(first, first + steps)} == {own["examples"]}
    flops = [heard.flops(k) for k in range(first + 2, first + steps)]
    assert statistics.mean(flops) == pytest.approx(own["flops"], rel=0.03)
    assert heard.facts["hook.jax_calls"] == "installed"


@pytest.mark.parametrize("kind", ["plain", "ahead", "scanned", "compiled", "split"])
def test_every_kind_of_loop_is_seen_to_the_last_step(kind: str) -> None:
    steps = 400 if kind == "ahead" else STEPS  # of which only each twentieth result is read
    own, heard = alone(kind, steps=steps)
    assert list(heard.ends) == list(range(-1, steps))
    check(own, heard)


@pytest.mark.parametrize("kind", ["sharded", "mapped"])
def test_several_devices(kind: str) -> None:
    own, heard = alone(kind, TWO_DEVICES)
    assert list(heard.ends) == list(range(-1, STEPS))
    check(own, heard)


def test_steps_of_one_shape_are_alike() -> None:
    own, heard = alone("shapes")
    check(own, heard)
    assert [heard.examples[k] for k in range(4)] == [256, 128, 256, 128]
    assert len({heard.likes[k] for k in range(0, STEPS, 2)}) == 1
    assert len({heard.likes[k] for k in range(1, STEPS, 2)}) == 1
    assert heard.likes[0] != heard.likes[1]
    assert [heard.kernels[k][6] for k, _, _ in heard.calls[2:4]] == [
        pytest.approx(10 * own["flops"] / 7.5, rel=0.01),
        pytest.approx(5 * own["flops"] / 7.5, rel=0.01),
    ]


def test_evaluation_is_of_no_step() -> None:
    own, heard = alone("plain")
    ((name, begin, end),) = heard.between
    assert name == "between.evaluation"
    assert (end - begin) / 1e9 == pytest.approx(own["apart"][0], rel=0.1)
    assert list(heard.begins) == [STEPS // 2]


def test_one_training_after_another_goes_on_counting() -> None:
    python = interpreter("ROOFLINE_JAX_PYTHON")
    kinds = ["plain", "ahead", "shapes", "split", "compiled"]
    own, heard = listened([(command(python, 40, *kinds), ON_CPU)])
    assert list(heard[own[0]["pid"]].ends) == list(range(-1, 40 * len(kinds)))


def test_jit_means_what_it_means_without_us() -> None:
    python = interpreter("ROOFLINE_JAX_PYTHON")
    script = Path(__file__).with_name("jax_semantics.py")
    environ = clean_environ(**ON_CPU)
    done = finish([str(part) for part in [*wrapping(), python, script]], environ)
    assert done.stdout == "JittedFunction\n"
    assert finish([python, str(script)], environ).stdout == "PjitFunction\n"


def test_nothing_is_computed_differently() -> None:
    python = interpreter("ROOFLINE_JAX_PYTHON")
    kinds = ["plain", "ahead", "scanned", "split", "compiled"]
    environ = clean_environ(**ON_CPU)
    wrapped = said(finish(command(python, 20, *kinds), environ).stdout)
    bare = said(finish([str(part) for part in (python, TRAINING, 20, *kinds)], environ).stdout)
    assert [line["loss"] for line in wrapped[0]] == [line["loss"] for line in bare[0]]


def distributed(python: str) -> list[tuple[list[str], dict[str, str]]]:
    """Two processes that say to jax.distributed which they are, and nothing in their environment does."""
    collectives = {
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
        "WHERE": f"127.0.0.1:{free_port()}",
        "MANY": "2",
    }
    words = command(python, STEPS, "sharded", "--distributed")
    return [(words, {**ON_CPU, **collectives, "WHO": str(rank)}) for rank in (0, 1)]


def test_two_processes() -> None:
    own, heard = listened(distributed(interpreter("ROOFLINE_JAX_PYTHON")))
    assert sorted(line["rank"] for line in own) == [0, 1]
    for line in own:
        of_rank = heard[line["pid"]]
        assert list(of_rank.ends) == list(range(-1, STEPS))
        check(line, of_rank)
        variables = json.loads(of_rank.facts["rank.variables"])
        assert (variables["JAX_PROCESS_ID"], variables["JAX_NUM_PROCESSES"]) == (str(line["rank"]), "2")


def test_two_processes_are_two_ranks(site: Site) -> None:
    site.server()
    site.agent()
    commands = distributed(interpreter("ROOFLINE_JAX_PYTHON"))
    running = [
        site.start([*wrapping("--job", 4), *words[3:]], f"rank{at}.log", **environ)
        for at, (words, environ) in enumerate(commands)
    ]
    assert [process.wait(120) for process in running] == [0, 0]
    for rank in ("worker:0", "worker:1"):
        wait_until(lambda rank=rank: site.worked(rank, STEPS, "4"), what=f"all steps of {rank} arrive")
    report = site.report("4")
    assert [rank["rank"] for rank in report["ranks"]] == ["worker:0", "worker:1"]
    assert not [note for note in report["notes"] if "claim to be" in note]


def test_jax_from_end_to_end(site: Site) -> None:
    """Steps, examples and FLOPs in the report; oneDNN's lines, which are a part of them, are not added."""
    python = interpreter("ROOFLINE_JAX_PYTHON")
    site.server()
    site.agent()
    words = [*wrapping("--job", 6), python, TRAINING, STEPS, "plain"]
    finish([str(part) for part in words], {**site.environ, **ON_CPU})
    wait_until(lambda: site.worked("worker:0", STEPS, "6"), what="all steps and kernels arrive")
    seen = values(site.report("6"), "worker:0")
    products = 5 * 2 * 128 * 256 * 1024
    assert seen["flops_per_step"] == pytest.approx(products, rel=0.03)
    assert seen["examples_per_second"] is not None
    assert seen["intensity.minimum"] > 0
