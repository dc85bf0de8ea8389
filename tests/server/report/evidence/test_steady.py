"""Which windows are left out of the numbers of a job whose step numbers come again with every epoch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from roofline_server.model.evidence import RankEvidence
from roofline_server.report.evidence.gathering import gather
from roofline_server.report.evidence.steady import left_out_of
from roofline_server.report.questions import STEADY_STEPS
from roofline_server.report.steps.overview import step_overview
from roofline_server.store.view import JobView

from ...builders import ABSENT, BEGIN, END, MS, Node, S, batch, marks, open_store, rank
from ..odd_jobs import Odd, stored

EPOCHS, STEPS, SLOW = 6, 10, 5
FIRST = 100 * S


def trained(
    folder: Path,
    warm_up: tuple[int, ...],
    roles: tuple[str, ...] = (),
    asynchronous: bool = False,
    steps: int = STEPS,
) -> JobView:
    """Of workers that count the steps of each epoch from 0. warm_up: how many steps of each take five times
    as long at first, and where they wait for each other, those of all; roles: of ranks without steps."""
    store, node = open_store(folder), Node("a")
    node.greet(store)
    said, end = [], FIRST
    for worker, own in enumerate(warm_up):
        now, slow = FIRST, own if asynchronous else max(warm_up)
        for k in range(EPOCHS * steps):
            lasts = 10 * MS * (SLOW if k < slow else 1)
            said += [(worker, BEGIN, k % steps, ABSENT, now), (worker, END, k % steps, 8, now + lasts)]
            now += lasts
        end = max(end, now)
    every = ["worker"] * len(warm_up) + list(roles)
    ranks = [rank(role=r, index=every[:i].count(r), pid=100 + i) for i, r in enumerate(every)]
    said.sort(key=lambda mark: mark[4])
    node.put(store, batch(1, FIRST, end + S, ranks=ranks, marks=marks(said, asynchronous)))
    view = store.view("job")
    assert view is not None
    return view


def evidence_of(view: JobView) -> dict[str, RankEvidence]:
    return {one.key: one for one in gather(view).evidence.values()}


def test_only_the_first_epoch_loses_its_first_steps(tmp_path: Path) -> None:
    view = trained(tmp_path, (2,))
    (one,) = evidence_of(view).values()
    assert one.steps.step.tolist() == list(range(2, STEPS)) + list(range(STEPS)) * (EPOCHS - 1)
    assert [(left.reason, left.steps) for left in left_out_of(view, STEADY_STEPS)] == [("warm-up", 2)]


def test_ranks_that_wait_for_each_other_lose_the_same_steps(tmp_path: Path) -> None:
    found = evidence_of(trained(tmp_path, (3, 1), ("ps",)))
    for key in ("worker:0", "worker:1", "ps:0"):
        assert found[key].steps.step.tolist() == list(range(3, STEPS)) + list(range(STEPS)) * (EPOCHS - 1)


def test_a_server_loses_the_windows_of_the_workers_that_lose_them(tmp_path: Path) -> None:
    found = evidence_of(trained(tmp_path, (3, 1), ("ps",), asynchronous=True))
    counts = {key: len(one.steps.step) for key, one in found.items()}
    whole = EPOCHS * STEPS
    assert counts == {"worker:0": whole - 3, "worker:1": whole - 1, "ps:0": 2 * whole - 4}


@pytest.mark.parametrize("workers", [1, 2])
def test_epochs_of_one_step_do_not_vanish(tmp_path: Path, workers: int) -> None:
    global_steps = EPOCHS * 2
    view = trained(tmp_path, (1,) * workers, steps=2)
    assert {len(one.steps.step) for one in evidence_of(view).values()} == {global_steps - 1}
    view = trained(tmp_path / "one", (1,) * workers, steps=1)
    assert all(len(one.steps.step) for one in evidence_of(view).values())


def test_the_page_shows_the_newest_attempts_none_of_which_is_left_out(tmp_path: Path) -> None:
    found = step_overview(trained(tmp_path, (2, 2)), STEADY_STEPS, 0)
    assert found.firsts == list(range(STEPS)) and not np.any(found.left_out)


def test_the_first_step_of_an_evaluator_is_left_out_of_nobody_elses(tmp_path: Path) -> None:
    ranks = [Odd("ddp", range(60)), Odd("ddp", range(60)), Odd("evaluator", range(30, 90))]
    view = stored(tmp_path, ranks, asynchronous=False).view("job")
    assert view is not None
    found = evidence_of(view)
    assert found["ddp:0"].steps.step.tolist() == list(range(1, 60))
    assert found["evaluator:0"].steps.step.tolist() == list(range(31, 90))
