"""MFU and the waterfall of jobs whose FLOPs, ceilings and steps are made up."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from roofline.answers.efficiency import Efficiency, Utilisation
from roofline.answers.machines import Ceiling
from roofline.answers.model_flops import ModelFlops
from roofline.answers.values import Provenance, Value
from roofline.v1 import ingest_pb2 as pb
from roofline_server.errors import BadRequest
from roofline_server.model.account.account import Account
from roofline_server.report.ceilings.contention import contention
from roofline_server.report.efficiency.efficiency import NEEDED, _exceeding, efficiency
from roofline_server.report.efficiency.rank_use import use_of
from roofline_server.report.evidence.gathering import gather
from roofline_server.report.questions import ALL_STEPS, Steps, Subject
from roofline_server.report.roofline.groups import groups_of, summarized
from roofline_server.sentences import efficiency as texts
from roofline_server.store.store import Store

from ...builders import DRAM, MS, PEAK_F32, UNIX, Node, S, calls, kernel, rank, training

A, B = Node("a", UNIX, "hosta"), Node("b", UNIX, "hostb")
# 57 steps of 0.63 s, with 0.07 s between two: time in which the peak is not used, too.
STEP, EXAMPLES = 0.63 + 0.07 * 56 / 57, 32
WORKERS = [rank(index=0), rank(index=1, pid=101)]
THEORY = PEAK_F32._replace(name="peak.f32.512.theory", value=5e12, provenance=Provenance.ANALYTIC)
BF16 = PEAK_F32._replace(name="peak.bf16.512", precision="bf16", value=8e12)
EVERY = (PEAK_F32, THEORY, BF16, DRAM)
FLOPS = 1_000_000  # of a kernel, which takes 1 us: at half of 4e12 FLOP/s, 0.5 us


def fact(text: str, number: int = 0) -> pb.Event:
    return pb.Event(kind=pb.EVENT_KIND_FACT, rank=number, begin_ns=100 * S, end_ns=100 * S, text=text)


def answered(
    store: Store,
    kernels: Sequence[pb.Kernel] = (),
    facts: Sequence[pb.Event] = (),
    ceilings: Sequence[Ceiling] = EVERY,
    ranks: Sequence[pb.Rank] = WORKERS,
    stepping: Sequence[int] = (0, 1),
    steps: Steps = ALL_STEPS,
    names: tuple[str, ...] = (),
    **asked: Any,
) -> Efficiency:
    """Of ranks that share one node; each step calls one kernel."""
    A.greet(store)
    sent = training(ranks, stepping=stepping)
    for one in sent:
        del one.kernels[:]
        one.kernels.extend(kernels or [kernel(FLOPS, 100)])
    sent[0].events.extend(facts)
    A.put(store, *sent)
    view = store.view("job", NEEDED)
    assert view
    view = view._replace(machines={n: m._replace(ceilings=tuple(ceilings)) for n, m in view.machines.items()})
    return efficiency(view, Subject("job", steps, names), ModelFlops(**asked))


def values(found: Utilisation) -> dict[str, Value]:
    return {one.name: one.value for one in found.measures}


def numbers(found: Utilisation) -> dict[str, float | None]:
    return {name: one.value for name, one in values(found).items()}


def test_flops_of_all_ranks_over_the_peak_of_their_node(store: Store) -> None:
    found = answered(store)
    whole = numbers(found.whole)
    assert (found.whole.label, found.whole.precision) == ("2 ranks", "f32")
    assert whole["step"] == pytest.approx(STEP)
    assert whole["model_flops"] == whole["executed_flops"] == 2 * FLOPS
    assert (whole["peak"], whole["peak.theoretical"]) == (4e12, 5e12)
    assert whole["mfu"] == whole["hfu"] == pytest.approx(2 * FLOPS / (STEP * 4e12))
    assert whole["mfu.theoretical"] == pytest.approx(2 * FLOPS / (STEP * 5e12))
    assert "mfu.sparse" not in whole
    # The roof at 10^4 FLOP/byte is the peak.
    assert whole["roofline_utilisation"] == pytest.approx(whole["mfu"])
    assert [one.rank for one in found.ranks] == ["worker:0", "worker:1"]
    for one in found.ranks:
        assert numbers(one)["peak"] == 2e12, "two ranks share the node"
        assert numbers(one)["mfu"] == pytest.approx(whole["mfu"])
    assert values(found.whole)["mfu"].provenance == Provenance.ANALYTIC
    assert values(found.whole)["model_flops"].reason == texts.SAME_AS_EXECUTED


def test_the_waterfall_adds_up_to_the_step_and_begins_with_the_mfu(store: Store) -> None:
    found = answered(store, [kernel(FLOPS, 40_000)])
    for one in (found.whole, *found.ranks):
        parts = {part.part: part.time.value or 0.0 for part in one.waterfall}
        assert sum(parts.values()) == pytest.approx(STEP, rel=1e-6)
        assert sum(part.share.value or 0.0 for part in one.waterfall) == pytest.approx(1)
        assert one.waterfall[0].part == "useful"
        assert one.waterfall[0].share.value == pytest.approx(numbers(one)["mfu"])
        assert parts["useful"] == pytest.approx(0.5e-6)
        # 40,000 bytes at half of 1e11 byte/s take 0.8 us.
        assert parts["memory"] == pytest.approx(0.3e-6)
        assert parts["compute|contention"] == pytest.approx(0.2e-6), "of a kernel of 1 us"
        assert all(part.formula for part in one.waterfall)


def test_ranks_that_share_a_node_have_it_in_turns(store: Store) -> None:
    """Its FLOPs need 0.5 us at half of the peak; it had all of the node for 0.2 us, and waited for that."""
    A.greet(store)
    sent = training(WORKERS, stepping=(0, 1))
    for one in sent:
        del one.kernels[:]
        one.kernels.extend([kernel(FLOPS, 100)])
    A.put(store, *sent)
    view = store.view("job", NEEDED)
    assert view
    every = gather(view, ALL_STEPS).evidence
    number = next(n for n, one in every.items() if one.key == "worker:0")
    (group,) = groups_of(view, {number: every[number]}, every, "rank", summarized)
    parts = {"compute": np.full(4, 0.2e-6), "contention": np.full(4, 0.8e-6)}
    account = Account("worker:0", "worker", "hosta", np.full(4, 1e-6), parts, {}, None)
    use = use_of(view, number, group, account, ModelFlops(), contention(view, every))
    assert use.steps.parts["useful"] == pytest.approx(0.5e-6)
    assert use.steps.parts["contention"] == pytest.approx(0.5e-6)
    assert (use.steps.peak, use.beyond) == (2e12, 0)


def test_flops_in_a_slower_precision_need_more_than_at_the_peak(store: Store) -> None:
    slower = PEAK_F32._replace(name="peak.f64.512", precision="f64", value=1e12)
    A.greet(store)
    sent = training(WORKERS, stepping=(0, 1))
    for one in sent:
        del one.kernels[:]
        one.kernels.extend([kernel(3 * FLOPS, 100), kernel(FLOPS, 100, "f64")])
        began = zip(
            *(np.frombuffer(c, "<i8").tolist() for c in (one.calls.rank, one.calls.start_ns)), strict=True
        )
        both = [(r, which, at + which * 10 * MS, MS) for r, at in began for which in (0, 1)]
        one.calls.CopyFrom(calls(both))
    A.put(store, *sent)
    view = store.view("job", NEEDED)
    assert view
    every = (PEAK_F32, slower, DRAM)
    view = view._replace(machines={n: m._replace(ceilings=every) for n, m in view.machines.items()})
    found = efficiency(view, Subject("job", ALL_STEPS), ModelFlops())
    parts = {part.part: part.time.value for part in found.whole.waterfall}
    assert parts["useful"] == pytest.approx(4 * FLOPS / 2e12)
    # A quarter of the FLOPs has a peak of a quarter.
    assert parts["precision"] == pytest.approx(FLOPS / 0.5e12 - FLOPS / 2e12)


def test_what_recomputes_has_an_hfu_and_no_mfu(store: Store) -> None:
    found = answered(store, facts=[fact("setting.recompute=torch.utils.checkpoint", n) for n in (0, 1)])
    whole = values(found.whole)
    assert whole["mfu"].value is None and "torch.utils.checkpoint" in whole["mfu"].reason
    assert whole["hfu"].value == pytest.approx(2 * FLOPS / (STEP * 4e12))
    assert found.sentence == texts.unknown(whole["mfu"].reason)
    assert [part.part for part in found.whole.waterfall[:1]] == ["executed"]


def test_flops_that_are_given_are_the_models(store: Store) -> None:
    found = answered(store, flops_per_step=0.75 * FLOPS)
    whole = numbers(found.whole)
    assert whole["mfu"] == pytest.approx(0.75 * (whole["hfu"] or 0.0))
    parts = {part.part: part.time.value for part in found.whole.waterfall}
    assert parts["recompute"] == pytest.approx(0.25 * FLOPS / 2e12)
    assert values(found.whole)["mfu"].provenance == Provenance.REPORTED


@pytest.mark.parametrize(
    ("asked", "of_a_step"),
    [
        ({"flops_per_example": 1000.0}, 1000.0 * EXAMPLES),
        ({"parameters": 10.0, "tokens_per_example": 4.0}, 6 * 10 * 4 * EXAMPLES),
        (
            {"parameters": 10.0, "tokens_per_example": 4.0, "layers": 2.0, "hidden": 8.0},
            4 * (6 * 10 + 12 * 2 * 8 * 4) * EXAMPLES,
        ),
        (
            {"parameters": 10.0, "tokens_per_example": 4.0, "layers": 2.0, "hidden": 8.0, "causal": True},
            4 * (6 * 10 + 6 * 2 * 8 * 4) * EXAMPLES,
        ),
    ],
)
def test_flops_of_examples_and_of_transformers(store: Store, asked: dict[str, Any], of_a_step: float) -> None:
    assert numbers(answered(store, **asked).whole)["model_flops"] == pytest.approx(2 * of_a_step)


def test_a_model_of_more_flops_than_were_executed_is_doubted(store: Store) -> None:
    found = answered(store, flops_per_step=1.21 * FLOPS)
    assert f"worker:0: {texts.exceeds(1.21 * FLOPS, FLOPS)}" in found.notes
    assert "121%" in texts.exceeds(1.21 * FLOPS, FLOPS)


def test_the_rank_that_executed_too_little_is_named() -> None:
    """The others make up for it in the sum."""
    use = SimpleNamespace(
        exceeds=True,
        model=SimpleNamespace(value=1.5 * FLOPS),
        executed=SimpleNamespace(value=FLOPS),
        group=SimpleNamespace(who=SimpleNamespace(label="worker:1")),
    )
    other = SimpleNamespace(exceeds=False, model=use.executed, executed=SimpleNamespace(value=9 * FLOPS))
    uses: Any = [other, use]
    assert _exceeding(uses) == [f"worker:1: {texts.exceeds(1.5 * FLOPS, FLOPS)}"]
    assert _exceeding(uses[:1]) == []


def test_an_mfu_that_is_just_above_the_peak_reads_so() -> None:
    assert "an MFU of 100.4% is impossible" in texts.above_peak(1.004)


def test_more_than_the_peak_is_doubted_too(store: Store) -> None:
    """Its kernels take a microsecond a step, in which nothing does so much."""
    found = answered(store, flops_per_step=1.5 * STEP * 2e12)
    assert texts.above_peak(1.5) in found.notes
    assert any("the waterfall shows what fits" in note for note in found.notes)
    whole = {part.part: part.time.value or 0.0 for part in found.whole.waterfall}
    assert sum(whole.values()) == pytest.approx(STEP)


@pytest.mark.parametrize(("gpus", "part"), [(1, 2), (2, 1)])
def test_ranks_on_gpus_are_held_against_these_though_nobody_recorded_kernels(
    store: Store, gpus: int, part: int
) -> None:
    """What their CPUs execute meanwhile is not the training's."""
    of_gpus = [PEAK_F32._replace(name="peak.f32", device=f"gpu {k}", value=5e13) for k in range(gpus)]
    facts = [fact("setting.device=cuda", number) for number in (0, 1)]
    found = answered(store, facts=facts, ceilings=(*EVERY, *of_gpus), precision="f32", flops_per_step=1e9)
    assert [numbers(one)["peak"] for one in found.ranks] == [5e13 / part] * 2
    assert values(found.whole)["executed_flops"].reason == texts.NOT_OF_GPU
    assert numbers(found.whole)["mfu"] == pytest.approx(1e9 / (STEP * 5e13 / part))


def test_without_ceilings_or_flops_each_line_says_why(store: Store) -> None:
    found = answered(store, ceilings=())
    whole = values(found.whole)
    assert whole["mfu"].value is whole["peak"].value is whole["roofline_utilisation"].value is None
    assert "calibrate" in whole["mfu"].reason and found.sentence == texts.unknown(whole["mfu"].reason)
    assert whole["model_flops"].value == 2 * FLOPS
    assert sum(part.time.value or 0.0 for part in found.whole.waterfall) == pytest.approx(STEP)
    assert "useful" not in {part.part for part in found.whole.waterfall}


def test_kernels_of_unknown_flops_give_none(store: Store) -> None:
    whole = values(answered(store, [kernel(None, None)]).whole)
    assert whole["mfu"].value is None and "--model-flops" in whole["mfu"].reason
    assert whole["hfu"].value is None and whole["hfu"].reason


def test_the_precision_of_the_peak_can_be_named(store: Store) -> None:
    found = answered(store, [kernel(None, None)], flops_per_step=float(FLOPS), precision="bf16")
    assert found.whole.precision == "bf16"
    assert numbers(found.whole)["mfu"] == pytest.approx(2 * FLOPS / (STEP * 8e12))
    assert values(found.whole)["hfu"].value is None


def test_it_can_be_named_as_elsewhere(store: Store) -> None:
    found = answered(store, [kernel(None, None)], flops_per_step=float(FLOPS), precision="bfloat16")
    assert found.whole.precision == "bf16"
    with pytest.raises(BadRequest, match="'foo' is no precision"):
        answered(store, precision="foo")


def test_without_a_precision_there_is_no_peak(store: Store) -> None:
    whole = values(answered(store, [kernel(None, None)], flops_per_step=float(FLOPS)).whole)
    assert whole["peak"].value is None and "--precision" in whole["peak"].reason


def test_a_sparse_peak_is_shown_only_where_it_is_asked_for(store: Store) -> None:
    theory = THEORY._replace(precision="bf16", name="peak.bf16.theory", value=10e12)
    whole = numbers(
        answered(store, [kernel(FLOPS, 100, "bf16")], ceilings=(BF16, theory, DRAM), sparse=True).whole
    )
    assert whole["peak.sparse"] == 20e12
    assert whole["mfu.sparse"] == pytest.approx(2 * FLOPS / (STEP * 20e12))
    assert whole["mfu"] == pytest.approx(2 * FLOPS / (STEP * 8e12)), "that of the dense peak stays"


@pytest.mark.parametrize("precision", ["f8", "f8_e5m2"])
def test_one_kind_of_fp8_is_held_against_the_peak_of_another(store: Store, precision: str) -> None:
    known = BF16._replace(precision="f8_e4m3", name="peak.f8_e4m3")
    theory = THEORY._replace(precision="f8_e4m3", name="peak.f8_e4m3.theory", value=10e12)
    found = answered(store, [kernel(FLOPS, 100, precision)], ceilings=(known, theory, DRAM), sparse=True)
    whole = values(found.whole)
    assert (whole["peak"].value, whole["peak.sparse"].value) == (8e12, 20e12)
    assert "compared with the ceiling of FP8 e4m3" in whole["peak"].reason


def test_updates_of_a_parameter_server_are_no_flops_of_the_model(store: Store) -> None:
    served = [*WORKERS, rank(role="ps", pid=102)]
    updates = fact("update.ps:0=4000000/20000000/f32 SGD with momentum")
    found = answered(store, ranks=served, facts=[updates])
    assert [one.rank for one in found.ranks] == ["worker:0", "worker:1"]
    assert numbers(found.whole)["model_flops"] == 2 * FLOPS


def test_one_rank_can_be_asked_for(store: Store) -> None:
    found = answered(store, names=("worker:1",))
    assert [one.rank for one in found.ranks] == ["worker:1"]
    assert numbers(found.whole)["model_flops"] == FLOPS


def test_a_job_without_steps_has_no_waterfall(store: Store) -> None:
    found = answered(store, stepping=())
    assert (found.ranks, found.whole.waterfall) == ([], [])
    assert found.sentence.startswith("MFU is not known")
    assert all(one.value.reason for one in found.whole.measures if one.value.value is None)


@pytest.mark.parametrize(
    "asked",
    [
        {"flops_per_step": 0.0},
        {"flops_per_step": float("nan")},
        {"flops_per_example": -1.0},
        {"flops_per_step": 1.0, "flops_per_example": 1.0},
        {"flops_per_step": 1.0, "parameters": 1.0, "tokens_per_example": 1.0},
        {"parameters": 1.0},
        {"tokens_per_example": 1.0},
        {"parameters": 1.0, "tokens_per_example": 1.0, "layers": 1.0},
        {"parameters": 1.0, "tokens_per_example": 1.0, "causal": True},
        {"causal": True},
    ],
)
def test_models_that_cannot_be(store: Store, asked: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        answered(store, **asked)


def test_a_number_that_cannot_be_is_named(store: Store) -> None:
    with pytest.raises(BadRequest, match=r"^parameters = -1: must be more than 0"):
        answered(store, parameters=-1.0, tokens_per_example=1.0)
