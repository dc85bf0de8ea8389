"""From marks and spans in a store to the verdict of its report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from roofline.answers.values import Value
from roofline.answers.verdict import Gain, Verdict
from roofline_server.model.causes.cause import Cause
from roofline_server.model.causes.conclusion import Conclusion
from roofline_server.model.intervals import Interval
from roofline_server.report.evidence.gathering import gather
from roofline_server.report.evidence.no_steps import why_none
from roofline_server.report.job.build import build
from roofline_server.report.questions import ALL_STEPS, STEADY_STEPS, Steps
from roofline_server.report.verdict.accounts import Accounts
from roofline_server.report.verdict.advising import advised
from roofline_server.report.verdict.findings import _rate_of_cause
from roofline_server.report.waits.stragglers import find
from roofline_server.report.what_if.what_if import WhatIfQuery, what_if
from roofline_server.sentences.what_if import all_parts_of
from roofline_server.store.store import Store

from ...builders import (
    ABSENT,
    BEGIN,
    BORDER,
    CUMULATIVE,
    END,
    GAUGE,
    MS,
    Node,
    S,
    batch,
    counter_set,
    marks,
    open_store,
    packed,
    rank,
    samples,
    spans,
)
from ..odd_jobs import Odd, stored

STEPS, STEP = 80, 50 * MS
INPUT, COMPUTE = 2 * MS, 36 * MS  # of a healthy rank; what is left of the step it is held in communication
Span = tuple[int, str, int, int, int, int]


def of_step(number: int, begin: int, late: int, lasting: int = STEP) -> list[Span]:
    """Input, forward, backward, and what is left of the step held in communication."""
    fetched = begin + INPUT + late
    computed = fetched + COMPUTE
    return [
        (number, "phase.input", begin, fetched, ABSENT, 1),
        (number, "phase.forward", fetched, fetched + COMPUTE // 2, ABSENT, 1),
        (number, "phase.backward", fetched + COMPUTE // 2, computed, ABSENT, 1),
        (number, "phase.communicate", computed, begin + lasting, ABSENT, 1),
    ]


def verdict_of(
    folder: Path,
    late: Sequence[int],
    steps: Steps = STEADY_STEPS,
    count: int = STEPS,
    rates: Sequence[float] = (),
    sends_until: int = STEPS,
    world: int = 0,
) -> Verdict:
    """late: of each rank, by how much longer its input takes; step 0 takes ten times as long. rates: of each
    rank, byte/s at which a megabyte a step is acknowledged, up to step sends_until. world: how many ranks
    each says there are."""
    store, node = open_store(folder), Node("a")
    node.greet(store)
    begin = 100 * S
    ends = [begin, begin + 10 * STEP, *(begin + (10 + k) * STEP for k in range(1, count))]
    ranks = [rank(role="ddp", index=i, pid=100 + i, world=world) for i in range(len(late))]
    borders = [(i, BORDER, k - 1, 8, at) for i in range(len(late)) for k, at in enumerate(ends)]
    phases = [s for i, more in enumerate(late) for at in ends[:-1] for s in of_step(i, at, more)]
    sent = [
        (i, at, (10**6 * min(k, sends_until), int(rate)))
        for i, rate in enumerate(rates)
        for k, at in enumerate(ends)
    ]
    counters = [("tcp_sent_bytes", CUMULATIVE, False), ("tcp_delivery_rate", GAUGE, False)]
    counted = samples(0, [*sent, *sent], counters)
    # Of each rank in all, and by its peer: of two that is the other one.
    counted.instance = packed([*(-1 for _ in sent), *(1 - i for i, _, _ in sent)])
    said = batch(
        begin_ns=begin,
        end_ns=ends[-1] + S,
        ranks=ranks,
        marks=marks(borders),
        spans=spans(phases),
        counter_sets=[counter_set("tcp", counters)],
        samples=[counted],
        instances=["ddp:0", "ddp:1"],
    )
    node.put(store, said)
    return report_of(store, steps)


def report_of(store: Store, steps: Steps) -> Verdict:
    view = store.view("job")
    assert view is not None
    found = build(view, steps).verdict
    assert found is not None
    return found


def test_rank_that_joins_late_is_promised_to_shorten_its_own_steps_alone(tmp_path: Path) -> None:
    """Two ranks do 60 steps of 40 ms; the third takes 10 ms longer in the 120 steps in which it is there."""
    store, node = open_store(tmp_path), Node("a")
    node.greet(store)
    lasting = [400 * MS, *([40 * MS] * 60), *([50 * MS] * 120)]
    ends = [100 * S + sum(lasting[:k]) for k in range(len(lasting) + 1)]
    present = [(i, k) for i in range(3) for k in range(len(lasting)) if i < 2 or k > 60]
    borders = [(i, BORDER, k, 8, ends[k + 1]) for i, k in present]
    borders += [(2, BORDER, 60, ABSENT, ends[61])]  # from there on it is there
    phases = [s for i, k in present for s in of_step(i, ends[k], 10 * MS * (i == 2), lasting[k])]
    ranks = [rank(role="ddp", index=i, pid=100 + i) for i in range(3)]
    borders += [(i, BORDER, -1, 8, ends[0]) for i in range(2)]
    said = batch(
        begin_ns=ends[0],
        end_ns=ends[-1] + S,
        ranks=ranks,
        marks=marks(sorted(borders, key=lambda one: one[4])),
        spans=spans(phases),
    )
    node.put(store, said)
    found, view = report_of(store, STEADY_STEPS), store.view("job")
    assert found.bottleneck is not None and found.bottleneck.rank == "ddp:2" and view is not None
    truth = (60 * 2 + 120 * 3) * 8 / (180 * 0.040)
    assert found.bottleneck.rate.value == pytest.approx(truth, rel=0.02)
    assert what_if(view, WhatIfQuery(fix="ddp:2")).rate.then.value == pytest.approx(truth, rel=0.02)


def test_rank_with_slow_input_is_named_with_its_cost(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, (0, 10 * MS))
    first = found.bottleneck
    assert first is not None
    assert (found.kind, first.kind, first.rank) == ("bottleneck", "input", "ddp:1")
    assert first.cost.value == pytest.approx(0.010, rel=0.02)
    assert first.gain is not None and first.gain.without == pytest.approx(0.040, rel=0.02)
    assert first.gain.low <= first.gain.without <= first.gain.high
    assert found.headline == first.sentence
    assert found.examples_per_second.value == pytest.approx(2 * 8 / 0.050)
    assert first.rate.value == pytest.approx(2 * 8 / 0.040, rel=0.02)
    view = open_store(tmp_path).view("job")
    assert view is not None
    notes = {rank: what_if(view, WhatIfQuery(fix=rank)).notes for rank in ("ddp:0", "ddp:1")}
    assert notes == {"ddp:0": [], "ddp:1": [all_parts_of("ddp:1")]}, "it fixes more than the finding"


def test_rank_with_a_slow_link_is_named_instead_of_the_communication(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, (0, 0), rates=(1e9, 1e8))
    first = found.bottleneck
    assert first is not None
    assert (first.kind, first.rank) == ("slow_link", "ddp:1")
    assert first.cost.value == pytest.approx(0.010 * (1 - 1 / 10), rel=0.01)
    assert first.evidence[0] == "what it sends is acknowledged at 100 MB/s, what the others send at 1 GB/s"
    assert first.tries
    assert [one.kind for one in found.also] == []


def test_rank_that_sent_nothing_in_its_steps_has_no_link(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, (0, 0), Steps(20, 60), rates=(1e9, 1e8), sends_until=5)
    assert "slow_link" not in [one.kind for one in (found.bottleneck, *found.also) if one]


def test_few_steps_are_no_ground_to_name_a_link(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, (0, 0), ALL_STEPS, count=1, rates=(1e9, 1e6))
    assert (found.kind, found.bottleneck) == ("unknown", None)


def test_equal_ranks_are_healthy(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, (0, 0))
    assert (found.kind, found.bottleneck) == ("healthy", None)
    assert [one.rank for one in found.also] == [""]  # what the next gain would be, of nobody in particular


@pytest.mark.parametrize(("world", "kind"), [(2, "transfer"), (4, "unseen_ranks")])
def test_communication_with_ranks_that_were_not_seen_may_be_waiting_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: int, kind: str
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "COMPUTE", 16 * MS)
    found = verdict_of(tmp_path, [0, 0], world=world)
    assert found.bottleneck is not None
    assert found.bottleneck.kind == kind
    assert ("some ranks were not seen" in found.bottleneck.why) == (world == 4)
    said = [line for line in found.quality if "2 of 4 ddp ranks were not seen (ddp:2, ddp:3)" in line]
    assert len(said) == (world == 4)


def test_healthy_ranks_beside_some_that_were_not_seen_may_not_be(tmp_path: Path) -> None:
    assert "some ranks were not seen" in verdict_of(tmp_path, [0, 0], world=4).headline


@pytest.mark.parametrize(("count", "doubted"), [(9, True), (41, True), (42, False)])
def test_few_steps_leave_a_doubt_that_the_headline_says(tmp_path: Path, count: int, doubted: bool) -> None:
    found = verdict_of(tmp_path, (0, 0), count=count)
    assert found.kind == "healthy"
    assert ("; low confidence: only " in found.headline) == doubted
    newest = verdict_of(tmp_path / "newest", (0, 0), Steps(since_ns=0), count=count)
    assert newest.kind == "healthy" and "confidence" not in newest.headline


def test_parts_of_an_account_add_up_to_the_step(tmp_path: Path) -> None:
    for one in verdict_of(tmp_path, (0, 10 * MS)).accounts:
        assert one.steps == STEPS - 1
        assert sum(part.time.value or 0.0 for part in one.parts) == pytest.approx(one.step.value)
        assert sum(part.share.value or 0.0 for part in one.parts) == pytest.approx(1)


def test_warm_up_is_left_out_unless_all_steps_are_asked_for(tmp_path: Path) -> None:
    steady, every = verdict_of(tmp_path / "a", (0, 0)), verdict_of(tmp_path / "b", (0, 0), ALL_STEPS)
    assert steady.step_mean.value == pytest.approx(0.05)
    assert [(left.reason, left.steps) for left in steady.left_out] == [("warm-up", 1)]
    assert steady.left_out[0].cost.value == pytest.approx(0.5)
    assert every.step_mean.value == pytest.approx(0.05 * (STEPS + 9) / STEPS)
    assert every.left_out == []


@pytest.mark.parametrize("late", [0, 10 * MS])
def test_shares_and_gains_are_of_the_step_that_is_shown(tmp_path: Path, late: int) -> None:
    """The first step takes ten times as long, and is not among those that are played again."""
    found = verdict_of(tmp_path, (0, late), ALL_STEPS)
    step, first = found.step_mean.value, found.bottleneck or found.also[0]
    assert step == pytest.approx(0.05 * (STEPS + 9) / STEPS)
    assert first.cost.value and first.share.value == pytest.approx(first.cost.value / step)
    if late:
        assert first.cost.value == pytest.approx(0.010, rel=0.02) and first.gain is not None
        assert (first.gain.step, first.gain.without) == pytest.approx((step, step - first.cost.value))
        assert first.gain.low <= first.gain.without <= first.gain.high
        assert first.rate.value == pytest.approx(2 * 8 / first.gain.without)


def test_an_evaluator_is_no_part_of_the_training(tmp_path: Path) -> None:
    ranks = [Odd("worker", range(60)), Odd("evaluator", range(20), lasting=60 * MS)]
    found = report_of(stored(tmp_path, ranks, asynchronous=False), STEADY_STEPS)
    assert found.examples_per_second.value == pytest.approx(8 / 0.020)
    assert found.step_mean.value == pytest.approx(0.020)
    assert [one.rank for one in found.accounts] == ["evaluator:0", "worker:0"]
    assert found.bottleneck is not None and found.bottleneck.kind == "input"
    assert found.bottleneck.rate.value == pytest.approx(8 / 0.010), "half of a step is input"


def test_a_chief_trains_where_there_are_no_servers(tmp_path: Path) -> None:
    """TF_CONFIG of MultiWorkerMirroredStrategy calls the first worker so."""
    many = range(60)
    store = stored(tmp_path / "a", [Odd("chief", many), Odd("worker", many)], asynchronous=False)
    view = store.view("job")
    assert view is not None
    assert "only rank" not in find(view, STEADY_STEPS).verdict
    assert what_if(view, WhatIfQuery(ranks=4)).change == "4 ranks instead of 2"
    evaluated = stored(tmp_path / "b", [Odd("chief", many), Odd("evaluator", range(20))], asynchronous=False)
    assert "no steps" not in report_of(evaluated, STEADY_STEPS).headline


def test_no_rate_is_told_where_less_is_done() -> None:
    """Of a rank with twice the batch: half as much makes steps shorter, and gives no more examples/s."""
    gain = Interval(0.05, 0.04, 0.06, 0.04)
    cause = Cause("more_work", "compute", ("ddp:1",), "", gain, 0.1, {"compute": 0.05}, 2.0)
    found = Conclusion("bottleneck", cause, [], None, 60, 0.1, 0.05, "high", ())
    known = Accounts({}, {}, {}, found, [], True, [])
    then, rate = Gain(0.1, 0.05, 0.04, 0.06), Value(960.0, "examples/s")
    assert _rate_of_cause(cause, then, rate, known).value is None
    assert _rate_of_cause(cause._replace(kind="slower"), then, rate, known).value == pytest.approx(1920)


@pytest.mark.parametrize(("beside", "kind"), [(0, "input"), (2 * MS, "input"), (30 * MS, "between")])
def test_time_between_the_steps_that_a_training_marks(tmp_path: Path, beside: int, kind: str) -> None:
    """Its data loader runs there, of which nothing is known."""
    store = stored(tmp_path, [Odd("worker", range(60), beside=beside)], asynchronous=False)
    found = report_of(store, STEADY_STEPS)
    first, period = found.bottleneck, 0.020 + beside / S
    assert first is not None and first.kind == kind
    assert found.examples_per_second.value == pytest.approx(8 / period, rel=0.02)
    every = {one.kind: one for one in (first, *found.also)}
    without = 8 / (period - 0.010)
    assert every["input"].rate.value == pytest.approx(without, rel=0.02), "what is beside the steps stays"
    if kind == "between":
        assert first.sentence == "worker:0 spends much of the time between steps"
        assert (first.cost.value, first.share.value) == pytest.approx((0.03, 0.6), rel=0.02)
        assert first.rate.value == pytest.approx(8 / 0.020, rel=0.02)
    said = [line for line in found.quality if "between steps" in line]
    assert len(said) == (beside == 2 * MS), "what is named as a finding is not said twice"
    view = store.view("job")
    assert view is not None
    fixed = what_if(view, WhatIfQuery(fix="input")).rate
    assert fixed.then.value == pytest.approx(without, rel=0.05)


def test_examples_of_some_ranks_are_not_said_to_be_those_of_all(tmp_path: Path) -> None:
    ranks = [Odd("ddp", range(60)), Odd("ddp", range(60), examples=ABSENT)]
    found = report_of(stored(tmp_path, ranks, asynchronous=False), STEADY_STEPS)
    assert "examples/s of the 1 of 2 ranks whose examples are known" in found.quality


@pytest.mark.parametrize("numbers", [range(0, 240, 4), (*range(30), *range(70, 100))])
def test_numbers_with_holes_in_no_time_are_not_missed(tmp_path: Path, numbers: Sequence[int]) -> None:
    found = report_of(stored(tmp_path, [Odd("ddp", numbers)], asynchronous=False), STEADY_STEPS)
    assert not any("not seen" in line for line in found.quality)


@pytest.mark.parametrize(("pid", "missing"), [(100, 40), (200, 0)])
def test_steps_while_a_rank_was_not_there_are_not_missed(tmp_path: Path, pid: int, missing: int) -> None:
    """Of an elastic training; the same process that is silent for so long did steps that nobody saw."""
    store, node = open_store(tmp_path), Node("a")
    node.greet(store)
    for sequence, (who, first) in enumerate([(100, 0), (pid, 70)]):
        at = [100 * S + (first + k) * STEP for k in range(31)]
        said = [(0, BORDER, first + k - 1, 8, when) for k, when in enumerate(at)]
        one = rank(role="ddp", pid=who, start_ns=99 * S if who == 100 else at[0] - S // 2)
        node.put(store, batch(1 + sequence, at[0], at[-1] + MS, ranks=[one], marks=marks(said)))
    notes = [line for line in report_of(store, STEADY_STEPS).quality if line.endswith("not seen")]
    assert notes == ([f"{missing} steps of ddp:0 not seen"] if missing else [])


@pytest.mark.parametrize(("apart", "is_known"), [(1, True), (10, False)])
def test_rate_of_the_whole_run_where_every_step_or_every_tenth_is_known(
    tmp_path: Path, apart: int, is_known: bool
) -> None:
    store, node = open_store(tmp_path), Node("a")
    node.greet(store)
    said = [
        (0, kind, k * apart, 8 if kind == END else ABSENT, 100 * S + k * apart * 50 * MS + after)
        for k in range(20)
        for kind, after in ((BEGIN, 0), (END, 50 * MS))
    ]
    node.put(store, batch(begin_ns=100 * S, end_ns=120 * S, ranks=[rank()], marks=marks(said)))
    whole = report_of(store, STEADY_STEPS).examples_per_second_of_run
    assert (whole is not None) == is_known
    assert whole is None or whole.value == pytest.approx(160)


def test_the_first_step_of_a_few_counts_and_that_is_said(tmp_path: Path) -> None:
    said = [report_of(stored(tmp_path / str(n), [Odd("ddp", range(n))], False), STEADY_STEPS) for n in (5, 9)]
    assert [any("first counts too" in line for line in one.quality) for one in said] == [True, False]


def test_what_the_only_rank_has_is_not_said_of_every_rank(tmp_path: Path) -> None:
    found = report_of(stored(tmp_path, [Odd("worker", range(60))], asynchronous=False), STEADY_STEPS)
    first = found.bottleneck
    assert first is not None
    assert (first.kind, first.sentence) == ("input", "slow input on worker:0")
    assert first.evidence[0] == "10 ms a step of input"
    assert not any("every rank" in line for line in first.tries)


def test_a_job_of_which_only_steps_are_known_is_not_called_healthy(tmp_path: Path) -> None:
    store = stored(tmp_path, [Odd("worker", range(60), spanned=False)], asynchronous=False)
    found = report_of(store, STEADY_STEPS)
    assert found.kind == "unknown"
    assert found.headline.startswith("not known: 100% of the step is unexplained; ")
    assert "doctor" in found.headline


def test_a_job_too_short_for_samples_is_advised_to_train_longer(tmp_path: Path) -> None:
    store = stored(tmp_path, [Odd("worker", range(60), spanned=False)], asynchronous=False)
    view = store.view("job")
    assert view is not None
    gathered, found = gather(view), report_of(store, STEADY_STEPS)._replace(headline="x")
    for number, known in gathered.evidence.items():
        gathered.evidence[number] = known._replace(samples_per_step=1 / len(known.steps.step))
    headline = advised(view, gathered, found).headline
    assert headline.endswith(
        "and hold 1 sample: train longer, or sample more often (`roofline-agent --interval`)"
    )
    gathered.evidence[number] = known._replace(samples_per_step=1.0)
    assert "doctor" in advised(view, gathered, found).headline


def test_who_picked_few_steps_is_advised_to_pick_more(tmp_path: Path) -> None:
    store = stored(tmp_path, [Odd("worker", range(60))], asynchronous=False)
    few = report_of(store, Steps(5, 6)).headline
    assert few == "not known: 2 steady steps are too few; choose at least 50 of the job's steps (0 to 59)"
    store = stored(tmp_path / "short", [Odd("worker", range(20))], asynchronous=False)
    assert report_of(store, Steps(5, 6)).headline.endswith("; train some 50 steps, then ask again")


def test_few_steps_are_no_ground_for_a_verdict(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, (0, 10 * MS), count=6)
    assert (found.kind, found.bottleneck) == ("unknown", None)
    assert "too few" in found.headline


def test_a_job_without_steps_says_why_it_has_none(tmp_path: Path) -> None:
    store = stored(tmp_path, [Odd("ps"), Odd("worker", readings=5)], asynchronous=True)
    view = store.view("job")
    assert view is not None
    worker = next(number for number, who in view.ranks.items() if who.role == "worker")
    found = report_of(store, STEADY_STEPS)
    assert found.headline == f"not known: no steps were seen; {why_none(view, worker)}"
    failed = advised(view, gather(view), found._replace(headline="x"), has_failed=True)
    assert failed.headline == "x; it failed before its first step"
    by_slurm = build(view._replace(tags={"slurm.state": "FAILED"}), STEADY_STEPS).verdict
    assert by_slurm is not None and by_slurm.headline.endswith("it failed before its first step")
