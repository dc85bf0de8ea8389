"""Horovod's hooks on made-up modules of the same shape, in real processes under `roofline-agent run`."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any, NamedTuple

import pytest

from tests.fakes import AGENT, MarkPacket, clean_environ, decode_mark, decode_spans

from .test_hooks import BORDER, Site, site, steps, torch

__all__ = ["site", "torch"]

OPTIMIZER = """
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
MPI_OPS = """
def _allreduce_async(tensor, output, name, op): return "handle of %s" % name
def _grouped_allreduce_async(tensors, outputs, name, op): return "handles"
def _broadcast_async(tensor, output, root_rank, name): return "broadcast"
def allreduce_async_(tensor, name=None): return _allreduce_async(tensor, tensor, name, 1)
def grouped_allreduce_async_(tensors, name=None): return _grouped_allreduce_async(tensors, tensors, name, 1)
def broadcast_async(tensor, root_rank, name=None): return _broadcast_async(tensor, tensor, root_rank, name)
def rank(): return 0
"""
# Four ranks, two on a node; process sets as since Horovod 0.23. This is rank 2.
PIECES = """
def _allgather_async(tensor, output, name, process_set): return "gathered"
def _grouped_allgather_async(tensors, outputs, name, process_set): return "all gathered"
def _reducescatter_async(tensor, output, name, op, process_set, pre, post): return "scattered"
def _alltoall_async(tensor, splits, output, received, name, process_set): return "sent"
def _allreduce_async(tensor, output, name, op, pre, post, process_set): return "reduced"
class ProcessSet:
    def __init__(self, id, ranks): self.process_set_id, self.ranks = id, ranks
    def size(self): return len(self.ranks)
everyone = ProcessSet(0, [0, 1, 2, 3])
def size(): return 4
def local_size(): return 2
def is_homogeneous(): return True
def rank(): return 2
"""
IMPORT = "from horovod.torch.optimizer import _DistributedOptimizer, _DistributedAdasumOptimizer, Tensor"


class Said(NamedTuple):
    """All that a program told the agent, and what it printed."""

    marks: list[MarkPacket]
    spans: list[tuple[str, int, int, int | None, int]]
    facts: dict[str, str]
    out: str

    def of(self, name: str) -> list[tuple[str, int, int, int | None, int]]:
        return [span for span in self.spans if span[0] == name]


def run(site: Site, code: str, **environ: str) -> Said:
    """A program that must end well and say nothing else."""
    done = subprocess.run(
        [*AGENT, "run", "--", sys.executable, "-c", textwrap.dedent(code)],
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
    return Said(marks, spans, facts, done.stdout)


@pytest.fixture
def horovod(site: Site) -> Site:
    site.module("horovod.torch.mpi_ops", MPI_OPS)
    site.module("horovod.torch.optimizer", OPTIMIZER)
    return site


def test_with_horovod_its_own_optimizer_marks(torch: Site, horovod: Site) -> None:
    said = run(
        torch,
        f"""
        from torch.optim.optimizer import Optimizer
        {IMPORT}
        plain, spread = Optimizer(), _DistributedOptimizer()
        for _ in range(2): plain.step(); print(spread.step()); plain.step()
        """,
    )
    assert steps(said.marks) == [(BORDER, 0), (BORDER, 1)]
    assert said.out == "5\n5\n"


def test_adasum_is_marked_and_tells_no_wait(horovod: Site) -> None:
    said = run(horovod, f"{IMPORT}\none = _DistributedAdasumOptimizer()\nprint(one.step(), one.step())")
    assert (steps(said.marks), said.out) == ([(BORDER, 0), (BORDER, 1)], "6 6\n")
    assert said.of("phase.communicate") == []


def test_step_that_raises_is_no_step(horovod: Site) -> None:
    said = run(
        horovod,
        f"""
        {IMPORT}
        one = _DistributedOptimizer()
        try: one.step(lambda: 1 / 0)
        except ZeroDivisionError: print("raised")
        one.step()
        """,
    )
    assert (steps(said.marks), said.out) == ([(BORDER, 0)], "raised\n")


@pytest.mark.parametrize("by_hand", [False, True], ids=["in step", "before clipping"])
def test_waiting_for_the_gradients_of_others_is_communication(horovod: Site, by_hand: bool) -> None:
    said = run(
        horovod,
        f"""
        {IMPORT}
        one = _DistributedOptimizer(waits=0.05)
        for _ in range(3):
            if {by_hand}:
                one.synchronize()
                one.should = False
            one.step()
        """,
    )
    waits = said.of("phase.communicate")
    assert len(waits) == 3
    assert all(50e6 <= end - begin < 150e6 for _, begin, end, _, _ in waits)
    assert all(end <= mark.time_ns for (_, _, end, _, _), mark in zip(waits, said.marks, strict=True))


def test_requests_are_counted_with_their_bytes(horovod: Site) -> None:
    said = run(
        horovod,
        f"""
        {IMPORT}
        from horovod.torch import mpi_ops
        print(mpi_ops.broadcast_async(Tensor(7), 0, name="weights"))
        one = _DistributedOptimizer()
        for _ in range(3):
            one.backward(10, 20, 30)
            one.step()
        print(mpi_ops.grouped_allreduce_async_([Tensor(1), Tensor(2)]))
        print(mpi_ops.allreduce_async_(Tensor(1), "x"))
        one.step()
        """,
    )
    asked = said.of("asked.allreduce")
    assert sum(count for *_, count in asked) == 3 * 3 + 3
    assert sum(size or 0 for *_, size, _ in asked) == 4 * (3 * 60 + 3 + 1)
    assert [(size, count) for *_, size, count in said.of("asked.broadcast")] == [(28, 1)]
    assert said.out == "broadcast\nhandles\nhandle of x\n"
    assert said.facts["gradient.bytes"] == "240" and said.facts["gradient.tensors"] == "3"


def test_bytes_are_those_of_the_whole(horovod: Site) -> None:
    horovod.module("horovod.torch.mpi_ops", MPI_OPS + PIECES)
    said = run(
        horovod,
        f"""
        {IMPORT}
        from horovod.torch import mpi_ops as m
        T, all = Tensor, m.everyone
        print(m._allgather_async(T(10), T(0), "a", all))
        print(m._grouped_allgather_async([T(1), T(2)], [], "b", all))
        print(m._reducescatter_async(T(12), T(0), "c", 1, all, 1.0, 1.0))
        print(m._alltoall_async(T(20), T(4), T(0), T(4), "d", all))
        _DistributedOptimizer().step()
        """,
    )
    assert said.out == "gathered\nall gathered\nscattered\nsent\n"
    assert sum(size or 0 for *_, size, _ in said.of("asked.allgather")) == 4 * 4 * (10 + 1 + 2)
    assert sum(count for *_, count in said.of("asked.allgather")) == 3
    assert [size for *_, size, _ in said.of("asked.reducescatter")] == [4 * 12]
    assert [size for *_, size, _ in said.of("asked.alltoall")] == [4 * 20]


def test_piece_without_process_sets_is_of_all_ranks(horovod: Site) -> None:
    old = "def _allgather_async(tensor, output, name): return 'gathered'\ndef size(): return 3\n"
    horovod.module("horovod.torch.mpi_ops", MPI_OPS + old)
    said = run(
        horovod,
        f"""
        {IMPORT}
        from horovod.torch import mpi_ops
        mpi_ops._allgather_async(Tensor(10), Tensor(0), "a")
        _DistributedOptimizer().step()
        """,
    )
    assert [size for *_, size, _ in said.of("asked.allgather")] == [4 * 3 * 10]


def test_name_tells_of_how_many_ranks_a_process_set_is(horovod: Site) -> None:
    horovod.module("horovod.torch.mpi_ops", MPI_OPS + PIECES)
    said = run(
        horovod,
        f"""
        {IMPORT}
        from horovod.torch import mpi_ops as m
        some, T = m.ProcessSet(1, [0, 2, 3]), Tensor
        m._allgather_async(T(10), T(0), "a", process_set=some)
        for _ in range(2): m._allreduce_async(T(5), T(5), "b", 1, 1.0, 1.0, some)
        m._allreduce_async(T(6), T(6), "c", 1, 1.0, 1.0, m.ProcessSet(2, [0, 1, 2, 3]))
        m.is_homogeneous = lambda: False
        m._allgather_async(T(1), T(0), "d", process_set=some)
        _DistributedOptimizer().step()
        """,
    )
    told = {name: size for name, *_, size, _ in said.spans if name.startswith("asked.")}
    assert told == {
        "asked.allgather.3-2": 4 * 3 * 10,
        "asked.allreduce.3-2": 4 * 2 * 5,
        "asked.allreduce": 4 * 6,
        "asked.allgather.3": 4 * 3,
    }


def test_what_one_step_alone_reduces_is_no_gradient(horovod: Site) -> None:
    said = run(
        horovod,
        f"""
        {IMPORT}
        one = _DistributedOptimizer()
        for k in range(6):
            one.backward(10)
            if k == 3: one.backward(1)
            one.step()
        """,
    )
    assert said.facts["gradient.bytes"] == "40"


def test_forked_child_that_trains_tells_its_own_steps_and_no_more(horovod: Site) -> None:
    said = run(
        horovod,
        f"""
        import os, sys
        {IMPORT}
        one = _DistributedOptimizer()
        for k in range(2): one.backward(10); one.step()
        one.backward(10)
        if os.fork() == 0:
            for k in range(3): one.backward(10); one.step()
            sys.exit(0)
        os.wait()
        """,
    )
    asked = [(size, count) for *_, size, count in said.of("asked.allreduce")]
    assert asked == [(40, 1)] * 5
    assert steps(said.marks) == [(BORDER, k) for k in (0, 1, 0, 1, 2)]


@pytest.mark.parametrize(("rank", "told"), [(0, 0), (1, 2)])
def test_rank_whose_timeline_is_read_leaves_its_requests_to_that(horovod: Site, rank: int, told: int) -> None:
    horovod.module(
        "horovod.torch.mpi_ops", MPI_OPS.replace("def rank(): return 0", f"def rank(): return {rank}")
    )
    said = run(
        horovod,
        f"""
        {IMPORT}
        one = _DistributedOptimizer()
        for _ in range(2): one.backward(10); one.step()
        """,
        ROOFLINE_HOROVOD_TIMELINE_READ="1",
    )
    assert sum(count for *_, count in said.of("asked.allreduce")) == told
    assert said.facts["gradient.bytes"] == "40"


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "none: give `roofline-agent run --horovod-timeline` to all ranks"),
        ({"ROOFLINE_HOROVOD_TIMELINE_READ": "1"}, "read at rank 0"),
        ({"HOROVOD_TIMELINE": "/nowhere/timeline.json", "HOROVOD_RANK": "1"}, ""),
    ],
    ids=["none", "read", "of another rank"],
)
def test_it_is_said_where_what_horovod_executes_is_told_from(
    horovod: Site, environ: dict[str, str], words: str
) -> None:
    said = run(horovod, IMPORT, **environ)
    assert said.facts.get("horovod.timeline", "").startswith(words)
    assert bool(words) == ("horovod.timeline" in said.facts)


def test_request_that_nobody_understands_is_made_all_the_same(horovod: Site) -> None:
    said = run(
        horovod,
        f"""
        {IMPORT}
        from horovod.torch import mpi_ops
        print(mpi_ops.allreduce_async_(None, "odd"), mpi_ops.grouped_allreduce_async_(None))
        _DistributedOptimizer().step()
        """,
    )
    assert said.out == "handle of odd handles\n"
    assert said.of("asked.allreduce") == []


TENSORFLOW = """
class Shape:
    def __init__(self, elements): self.elements = elements
    def num_elements(self): return self.elements
class Gradient:
    class dtype: size = 4
    def __init__(self, elements): self.shape = Shape(elements)
class Slices(Gradient):
    indices = (1, 2)
def _make_allreduce_grads_fn(name, device):
    return lambda grads, variables=None: "reduced %s %s" % (name, grads)
class Tape:
    def __init__(self): self._allreduce_grads = _make_allreduce_grads_fn("tape", "")
    def gradient(self, *grads): return self._allreduce_grads(list(grads), variables=[])
"""


def gradients(site: Site, code: str) -> tuple[dict[str, str], str]:
    path: Any = site.root / "horovod" / "tensorflow"
    path.mkdir(parents=True)
    (site.root / "horovod" / "__init__.py").touch()
    (path / "__init__.py").write_text(TENSORFLOW)
    said = run(site, f"from horovod.tensorflow import Gradient, Slices, Tape\n{textwrap.dedent(code)}")
    return {name: value for name, value in said.facts.items() if name.startswith("gradient")}, said.out


def test_traced_step_says_what_it_reduces(site: Site) -> None:
    facts, out = gradients(site, "print(Tape().gradient(Gradient(10), None, Gradient(5))[:12])")
    assert facts == {"gradient.tensors": "2", "gradient.bytes": "60"}
    assert out == "reduced tape\n"


def test_sparse_gradients_and_unknown_shapes_have_no_size(site: Site) -> None:
    facts, _ = gradients(site, "Tape().gradient(Gradient(10), Slices(5)); Tape().gradient(Gradient(None))")
    assert facts == {"gradient.tensors": "1"}


def test_gradients_that_nobody_understands_are_reduced_all_the_same(site: Site) -> None:
    facts, out = gradients(site, "print(Tape().gradient('odd'))")
    assert (facts, out) == ({}, "reduced tape ['odd']\n")
