"""A folder of made-up frameworks, and programs that are run with them under `roofline-agent run`."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

from tests.fakes import AGENT, FakeAgent, MarkPacket, SpanPacket, clean_environ, decode_mark, decode_spans

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
            [*AGENT, "run", "--quiet", *options, "--", sys.executable, "-c", textwrap.dedent(code)],
            env=clean_environ(ROOFLINE_SOCKET=str(self.agent.path), PYTHONPATH=str(self.root), **environ),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        packets = [(pid, data) for pid, data in self.agent.poll(0.3) if data[:1] == b"M"]
        return [decode_mark(pid, data) for pid, data in packets], done.stdout


def steps(marks: list[MarkPacket]) -> list[tuple[int, int]]:
    return [(mark.kind, mark.step) for mark in marks]


def windows(*numbers: int) -> list[tuple[int, int]]:
    return [(kind, number) for number in numbers for kind in (BEGIN, END)]


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


HOROVOD_OPTIMIZER = """
import time
from horovod.torch.mpi_ops import allreduce_async_
class _DistributedOptimizer:
    def __init__(self, waits=0.0):
        self.waits = waits
        self.should = True
    def backward(self, *sizes):
        for k, size in enumerate(sizes): allreduce_async_(Tensor(size), "grad.%d" % k)
    def synchronize(self):
        time.sleep(self.waits)
    def step(self, closure=None):
        if self.should: self.synchronize()
        if closure: return closure()
        return 5
class _DistributedAdasumOptimizer:
    def synchronize(self): pass
    def step(self): return 6
class Tensor:
    def __init__(self, size): self.size = size
    def numel(self): return self.size
    def element_size(self): return 4
"""


HOROVOD_MPI_OPS = """
def _allreduce_async(tensor, output, name, op): return "handle of %s" % name
def _grouped_allreduce_async(tensors, outputs, name, op): return "handles"
def _broadcast_async(tensor, output, root_rank, name): return "broadcast"
def allreduce_async_(tensor, name=None): return _allreduce_async(tensor, tensor, name, 1)
def grouped_allreduce_async_(tensors, name=None): return _grouped_allreduce_async(tensors, tensors, name, 1)
def broadcast_async(tensor, root_rank, name=None): return _broadcast_async(tensor, tensor, root_rank, name)
def rank(): return 0
"""


HOROVOD = "from horovod.torch.optimizer import _DistributedOptimizer, _DistributedAdasumOptimizer, Tensor"


IMPORT = f"from {COORDINATOR} import *; from {COORDINATOR} import _CoordinatedClosureQueue"


KERAS_2 = "keras.src.engine.training"


KERAS_3 = "keras.src.backend.tensorflow.trainer"


FUNCTION = "tensorflow.python.eager.polymorphic_function.polymorphic_function"


TAPE = "tensorflow.python.eager.backprop"


ITERATOR = "tensorflow.python.data.ops.iterator_ops"


PLACEMENT = "tensorflow.python.distribute.parameter_server_strategy_v2"


class Outcome(NamedTuple):
    """All that a program told the agent, and what it printed."""

    marks: list[MarkPacket]
    spans: list[SpanPacket]
    facts: dict[str, str]
    out: str

    @property
    def phases(self) -> list[tuple[str, int, int]]:
        """(name, begin, end) of each span."""
        return [span[:3] for span in self.spans]

    def of(self, name: str) -> list[SpanPacket]:
        return [span for span in self.spans if span.name == name]


def run(site: Site, code: str, **environ: str) -> Outcome:
    """A program that must end well and say nothing else; like `Site.run`, with spans and facts."""
    done = subprocess.run(
        [*AGENT, "run", "--quiet", "--", sys.executable, "-c", textwrap.dedent(code)],
        env=clean_environ(ROOFLINE_SOCKET=str(site.agent.path), PYTHONPATH=str(site.root), **environ),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    packets = site.agent.poll(0.3)
    marks = [decode_mark(pid, data) for pid, data in packets if data[:1] == b"M"]
    spans = [span for _, data in packets if data[:1] == b"S" for span in decode_spans(data)]
    facts = dict(data[4:].decode().split("=", 1) for _, data in packets if data[:1] == b"F")
    return Outcome(marks, spans, facts, done.stdout)


def stretches(marks: list[MarkPacket]) -> list[tuple[int, int]]:
    """(begin, end) of the steps, in order."""
    return [
        (begin.time_ns, end.time_ns)
        for begin, end in zip(marks[::2], marks[1::2], strict=True)
        if begin.kind == BEGIN and end.kind == END and begin.step == end.step
    ]
