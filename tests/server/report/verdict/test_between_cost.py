"""One rank evaluates between its steps, and the others wait for it in their next one."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline.answers.verdict import Verdict
from roofline_server.report.job.build import first_screen
from roofline_server.report.questions import ALL_STEPS, STEADY_STEPS, Steps

from ...builders import ABSENT, BEGIN, BORDER, MS, UNIX, Node, S, batch, marks, open_store, rank, spans

STEPS, STEP, EVALUATION, EVERY = 90, 50 * MS, 400 * MS, 20
INPUT, COMPUTE = 2 * MS, 36 * MS


def verdict_of(
    folder: Path,
    doing: tuple[int, ...] = (0,),
    steps: Steps = STEADY_STEPS,
    every: int = EVERY,
    epoch: int = STEPS,
    slow_input: int = 0,
) -> Verdict:
    """Of two ranks of 90 steps with 8 examples each. doing: those that evaluate before every 20th, while the
    others wait in that step. epoch: steps after which numbers begin anew. slow_input: ns by which that of
    rank 1 takes longer; longer than the 12 ms for which ranks communicate it makes all steps longer."""
    usual = max(STEP, slow_input + INPUT + COMPUTE + MS)
    store, node = open_store(folder), Node("a")
    node.greet(store)
    said, found = [], []
    for one in (0, 1):
        now = 100 * S
        for step in range(STEPS):
            if step % epoch == 0:
                said.append((one, BORDER, -1, ABSENT, now))
            begin, aside = now, EVALUATION if step and step % every == 0 else 0
            if aside and one in doing:
                begin += EVALUATION
                found.append((one, "between.evaluation", now, begin, ABSENT, 1))
                said.append((one, BEGIN, step % epoch, ABSENT, begin))
            fetched = begin + INPUT + slow_input * one
            computed = fetched + COMPUTE
            now += usual + aside
            found.append((one, "phase.input", begin, fetched, ABSENT, 1))
            found.append((one, "phase.backward", fetched, computed, ABSENT, 1))
            found.append((one, "phase.communicate", computed, now, ABSENT, 1))
            said.append((one, BORDER, step % epoch, 8, now))
    ranks = [rank(role="ddp", index=i, pid=100 + i) for i in (0, 1)]
    found.sort(key=lambda span: span[0])
    end = max(mark[-1] for mark in said)
    node.put(store, batch(1, 100 * S, end, ranks=ranks, marks=marks(said), spans=spans(found)))
    view = store.view("job")
    assert view is not None
    made = first_screen(view, steps).verdict
    store.close()
    assert made is not None
    return made


def test_rank_that_evaluates_alone_is_named_with_what_it_costs(tmp_path: Path) -> None:
    found = verdict_of(tmp_path)
    named = found.bottleneck
    assert named is not None
    assert (named.kind, named.rank, named.confidence) == ("evaluates", "ddp:0", "high")
    assert named.cost.value == pytest.approx(4 * 0.4 / STEPS, rel=0.02)
    assert named.share.value == pytest.approx(1.6 / (1.6 + STEPS * 0.05), rel=0.02)
    assert named.gain is not None
    assert named.gain.without == pytest.approx(0.05, rel=0.02)
    assert named.rate.value == pytest.approx(2 * 8 / 0.05, rel=0.02)
    assert any("4 evaluations of 400 ms each" in line for line in named.evidence)
    assert any("DistributedSampler" in line for line in named.tries)


def test_steps_in_which_the_others_wait_are_left_out_of_all_numbers(tmp_path: Path) -> None:
    found = verdict_of(tmp_path)
    assert ("after a break", 4) in [(left.reason, left.steps) for left in found.left_out]
    assert found.step_p95.value == pytest.approx(0.05)
    assert found.examples_per_second.value == pytest.approx(320)
    assert {account.steps for account in found.accounts} == {STEPS - 4 - 1}


def test_rate_of_the_whole_run_has_all_of_it(tmp_path: Path) -> None:
    found = verdict_of(tmp_path)
    assert found.examples_per_second_of_run is not None
    assert found.examples_per_second_of_run.value == pytest.approx(2 * 8 * STEPS / (STEPS * 0.05 + 1.6))


def test_the_same_where_all_steps_are_asked_for(tmp_path: Path) -> None:
    named = verdict_of(tmp_path, steps=ALL_STEPS).bottleneck
    assert named is not None
    assert named.kind == "evaluates"
    assert named.cost.value == pytest.approx(4 * 0.4 / STEPS, rel=0.02)


def test_what_was_done_in_an_earlier_epoch_costs_the_newest_steps_nothing(tmp_path: Path) -> None:
    newest = Steps(since_ns=UNIX + 100 * S + STEPS * STEP + 4 * EVALUATION - 9 * STEP)
    found = verdict_of(tmp_path, steps=newest, epoch=STEPS // 2)
    assert [account.steps for account in found.accounts] == [9, 9]
    assert "evaluates" not in [one.kind for one in (found.bottleneck, *found.also) if one]


def test_ranks_that_all_evaluate_keep_nobody_waiting(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, doing=(0, 1), every=60)
    assert found.bottleneck is None
    assert found.kind == "healthy"


def test_what_all_ranks_do_for_much_of_the_time_is_named(tmp_path: Path) -> None:
    named = verdict_of(tmp_path, doing=(0, 1)).bottleneck
    assert named is not None
    assert (named.kind, named.rank) == ("evaluation", "")
    assert named.sentence == "every rank spends much of the time on evaluations between steps"
    assert named.cost.value == pytest.approx(4 * 0.4 / STEPS, rel=0.02)
    assert named.rate.value == pytest.approx(2 * 8 / 0.05, rel=0.02)
    assert named.evidence == ["4 evaluations of 400 ms each between steps"]


def test_the_first_is_what_costs_most_in_a_step_and_not_most_of_its_own_steps(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, slow_input=16 * MS)
    costs = [(one.kind, one.cost.value, one.share.value) for one in (found.bottleneck, *found.also) if one]
    (first, cost, share), (second, less, more) = costs[:2]
    assert (first, second) == ("evaluates", "input")
    assert cost is not None and less is not None and share is not None and more is not None
    assert cost > less
    assert share < more, "its steps are longer: they have the breaks in them"
