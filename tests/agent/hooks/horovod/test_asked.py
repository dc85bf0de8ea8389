"""Requests of Horovod under PyTorch are counted with the bytes of the whole."""

from __future__ import annotations

import pytest

from ..site import BORDER, HOROVOD, HOROVOD_MPI_OPS, Site, run, steps

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


@pytest.mark.slow
def test_requests_are_counted_with_their_bytes(horovod: Site) -> None:
    said = run(
        horovod,
        f"""
        {HOROVOD}
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


@pytest.mark.slow
def test_bytes_are_those_of_the_whole(horovod: Site) -> None:
    horovod.module("horovod.torch.mpi_ops", HOROVOD_MPI_OPS + PIECES)
    said = run(
        horovod,
        f"""
        {HOROVOD}
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
    horovod.module("horovod.torch.mpi_ops", HOROVOD_MPI_OPS + old)
    said = run(
        horovod,
        f"""
        {HOROVOD}
        from horovod.torch import mpi_ops
        mpi_ops._allgather_async(Tensor(10), Tensor(0), "a")
        _DistributedOptimizer().step()
        """,
    )
    assert [size for *_, size, _ in said.of("asked.allgather")] == [4 * 3 * 10]


def test_name_has_the_number_of_ranks_of_a_process_set(horovod: Site) -> None:
    horovod.module("horovod.torch.mpi_ops", HOROVOD_MPI_OPS + PIECES)
    said = run(
        horovod,
        f"""
        {HOROVOD}
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


@pytest.mark.slow
def test_what_one_step_alone_reduces_is_no_gradient(horovod: Site) -> None:
    said = run(
        horovod,
        f"""
        {HOROVOD}
        one = _DistributedOptimizer()
        for k in range(6):
            one.backward(10)
            if k == 3: one.backward(1)
            one.step()
        """,
    )
    assert said.facts["gradient.bytes"] == "40"


@pytest.mark.slow
def test_forked_child_that_trains_sends_its_own_steps_only(horovod: Site) -> None:
    said = run(
        horovod,
        f"""
        import os, sys
        {HOROVOD}
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


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "told"), [(0, 0), (1, 2)])
def test_rank_whose_timeline_is_read_leaves_its_requests_to_that(horovod: Site, rank: int, told: int) -> None:
    horovod.module(
        "horovod.torch.mpi_ops", HOROVOD_MPI_OPS.replace("def rank(): return 0", f"def rank(): return {rank}")
    )
    said = run(
        horovod,
        f"""
        {HOROVOD}
        one = _DistributedOptimizer()
        for _ in range(2): one.backward(10); one.step()
        """,
        ROOFLINE_HOROVOD_TIMELINE_READ="1",
    )
    assert sum(count for *_, count in said.of("asked.allreduce")) == told
    assert said.facts["gradient.bytes"] == "40"


@pytest.mark.slow
def test_request_of_unknown_shape_is_made_all_the_same(horovod: Site) -> None:
    said = run(
        horovod,
        f"""
        {HOROVOD}
        from horovod.torch import mpi_ops
        print(mpi_ops.allreduce_async_(None, "odd"), mpi_ops.grouped_allreduce_async_(None))
        _DistributedOptimizer().step()
        """,
    )
    assert said.out == "handle of odd handles\n"
    assert said.facts["hook.horovod_asked"].startswith("failed: ")
    assert said.of("asked.allreduce") == []
