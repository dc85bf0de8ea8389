from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline.answers.values import Provenance, Scope, Value
from roofline_server.model.evidence import (
    CountedFlops,
    CounterEvidence,
    RankEvidence,
    StepEvidence,
)
from roofline_server.model.roofline.roofs import limits
from roofline_server.model.roofline.summary import placed, summarize
from roofline_server.model.roofline.work import dominant_precision
from roofline_server.model.times import union_seconds
from roofline_server.records import ABSENT
from roofline_server.sentences import rooflines as texts

from ...builders import DRAM, PEAK_F32, S
from ..evidence import NODE1, NODE2, NONE, evidence, ints, kernels, number, of, steps

# -- steps -----------------------------------------------------------------------------------------


def test_step_times_are_median_and_95th_percentile() -> None:
    found = of(evidence(steps=steps(*((k, 100 * k, 100 * k + k) for k in range(1, 101)))))
    assert number(found["steps"]) == 100
    assert number(found["step_time_median"]) == pytest.approx(50.5)
    assert number(found["step_time_p95"]) == pytest.approx(95.05)


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=50))
def test_quantiles_of_step_times_are_numpys(lasted: list[int]) -> None:
    ends = ints(*lasted)
    some = StepEvidence(ints(*range(len(ends))), ends * 0, ends, ends * 0)
    values = of(evidence(steps=some))
    assert values["step_time_median"].value == np.median(ends / 1e9)
    assert values["step_time_p95"].value == np.percentile(ends / 1e9, 95)


def test_no_steps_is_zero_steps_and_no_step_time() -> None:
    found = of(evidence(steps=NONE, reasons={"steps": "it was not asked"}))
    assert found["steps"].value == 0
    assert found["step_time_median"] == Value(None, "s", reason="it was not asked")


def test_throughput_is_examples_over_the_time_of_the_steps() -> None:
    found = of(evidence())["examples_per_second"]
    assert number(found) == pytest.approx(320 / 9.9)
    assert (found.unit, found.provenance, found.coverage) == ("examples/s", Provenance.REPORTED, 1)


def test_time_in_which_steps_are_missing_does_not_count() -> None:
    gap = steps((0, 0, 1), (1, 1, 2), (100, 500, 501), (101, 501, 502))
    assert number(of(evidence(steps=gap))["examples_per_second"]) == pytest.approx(4 * 32 / 4)


def test_pauses_between_consecutive_steps_do_count() -> None:
    assert number(of(evidence(steps=steps((0, 0, 1), (1, 3, 4))))["examples_per_second"]) == pytest.approx(
        64 / 4
    )


def test_throughput_of_a_role_adds_up_over_the_same_time() -> None:
    assert number(of(evidence(), evidence(key="worker:1"))["examples_per_second"]) == pytest.approx(640 / 9.9)


def test_throughput_needs_examples() -> None:
    found = of(evidence(steps=steps((0, 0, 1), examples=ABSENT)))["examples_per_second"]
    assert found.value is None
    assert "examples" in found.reason


def test_steps_without_examples_do_not_lower_the_throughput() -> None:
    half = steps(*((k, k, k + 1) for k in range(10)), examples=[32, ABSENT] * 5)
    found = of(evidence(steps=half))["examples_per_second"]
    assert found.coverage == 0.5
    assert number(found) == pytest.approx(32)


def test_serving_rank_has_no_throughput_of_its_own() -> None:
    found = of(evidence(serving=True))["examples_per_second"]
    assert (found.value, found.reason) == (None, "n/a: processes no batches")


def test_stretches_end_where_a_number_is_missing() -> None:
    assert steps((1, 0, 1), (2, 1, 2), (4, 3, 4), (4, 5, 6), (5, 6, 7)).runs.tolist() == [
        [0, 2 * S],
        [3 * S, 4 * S],
        [5 * S, 7 * S],
    ]
    assert NONE.runs.tolist() == []


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=12))
def test_union_is_as_long_as_the_moments_it_holds(found: list[tuple[int, int]]) -> None:
    moments = {t for begin, length in found for t in range(begin, begin + length)}
    stretches = [np.array([[b * S, (b + n) * S]], np.int64) for b, n in found]
    assert union_seconds(stretches) == pytest.approx(len(moments))


# -- work ------------------------------------------------------------------------------------------


def shifted(seconds: float, **known: Any) -> RankEvidence:
    """Ten steps of 1 s, back to back, that begin so late."""
    return evidence(steps=steps(*((k, k + seconds, k + seconds + 1) for k in range(10))), **known)


COUNTED_AS_KERNELS = CountedFlops(CounterEvidence(1000.0, 10.0, 10, 100.0))


@pytest.mark.parametrize("name", ["flops_per_second", "flops_per_second.measured"])
@pytest.mark.parametrize(
    ("late", "together"), [(0, 200), (0.5, 2000 / 10.5), (5, 2000 / 15), (10, 100), (1000, 100)]
)
def test_flops_of_a_role_are_over_the_same_time_as_its_examples(
    name: str, late: float, together: float
) -> None:
    both = [
        shifted(seconds, kernels=kernels([100] * 10), counted_flops=COUNTED_AS_KERNELS)
        for seconds in (0.0, late)
    ]
    found = of(*both)
    assert number(found[name]) == pytest.approx(together)
    assert number(found["examples_per_second"]) * 100 / 32 == pytest.approx(together)
    assert ("different times" in found[name].reason) == (late > 1)


def test_one_step_of_a_rank_does_not_count_as_if_it_had_gone_on() -> None:
    one = evidence(steps=steps((0, 0, 2)), kernels=kernels([100], seconds=2))
    ten = shifted(0.0, kernels=kernels([100] * 10))
    found = of(ten, one)["flops_per_second"]
    assert number(found) == pytest.approx(100 + 100 / 10)


def test_rates_of_ranks_without_steps_add_up() -> None:
    whole = evidence(steps=NONE, kernels=kernels([1000], seconds=10))
    assert number(of(whole, whole)["flops_per_second"]) == pytest.approx(200)
    assert number(of(whole, shifted(0.0, kernels=kernels([100] * 10)))["flops_per_second"]) == pytest.approx(
        200
    )


def test_steps_watched_in_part_count_with_their_rate_for_all() -> None:
    half = kernels([100] * 10)
    half.complete[5:] = False
    found = of(shifted(0.0, kernels=half), shifted(10.0, kernels=kernels([100] * 10)))["flops_per_second"]
    assert number(found) == pytest.approx(100)


def test_traffic_energy_and_cpu_time_of_a_role_are_over_the_same_time() -> None:
    known = CounterEvidence(50.0, 10.0, 10, 5.0)
    both = [
        shifted(seconds, dram=known, energy=known, sent=known, kernels=kernels([100] * 10))
        for seconds in (0.0, 10.0)
    ]
    found = of(*both)
    for name in ("dram_bytes_per_second", "power", "sent_bytes_per_second"):
        assert number(found[name]) == pytest.approx(5), name
    energy = number(found["flops_per_second"]) / number(found["power"])
    assert energy == pytest.approx(number(found["flops_per_joule"]))


def test_work_is_per_complete_step() -> None:
    some = kernels([100, 200, 300, 900], [10, 20, 30, 90], complete=True)
    some.complete[3] = False
    found = of(evidence(kernels=some))
    assert number(found["flops_per_step"]) == 200
    assert number(found["flops_per_second"]) == pytest.approx(200)
    assert number(found["bytes_per_step.minimum"]) == 20
    assert number(found["intensity.minimum"]) == pytest.approx(10)
    assert number(found["kernel_time_per_step"]) == pytest.approx(0.5)
    assert found["flops_per_step"].coverage == pytest.approx(0.75)
    assert found["flops_per_step"].provenance == Provenance.ANALYTIC


def test_flops_without_kernels_are_absent_and_say_why() -> None:
    found = of(evidence(reasons={"flops": "not wrapped"}))
    for name in ("flops_per_step", "flops_per_second", "intensity.minimum", "roof_share"):
        assert (found[name].value, found[name].reason) == (None, "not wrapped"), name


def test_step_nobody_watched_whole_has_no_flops() -> None:
    found = of(evidence(kernels=kernels([100], complete=False)))
    assert found["flops_per_step"].value is None
    assert "watched" in found["flops_per_step"].reason


def test_step_without_traffic_has_no_intensity_and_no_roof_share() -> None:
    found = of(evidence(kernels=kernels([100], [0])))
    assert number(found["flops_per_step"]) == 100
    for name in ("intensity.minimum", "attainable_flops_per_second", "roof_share"):
        assert found[name].value is None


def test_absent_roof_share_of_steps_without_traffic_has_a_reason() -> None:
    found = of(evidence(kernels=kernels([100], [0])))
    assert found["roof_share"].reason
    assert "no kernels" not in found["intensity.minimum"].reason


def test_operations_nobody_modelled_are_said() -> None:
    assert "not counted" in of(evidence(kernels=kernels([1], unmodelled=ints(3))))["flops_per_step"].reason


def test_flops_per_second_of_a_role_is_the_sum_of_its_ranks() -> None:
    ranks = [evidence(kernels=kernels([100, 300])), evidence(kernels=kernels([50], seconds=0.5))]
    each = [number(of(rank)["flops_per_second"]) for rank in ranks]
    assert number(of(*ranks)["flops_per_second"]) == pytest.approx(sum(each))
    assert number(of(*ranks)["flops_per_step"]) == 100


def test_flops_without_bytes_raise_no_intensity() -> None:
    known = evidence(kernels=kernels([10**10] * 10, [10**9] * 10))
    unknown = evidence(
        key="worker:1", kernels=kernels([10**10] * 10, has_bytes=False)._replace(bytes=ints(*[0] * 10))
    )
    found = of(known, unknown, scope=Scope.ROLE)
    assert number(found["intensity.minimum"]) == 10
    assert (
        "no bytes are known for kernels with 50% of the FLOPs: left out" in found["intensity.minimum"].reason
    )
    assert number(found["flops_per_second"]) == 2 * 10**10


def test_flops_of_a_long_job_do_not_overflow() -> None:
    # 9e12 FLOPs a step, 1.1 million steps over all ranks.
    found = of(evidence(kernels=kernels([9 * 10**18, 9 * 10**18], [10**9, 10**9])))
    assert number(found["intensity.minimum"]) == pytest.approx(9e9)
    assert number(found["flops_per_second"]) == pytest.approx(9e18)


def of_precisions(total: int, **each: int) -> RankEvidence:
    return evidence(kernels=kernels([total], by_precision={name: ints(n) for name, n in each.items()}))


def test_precision_of_most_flops_dominates() -> None:
    assert dominant_precision([evidence(kernels=kernels([100]))]) == "f32"
    assert dominant_precision([of_precisions(100, f64=60)]) == "f64"
    assert dominant_precision([of_precisions(100, f32=40, f64=50)]) == ""
    assert dominant_precision([of_precisions(100, bf16=90, f32=10)]) == "bf16"
    assert dominant_precision([of_precisions(100, f32=100), of_precisions(300, f8_e4m3=300)]) == "f8_e4m3"
    assert dominant_precision([]) == dominant_precision([evidence()]) == ""


def test_precision_of_counted_flops_is_that_of_the_events() -> None:
    def counted(**by: float) -> RankEvidence:
        total = counter(sum(by.values()), 1, 1, 1)
        return evidence(counted_flops=CountedFlops(total, by={k.replace("_", "."): v for k, v in by.items()}))

    assert dominant_precision([counted(f32_256=30, f32_scalar=30, f64_512=40)]) == "f32"
    assert dominant_precision([counted(all_all=100)]) == ""  # these events do not tell precisions apart


# -- against the roof ------------------------------------------------------------------------------


def test_share_of_the_roof_is_what_was_reached_of_what_could_be() -> None:
    found = summarize([evidence(kernels=kernels([10**10], [10**9]))], [NODE1], Scope.PROCESS)
    assert number(found.values["attainable_flops_per_second"]) == pytest.approx(1e12)  # 10 FLOP/byte x 1e11
    assert number(found.values["roof_share"]) == pytest.approx(0.01)
    assert (found.bound, found.bound_reason) == ("dram.triad", "")


def test_much_work_on_few_bytes_is_bound_by_compute() -> None:
    assert (
        summarize([evidence(kernels=kernels([10**10], [10**6]))], [NODE1], Scope.PROCESS).bound
        == "peak.f32.512"
    )


def test_role_on_two_nodes_has_the_roof_of_both() -> None:
    ranks = [evidence(kernels=kernels([10**10], [10**9]), host=host) for host in ("node1", "node2")]
    found = of(*ranks, limits=[NODE1, NODE2])
    assert number(found["attainable_flops_per_second"]) == pytest.approx(2e12)
    assert number(found["roof_share"]) == pytest.approx(0.01)


def test_ranks_of_one_node_share_its_roof() -> None:
    ranks = [evidence(kernels=kernels([10**10], [10**9])) for _ in range(4)]
    assert number(of(*ranks)["roof_share"]) == pytest.approx(0.04)


def test_node_without_ceilings_has_no_roof_and_says_what_to_do() -> None:
    bare = limits("node1", "", [], "f32")
    found = summarize([evidence(kernels=kernels([100]))], [bare], Scope.PROCESS)
    assert found.values["roof_share"].value is None
    assert (found.bound, "calibrate" in found.bound_reason) == ("", True)


def test_precision_without_ceiling_is_the_reason() -> None:
    bf16 = limits("node1", "", [PEAK_F32, DRAM], "bf16")
    found = summarize([evidence(kernels=kernels([100]))], [bf16], Scope.PROCESS)
    assert texts.no_compute_ceiling("node1", "", "bf16") in found.bound_reason


# -- resources -------------------------------------------------------------------------------------


def counter(total: float, seconds: float, windows: int, per_window: float) -> CounterEvidence:
    return CounterEvidence(total, seconds, windows, per_window)


def test_counters_are_shown_per_step_and_per_second() -> None:
    found = of(evidence(cpu_ns=counter(8 * S, 4, 10, 0.5 * S), sent=counter(400, 4, 10, 30)))
    assert number(found["cpu_time_per_step"]) == pytest.approx(0.5)
    assert number(found["cpu_utilization"]) == pytest.approx(2)
    assert number(found["sent_bytes_per_step"]) == 30
    assert number(found["sent_bytes_per_second"]) == pytest.approx(100)
    assert found["cpu_time_per_step"].coverage == 1


def test_per_step_value_of_a_role_is_the_mean_over_all_steps_of_its_ranks() -> None:
    found = of(evidence(sent=counter(0, 1, 30, 10)), evidence(sent=counter(0, 1, 10, 50)))
    assert number(found["sent_bytes_per_step"]) == pytest.approx(20)


def test_rates_of_a_role_add_up() -> None:
    found = of(evidence(sent=counter(100, 1, 1, 1)), evidence(sent=counter(100, 2, 1, 1)))
    assert number(found["sent_bytes_per_second"]) == pytest.approx(150)


def test_server_shares_its_total_over_the_steps_it_served() -> None:
    found = of(evidence(serving=True, sent=counter(1000, 10, 10, 500)))
    assert number(found["sent_bytes_per_step"]) == pytest.approx(100)


def test_server_read_in_half_of_the_steps_shares_over_that_half() -> None:
    found = of(evidence(serving=True, sent=counter(500, 5, 5, 100)))["sent_bytes_per_step"]
    assert found.coverage == 0.5
    assert number(found) == pytest.approx(100)


def test_counter_nobody_read_is_absent_and_says_why() -> None:
    found = of(evidence(reasons={"tcp": "no netlink", "cpu": "gone"}))
    assert found["sent_bytes_per_step"] == Value(None, "byte", reason="no netlink")
    assert found["cpu_utilization"] == Value(None, "1", reason="gone")
    assert found["memory_peak"] == Value(None, "byte", reason="gone")


def test_counter_that_meets_no_step_has_a_rate_only() -> None:
    found = of(evidence(cpu_ns=counter(S, 2, 0, float("nan"))))
    assert number(found["cpu_utilization"]) == pytest.approx(0.5)
    assert (found["cpu_time_per_step"].value, found["cpu_time_per_step"].reason) == (
        None,
        "no step lies between two samples",
    )


def test_memory_peak_is_the_largest_of_the_ranks() -> None:
    assert number(of(evidence(rss_peak=5.0), evidence(rss_peak=9.0))["memory_peak"]) == 9


def test_values_between_rare_samples_are_called_blurred() -> None:
    rare = of(evidence(samples_per_step=0.5, sent=counter(1, 1, 1, 1)))["sent_bytes_per_step"]
    assert "interpolated" in rare.reason
    dense = of(evidence(samples_per_step=3.0, sent=counter(1, 1, 1, 1)))["sent_bytes_per_step"]
    assert dense.reason == ""


@pytest.mark.parametrize(
    "known", [{}, {"steps": NONE}, {"kernels": kernels([0])}, {"serving": True}, {"kernels": kernels([])}]
)
def test_every_absent_value_has_a_reason_and_a_unit(known: dict[str, Any]) -> None:
    for name, found in of(evidence(**known), limits=[]).items():
        assert found.unit, name
        if found.value is None:
            assert found.reason, name
            assert found.coverage is None, name


# -- DRAM traffic ------------------------------------------------------------------------------------


def test_profiled_traffic_is_measured_and_puts_the_rank_on_the_roof() -> None:
    profiled = evidence(kernels=kernels([1000, 3000], dram=ints(100, 300)))
    found = of(profiled)
    assert number(found["bytes_per_step.dram"]) == 200
    assert number(found["intensity.dram"]) == 10
    assert found["bytes_per_step.dram"].provenance == Provenance.MEASURED
    assert found["intensity.dram"].provenance == Provenance.ESTIMATED
    on_gpu = of(evidence(kernels=kernels([1000, 3000], dram=ints(100, 300), on_gpu=True, counted=True)))
    assert on_gpu["intensity.dram"].provenance == Provenance.MEASURED
    assert placed([profiled], found)[0] == "dram"


def test_one_call_that_no_profiler_saw_makes_no_sum() -> None:
    some = evidence(kernels=kernels([1000, 3000], dram=ints(100, ABSENT)))
    found = of(some)
    assert found["bytes_per_step.dram"].value is None
    assert placed([some], found)[0] == "minimum"


def test_kernels_of_a_whole_run_have_rates_but_nothing_per_step() -> None:
    whole = evidence(
        steps=NONE, kernels=kernels([5000], seconds=2, dram=ints(50)), reasons={"steps": "it was a file"}
    )
    found = of(whole)
    assert number(found["flops_per_second"]) == 2500
    assert number(found["intensity.minimum"]) == 50
    assert number(found["intensity.dram"]) == 100
    for name in ("flops_per_step", "bytes_per_step.minimum", "kernel_time_per_step"):
        assert found[name] == Value(None, found[name].unit, reason="it was a file"), name


def test_node_traffic_is_labelled_as_shared() -> None:
    found = of(evidence(kernels=kernels([1000]), dram=CounterEvidence(400.0, 2.0, 1, 100.0)))
    assert number(found["bytes_per_step.dram"]) == 100
    assert number(found["dram_bytes_per_second"]) == 200
    assert found["bytes_per_step.dram"].provenance == Provenance.ESTIMATED
    assert "CPU time" in found["bytes_per_step.dram"].reason


def test_flops_over_bytes_and_joules_are_means_as_these_are() -> None:
    shared = CounterEvidence(1000.0, 10.0, 10, 100.0)
    found = of(evidence(kernels=kernels([100] * 9 + [9100]), dram=shared, energy=shared))
    assert (number(found["intensity.dram"]), number(found["flops_per_joule"])) == (10, 10)
    assert number(found["flops_per_step"]) == 100


def test_kernels_of_a_gpu_are_measured_and_held_against_its_memory() -> None:
    on_gpu = evidence(kernels=kernels([10**10], dram=ints(10**9), on_gpu=True, counted=True))
    found = of(on_gpu)
    assert found["flops_per_second"].provenance == Provenance.MEASURED
    assert found["bytes_per_step.minimum"].provenance == Provenance.ANALYTIC
    by_shapes = of(evidence(kernels=kernels([10**10], on_gpu=True)))
    assert by_shapes["flops_per_second"].provenance == Provenance.ANALYTIC
    assert placed([on_gpu], found)[0] == "hbm"
    assert found["roof_share"].value is None
    assert "no HBM bandwidth of node1" in found["roof_share"].reason
    hbm = DRAM._replace(name="hbm.read", level="hbm", value=1e12, device="gpu 0")
    gpu = limits("node1", "gpu 0", [PEAK_F32._replace(device="gpu 0"), hbm], "f32")
    assert number(of(on_gpu, limits=[gpu])["roof_share"]) == pytest.approx(1e10 / 4e12)
    assert number(found["intensity.dram"]) == 10


def test_flops_nobody_knows_are_absent_not_zero() -> None:
    found = of(evidence(kernels=kernels([0, 0], has_flops=False, has_bytes=False)))
    for name in ("flops_per_step", "flops_per_second", "bytes_per_step.minimum", "intensity.minimum"):
        assert found[name].value is None, name
        assert found[name].reason == "the FLOPs of its kernels are not known", name
    assert number(found["kernel_time_per_step"]) == 0.5


# -- counted FLOPs -----------------------------------------------------------------------------------


def counted(**more: Any) -> RankEvidence:
    return evidence(counted_flops=CountedFlops(CounterEvidence(1000.0, 10.0, 10, 100.0), **more))


def test_multiplexed_flops_say_what_share_of_the_time_was_counted() -> None:
    found = of(counted(coverage=0.5))["flops_per_step.measured"]
    assert (found.value, found.provenance, found.coverage) == (100, Provenance.MEASURED, 0.5)
    assert "multiplexed" in found.reason
    whole = of(counted(coverage=1.0))["flops_per_step.measured"]
    assert (whole.coverage, whole.reason) == (1.0, "")


def test_flops_beside_a_busy_matrix_unit_are_flagged() -> None:
    assert "AMX" in of(counted(amx_busy=True))["flops_per_second.measured"].reason
    assert "AMX" not in of(counted())["flops_per_second.measured"].reason


def test_speculative_counts_are_estimates() -> None:
    assert of(counted(estimated=True))["flops_per_step.measured"].provenance == Provenance.ESTIMATED


def test_cache_misses_are_labelled_as_a_lower_bound() -> None:
    found = of(
        evidence(kernels=kernels([1000]), dram=CounterEvidence(400.0, 2.0, 1, 100.0), dram_is_bound=True)
    )
    assert "lower bound" in found["bytes_per_step.dram"].reason
    assert "upper bound" in found["intensity.dram"].reason
