from __future__ import annotations

from typing import Any

import pytest
from roofline.answers.values import Provenance, Scope, Value
from roofline_server.correlate.parts import PartTotal
from roofline_server.model.evidence import CounterEvidence
from roofline_server.model.roofline.summary import summarize
from roofline_server.records import NODE_RANK, Incarnation, Lifetime, Metric, RankKey
from roofline_server.report.evidence.energy import with_gpus
from roofline_server.sentences.origins import GPU_AND_CPUS
from roofline_server.store.view import JobView

from ...model.evidence import NONE, evidence, kernels, number


def joules(rank: int, instance: str, grown: float | None, counter_set: str = "gpu") -> PartTotal:
    name = "energy_joules" if counter_set == "gpu" else "power_watts"
    return PartTotal(
        rank,
        1,
        instance,
        Metric(counter_set, name, 1, "J", Scope.GPU, Provenance.MEASURED, True, ""),
        10.0,
        grown,
    )


def view(*parts: PartTotal) -> JobView:
    ranks = {n: RankKey("job", "worker", n) for n in (1, 2)}
    return JobView("job", ranks, {}, {}, {}, {}, {}, {}, {}, {}, parts)


def summed(parts: list[PartTotal], **known: Any) -> dict[str, Value]:
    found = with_gpus(view(*parts), {1: evidence(kernels=kernels([9 * 10**9] * 10), **known)})
    return summarize([found[1]], [], Scope.PROCESS).values


def test_energy_of_a_gpu_is_that_of_the_rank_it_carries() -> None:
    found = summed([joules(1, "gpu 0", 3000.0), joules(2, "gpu 1", 9000.0), joules(NODE_RANK, "gpu 2", 5.0)])
    # 300 W, in steps of 0.9 s with 9 GFLOP each.
    assert number(found["power"]) == pytest.approx(300)
    assert number(found["energy_per_step"]) == pytest.approx(270)
    assert number(found["flops_per_joule"]) == pytest.approx(9e9 / 270)
    assert "GPU's alone" in found["flops_per_joule"].reason


def test_energy_of_the_cpus_is_added() -> None:
    found = summed([joules(1, "gpu 0", 3000.0)], energy=CounterEvidence(990.0, 9.9, 10, 90.0))
    assert number(found["power"]) == pytest.approx(400)
    assert number(found["energy_per_step"]) == pytest.approx(90 + 270)
    assert GPU_AND_CPUS in found["power"].reason


def test_gpus_of_one_rank_add_up() -> None:
    assert number(summed([joules(1, "gpu 0", 3000.0), joules(1, "gpu 1", 1000.0)])["power"]) == pytest.approx(
        400
    )


def test_gpu_on_which_a_rank_was_for_a_moment_adds_its_joules_and_not_its_power() -> None:
    passing = joules(1, "gpu 0", 60.0)._replace(seconds=0.1)
    assert number(summed([passing, joules(1, "gpu 1", 3000.0)])["power"]) == pytest.approx(306)


def test_rank_on_one_gpu_after_the_other_has_the_power_of_one() -> None:
    parts = [joules(1, "gpu 0", 3000.0), joules(1, "gpu 1", 3000.0)]
    life = Lifetime(0, 21 * 10**9, True)
    after = view(*parts)._replace(process_lifetimes={Incarnation(1, 1, 100, 0, "python", 2, ""): life})
    (found,) = with_gpus(after, {1: evidence(kernels=kernels([9 * 10**9] * 10))}).values()
    assert found.energy is not None
    assert found.energy.total / found.energy.seconds == pytest.approx(300)


@pytest.mark.parametrize(
    "part", [joules(1, "gpu 0", None), joules(2, "gpu 0", 3000.0), joules(1, "gpu 0", 9.0, "x")]
)
def test_without_a_reading_there_is_no_energy(part: PartTotal) -> None:
    found = summed([part], reasons={"energy": "rapl: no such file"})
    for name in ("power", "energy_per_step", "flops_per_joule"):
        assert (found[name].value, found[name].reason) == (None, "rapl: no such file"), name


def test_rank_without_steps_has_power_but_nothing_per_step() -> None:
    found = summed([joules(1, "gpu 0", 3000.0)], steps=NONE)
    assert number(found["power"]) == pytest.approx(300)
    assert found["energy_per_step"].value is None and found["energy_per_step"].reason


@pytest.mark.parametrize("cpus", [None, CounterEvidence(90.0, 9.9, 10, 9.0)])
def test_flops_of_a_gpu_go_with_the_energy_of_the_gpu(cpus: CounterEvidence | None) -> None:
    rank = evidence(kernels=kernels([9 * 10**9] * 10, on_gpu=True), energy=cpus)
    for parts, known in (([joules(1, "gpu 0", 3000.0)], True), ([], False)):
        (found,) = with_gpus(view(*parts), {1: rank}).values()
        ratio = summarize([found], [], Scope.PROCESS).values["flops_per_joule"].value
        assert (ratio is not None) == known
        assert not known or ratio == pytest.approx(9e9 / (270 + (9 if cpus else 0)))
