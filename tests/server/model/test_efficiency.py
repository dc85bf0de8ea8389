"""MFU by golden numbers, also against the errors that are made with it, and laws of the waterfall."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.model.efficiency import (
    Needs,
    RankSteps,
    Transformer,
    exceeds_executed,
    flops_per_example,
    flops_per_token,
    mean_waterfall,
    sparse_peak,
    utilisation_of,
    waterfall,
)


def gpt(hidden: float, layers: float, tokens: float, causal: bool, vocabulary: float = 0.0) -> Transformer:
    """12 L H^2 parameters of its layers, and those of the layer that gives the output."""
    return Transformer(12 * layers * hidden**2 + vocabulary * hidden, tokens, layers, hidden, causal)


def utilisation(flops: float, seconds: float, peak: float) -> float | None:
    """Of one rank in one step."""
    return utilisation_of([RankSteps(seconds, 1, {}, model=flops, peak=peak)], "model")


# -- FLOPs of models --------------------------------------------------------------------------------------


def test_palm_by_its_own_numbers() -> None:
    """PaLM 540B (Chowdhery et al. 2022, section 4.1): 118 layers, 48 heads of 256, 2048 tokens; 238.3 K
    tokens/s on 6144 TPU v4 of 275 TFLOP/s are an MFU of 46.2 % with attention and 45.7 % without."""
    peak, rate = 6144 * 275e12, 238.3e3
    with_attention = flops_per_token(Transformer(540.35e9, 2048, 118, 48 * 256))
    assert with_attention * rate / peak == pytest.approx(0.462, abs=0.0015)
    assert flops_per_token(Transformer(540.35e9, 2048)) * rate / peak == pytest.approx(0.457, abs=0.0015)


@pytest.mark.parametrize(("hidden", "layers", "tokens"), [(12288, 96, 2048), (2304, 24, 2048)])
def test_the_same_as_megatron_counts(hidden: int, layers: int, tokens: int) -> None:
    """Korthikanti et al. 2022, appendix A: 72 L s h^2 (1 + s / (6 h) + V / (12 L h)) a sequence."""
    v = 51200
    megatron = 72 * layers * tokens * hidden**2 * (1 + tokens / (6 * hidden) + v / (12 * layers * hidden))
    assert flops_per_example(gpt(hidden, layers, tokens, False, v)) == pytest.approx(megatron)


def test_factors_are_6_a_parameter_and_12_or_6_of_attention() -> None:
    assert flops_per_token(Transformer(1, 1)) == 6, "2 forward, 4 backward"
    assert flops_per_token(Transformer(0, 7, 3, 5)) == 12 * 3 * 5 * 7
    assert flops_per_token(Transformer(0, 7, 3, 5, causal=True)) == 6 * 3 * 5 * 7


def test_scores_that_a_kernel_computes_again_are_executed_and_not_the_models() -> None:
    """Flash attention: seven products where the model has six, a factor of 7 and no 6 of causal attention."""
    model = flops_per_token(Transformer(0, 4096, 32, 4096, causal=True))
    executed = 7 * 32 * 4096 * 4096
    assert utilisation(executed, 1.0, executed) == 1.0
    assert utilisation(model, 1.0, executed) == pytest.approx(6 / 7)


# -- errors that are made ---------------------------------------------------------------------------------


def test_causal_attention_in_full_would_be_121_percent() -> None:
    """A kernel at its peak that computes no masked scores: H 4096, 32 layers, 13,056 tokens."""
    once = flops_per_example(gpt(4096, 32, 13056, causal=True))
    full = flops_per_example(gpt(4096, 32, 13056, causal=False))
    assert utilisation(once, 1.0, once) == 1.0
    assert utilisation(full, 1.0, once) == pytest.approx(1.21, abs=0.001)
    assert exceeds_executed(full, once) and not exceeds_executed(once, once)


def test_a_model_that_is_no_transformer_would_be_133_percent_by_6_n() -> None:
    """The classifier of examples/torch_ddp, 246 wide: gradients of its input are not computed, and three
    quarters of its parameters are in that layer."""
    first, rest = 768 * 246, 246 * 246 + 246 * 10
    executed = 2 * (2 * first + 3 * rest)
    by_six = flops_per_token(Transformer(first + rest, 1))
    assert utilisation(by_six, 1.0, executed) == pytest.approx(4 / 3)
    assert exceeds_executed(by_six, executed)


def test_6_n_misses_what_a_convolution_uses_again() -> None:
    """64 filters of 3 x 3 x 64 over 56 x 56 pixels: each weight is used 3,136 times an example."""
    weights = 64 * 64 * 9
    assert 3 * 2 * weights * 56 * 56 == 3136 * flops_per_token(Transformer(weights, 1))


def test_what_is_recomputed_is_executed_and_not_useful() -> None:
    """Full activation checkpointing: 8 N executed of which 6 N are the model's (Korthikanti et al. 2022)."""
    n, seconds, peak = 1e9, 1.0, 1e10
    assert utilisation(8 * n, seconds, peak) == 0.8
    assert utilisation(flops_per_token(Transformer(n, 1)), seconds, peak) == 0.6


def test_a_sparse_peak_is_twice_the_dense_one() -> None:
    """H100 SXM, BF16: 989.4 TFLOP/s dense, 1,978.9 sparse (NVIDIA's white paper), which halves MFU."""
    dense = 989.4e12
    sparse = sparse_peak(dense, "bf16")
    assert sparse == pytest.approx(1978.9e12, rel=1e-4)
    assert utilisation(400e12, 1.0, dense) == pytest.approx(0.404, abs=5e-4)
    assert utilisation(400e12, 1.0, sparse) == pytest.approx(0.202, abs=5e-4)
    assert sparse_peak(67e12, "f32") is None and sparse_peak(67e12, "f64") is None


def test_no_time_or_peak_gives_no_utilisation() -> None:
    assert utilisation(1.0, 0.0, 1.0) is None
    assert utilisation(1.0, 1.0, 0.0) is None


# -- the waterfall ----------------------------------------------------------------------------------------

ACCOUNT = {"input": 1.0, "compute": 6.0, "host": 2.0, "transfer": 0.5, "wait_ranks": 0.5}


def test_each_need_adds_to_the_ones_before() -> None:
    found = waterfall(ACCOUNT, Needs(2.0, 3.0, 3.5, 4.5, 0.75))
    assert found.parts == {
        "useful": 2.0,
        "recompute": 1.0,
        "precision": 0.5,
        "memory": 1.0,
        "launch": 0.75,
        "kernels": 1.5,
        "input": 1.0,
        "host": 1.25,
        "transfer": 0.5,
        "wait_ranks": 0.5,
    }
    assert found.beyond == 0


def test_what_is_not_known_has_no_part() -> None:
    assert waterfall(ACCOUNT, Needs()).parts == ACCOUNT
    found = waterfall(ACCOUNT, Needs(useful=2.0)).parts
    assert (found["useful"], found["kernels"]) == (2.0, 4.0)
    assert not found.keys() & {"recompute", "precision", "memory", "launch", "compute"}


def test_executed_flops_stand_for_the_models_where_those_are_not_known() -> None:
    found = waterfall(ACCOUNT, Needs(executed=3.0)).parts
    assert (found["executed"], found["kernels"]) == (3.0, 3.0)
    assert not found.keys() & {"useful", "recompute"}


def test_memory_that_needs_less_than_the_flops_costs_nothing() -> None:
    assert waterfall(ACCOUNT, Needs(useful=4.0, memory=3.0)).parts["memory"] == 0


def test_computation_that_is_not_told_from_others_is_divided_too() -> None:
    found = waterfall({"compute|host": 5.0, "wait_ps": 1.0}, Needs(useful=2.0)).parts
    assert found == {"useful": 2.0, "compute|host": 3.0, "wait_ps": 1.0}


def test_who_shares_a_place_has_it_in_turns() -> None:
    """Two ranks compute for a second each with the whole place: at half of it that takes two seconds each."""
    account = {"compute": 1.0, "contention": 1.5, "host": 0.5}
    found = waterfall(account, Needs(useful=2.0), shared=True)
    assert found.parts == {"useful": 2.0, "kernels": 0.0, "contention": 0.5, "host": 0.5}
    assert found.beyond == 0
    alone = waterfall(account, Needs(useful=2.0))
    assert (alone.parts["contention"], alone.beyond) == (1.5, 1.0)


def test_more_flops_than_time_is_said() -> None:
    found = waterfall({"compute": 1.0, "host": 1.0}, Needs(useful=1.5))
    assert found.parts == {"useful": 1.0, "kernels": 0.0, "host": 1.0}
    assert found.beyond == 0.5


SECONDS = st.floats(0, 1e3)
MAYBE = st.none() | SECONDS
PARTS = ("input", "compute", "compute|host", "host|blocked", "contention", "transfer", "other")


@given(
    st.dictionaries(st.sampled_from(PARTS), SECONDS),
    st.builds(Needs, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE),
    st.booleans(),
)
def test_a_waterfall_adds_up_to_its_account(account: dict[str, float], needs: Needs, shared: bool) -> None:
    found = waterfall(account, needs, shared)
    assert math.isclose(sum(found.parts.values()), sum(account.values()), abs_tol=1e-9, rel_tol=1e-9)
    assert min(found.parts.values(), default=0.0) >= -1e-9 and found.beyond >= 0


# -- several ranks ----------------------------------------------------------------------------------------


def test_a_rank_that_waits_lowers_the_mfu_of_all() -> None:
    busy = RankSteps(2.0, 10, {"useful": 1.0, "kernels": 1.0}, 100.0, 100.0, 100.0)
    waits = RankSteps(2.0, 10, {"useful": 0.5, "wait_ranks": 1.5}, 50.0, 50.0, 100.0)
    assert utilisation_of([busy], "model") == 0.5
    assert utilisation_of([busy, waits], "model") == 0.375
    assert mean_waterfall([busy, waits]) == {"useful": 0.75, "kernels": 0.5, "wait_ranks": 0.75}


def test_a_slow_device_counts_as_much_as_its_peak() -> None:
    """A job on a device of 300 FLOP/s that is half used, and one of 100 that is fully used."""
    fast = RankSteps(1.0, 10, {"useful": 0.5, "kernels": 0.5}, 150.0, 150.0, 300.0)
    slow = RankSteps(1.0, 10, {"useful": 1.0}, 100.0, 100.0, 100.0)
    both = [fast, slow]
    assert utilisation_of(both, "model") == 250 / 400
    assert mean_waterfall(both)["useful"] == 250 / 400, "its share of the step is the MFU"


def test_of_a_rank_of_which_it_is_not_known_nothing_is_known_of_all() -> None:
    one = RankSteps(1.0, 1, {"compute": 1.0}, 1.0, 1.0, 10.0)
    assert utilisation_of([one, one._replace(peak=None)], "model") is None
    assert utilisation_of([one, one._replace(model=None)], "model") is None
    assert utilisation_of([], "model") is None
    assert mean_waterfall([one, one._replace(peak=None, seconds=3.0, parts={"compute": 3.0})]) == {
        "compute": 2.0
    }
