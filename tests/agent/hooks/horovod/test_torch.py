"""Horovod's optimizers under PyTorch, made up with the shape of the real ones."""

from __future__ import annotations

import pytest

from ..site import BORDER, HOROVOD, Site, run, steps


def test_with_horovod_its_own_optimizer_marks(torch: Site, horovod: Site) -> None:
    said = run(
        torch,
        f"""
        from torch.optim.optimizer import Optimizer
        {HOROVOD}
        plain, spread = Optimizer(), _DistributedOptimizer()
        for _ in range(2): plain.step(); print(spread.step()); plain.step()
        """,
    )
    assert steps(said.marks) == [(BORDER, 0), (BORDER, 1)]
    assert said.out == "5\n5\n"


def test_adasum_is_marked_and_has_no_wait(horovod: Site) -> None:
    said = run(horovod, f"{HOROVOD}\none = _DistributedAdasumOptimizer()\nprint(one.step(), one.step())")
    assert (steps(said.marks), said.out) == ([(BORDER, 0), (BORDER, 1)], "6 6\n")
    assert said.of("phase.communicate") == []


def test_step_that_raises_is_no_step(horovod: Site) -> None:
    said = run(
        horovod,
        f"""
        {HOROVOD}
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
        {HOROVOD}
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
