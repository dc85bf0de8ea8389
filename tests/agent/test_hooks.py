"""Hooks on made-up frameworks of the same shape, in real processes under `roofline-agent run`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fakes import AGENT, FakeAgent, MarkPacket, clean_environ, decode_mark

BEGIN, END, BORDER = 1, 2, 3
COORDINATOR = "tensorflow.python.distribute.coordinator.cluster_coordinator"


class Site:
    """A folder of made-up modules, an agent, and programs run between them."""

    def __init__(self, root: Path, agent: FakeAgent) -> None:
        self.root = root / "modules"
        self.agent = agent

    def module(self, name: str, code: str) -> None:
        path = self.root
        for part in name.split(".")[:-1]:
            path = path / part
            path.mkdir(parents=True, exist_ok=True)
            (path / "__init__.py").touch()
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{name.split('.')[-1]}.py").write_text(textwrap.dedent(code))

    def run(self, code: str, *options: str, **environ: str) -> tuple[list[MarkPacket], str]:
        """The marks a program made, and what it printed; it must end well and say nothing else."""
        done = subprocess.run(
            [*AGENT, "run", *options, "--", sys.executable, "-c", textwrap.dedent(code)],
            env=clean_environ(ROOFLINE_SOCKET=str(self.agent.path), PYTHONPATH=str(self.root), **environ),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        packets = [(pid, data) for pid, data in self.agent.poll(0.3) if data[:1] == b"M"]
        return [decode_mark(pid, data) for pid, data in packets], done.stdout


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with FakeAgent(tmp_path / "agent.sock") as agent:
        yield Site(tmp_path, agent)


def steps(marks: list[MarkPacket]) -> list[tuple[int, int]]:
    return [(mark.kind, mark.step) for mark in marks]


def windows(*numbers: int) -> list[tuple[int, int]]:
    return [(kind, number) for number in numbers for kind in (BEGIN, END)]


@pytest.fixture
def torch(site: Site) -> Site:
    site.module(
        "torch.optim.optimizer",
        """
        before, after = [], []
        def register_optimizer_step_pre_hook(hook): before.append(hook)
        def register_optimizer_step_post_hook(hook): after.append(hook)
        class Optimizer:
            def step(self):
                for hook in before: hook(self, (), {})
                for hook in after: hook(self, (), {})
        """,
    )
    return site


def test_marks_of_the_training_silence_hooks(torch: Site) -> None:
    marks, _ = torch.run("""
        import roofline_step
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        one.step()
        roofline_step.mark(50)
        one.step()
        """)
    assert steps(marks) == [(BORDER, 0), (BORDER, 50)]


def test_no_steps_means_no_hooks(torch: Site) -> None:
    marks, out = torch.run(
        """
        import sys
        from torch.optim.optimizer import Optimizer
        Optimizer().step()
        print("_roofline_hooks" in sys.modules)
        """,
        "--no-steps",
    )
    assert (marks, out) == ([], "False\n")


def test_framework_of_another_shape_is_left_alone(site: Site) -> None:
    site.module("torch.optim.optimizer", "x = 5\n")
    site.module("horovod.torch.optimizer", "x = 6\n")
    site.module(COORDINATOR, "x = 7\n")
    marks, out = site.run(f"""
        import torch.optim.optimizer, horovod.torch.optimizer, {COORDINATOR} as c
        print(torch.optim.optimizer.x, horovod.torch.optimizer.x, c.x)
        """)
    assert (marks, out) == ([], "5 6 7\n")


def test_framework_that_fails_to_import_fails_as_ever(site: Site) -> None:
    site.module("torch.optim.optimizer", "1 / 0\n")
    _, out = site.run("""
        try: import torch.optim.optimizer
        except ZeroDivisionError: print("as ever")
        try: import horovod.torch.optimizer
        except ModuleNotFoundError as error: print(error.name)
        """)
    assert out == "as ever\nhorovod\n"


def test_agents_absence_is_not_noticed(torch: Site) -> None:
    torch.agent.close()
    code = "from torch.optim.optimizer import Optimizer as O; o = O(); o.step(); print('fine')"
    environ = clean_environ(ROOFLINE_SOCKET=str(torch.agent.path), PYTHONPATH=str(torch.root))
    done = subprocess.run(
        [*AGENT, "run", "--", sys.executable, "-c", code],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "fine\n")


def test_mark_in_the_verbose_stream_is_not_the_users(torch: Site) -> None:
    """MKL's lines carry no time; the hooks note theirs in stdout, and the wrapper takes it out again."""
    _, out = torch.run("""
        import os
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        print("a", flush=True); one.step(); print("b", flush=True)
        os.dup2(2, 1)  # stdout leads elsewhere now: nothing may be noted there
        one.step()
        """)
    assert out == "a\nb\n"


CUDA = """
#include <stdio.h>
#include <stdlib.h>
static void note(const char *text) {
  FILE *file = fopen(getenv("CALLS_OF_CUDA"), "a");
  fputs(text, file);
  fclose(file);
}
int cudaProfilerStart(void) { note("start "); return 0; }
int cudaProfilerStop(void) { note("stop "); return 0; }
int cuProfilerStart(void) { note("cu-start "); return 0; }
int cuProfilerStop(void) { note("cu-stop "); return 0; }
"""


class Cuda(NamedTuple):
    """A made-up CUDA library, and what it and the hooks noted."""

    root: Path

    def library(self, name: str) -> Path:
        (self.root / "cuda.c").write_text(CUDA)
        path = self.root / name
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, self.root / "cuda.c"], check=True)
        return path

    def environ(self, steps: str) -> dict[str, str]:
        return {
            "ROOFLINE_NCU_STEPS": steps,
            "ROOFLINE_NCU_WINDOWS": str(self.root / "windows"),
            "CALLS_OF_CUDA": str(self.root / "calls"),
        }

    @property
    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().split() if path.exists() else []

    @property
    def windows(self) -> list[list[int]]:
        return [
            [int(word) for word in line.split()] for line in (self.root / "windows").read_text().splitlines()
        ]


@pytest.fixture
def cuda(tmp_path: Path) -> Cuda:
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    return Cuda(tmp_path)


def test_range_is_open_in_the_steps_asked_for(torch: Site, cuda: Cuda) -> None:
    marks, _ = torch.run(
        f"""
        import ctypes
        ctypes.CDLL({str(cuda.library("libcudart-ab12cd34.so.11.0"))!r})
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        for _ in range(8): one.step()
        """,
        **cuda.environ("2-3,6"),
    )
    assert cuda.calls == ["start", "stop"] * 3
    times = {mark.step: mark.time_ns for mark in marks}
    closed = [line for line in cuda.windows if len(line) == 3]
    assert closed == [[n, times[n - 1], times[n]] for n in (2, 3, 6)], "a window is the step as it was marked"
    assert [line for line in cuda.windows if len(line) == 2] == [line[:2] for line in closed]


def test_runtime_linked_in_is_reached_by_the_driver_library(torch: Site, cuda: Cuda) -> None:
    torch.run(
        f"""
        import ctypes
        ctypes.CDLL({str(cuda.library("libcuda.so.1"))!r})
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        for _ in range(3): one.step()
        """,
        **cuda.environ("1"),
    )
    assert cuda.calls == ["cu-start", "cu-stop"]


def test_without_cuda_no_range_is_opened_and_nothing_is_noticed(torch: Site, cuda: Cuda) -> None:
    marks, out = torch.run(
        """
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        for _ in range(4): one.step()
        print("fine")
        """,
        **cuda.environ("1-2"),
    )
    assert (steps(marks), out) == ([(BORDER, n) for n in range(4)], "fine\n")
    assert cuda.calls == [] and not (cuda.root / "windows").exists()


def test_range_follows_the_marks_of_the_training(torch: Site, cuda: Cuda) -> None:
    marks, _ = torch.run(
        f"""
        import ctypes, roofline_step
        from roofline_step import mark
        ctypes.CDLL({str(cuda.library("libcudart.so.12"))!r})
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        for k in range(10, 14): mark(k); one.step()
        with roofline_step.step(20): one.step()
        mark(21, of=("worker", 3))
        mark(None); mark("21")
        """,
        **cuda.environ("1-3,12,20-21"),
    )
    assert cuda.calls == ["start", "stop", "start", "stop"], "steps are counted as the training does"
    times = {(mark.step, mark.kind): mark.time_ns for mark in marks}
    assert [line for line in cuda.windows if len(line) == 3] == [
        [12, times[11, BORDER], times[12, BORDER]],
        [20, times[20, BEGIN], times[20, END]],
    ]


def test_step_that_never_ends_closes_the_range_but_is_no_window(torch: Site, cuda: Cuda) -> None:
    torch.run(
        f"""
        import ctypes
        ctypes.CDLL({str(cuda.library("libcudart.so.12"))!r})
        from torch.optim.optimizer import Optimizer
        Optimizer().step()
        """,
        **cuda.environ("1"),
    )
    assert cuda.calls == ["start", "stop"]
    assert [len(line) for line in cuda.windows] == [2]


def test_forked_worker_leaves_the_range_alone(torch: Site, cuda: Cuda) -> None:
    torch.run(
        f"""
        import ctypes, os, sys
        ctypes.CDLL({str(cuda.library("libcudart.so.12"))!r})
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        one.step()
        if os.fork() == 0: sys.exit(0)
        os.wait()
        one.step()
        """,
        **cuda.environ("1"),
    )
    assert cuda.calls == ["start", "stop"]
