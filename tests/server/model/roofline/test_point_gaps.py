from __future__ import annotations

from roofline.answers.values import Scope
from roofline_server.model.evidence import CountedFlops, CounterEvidence, RankEvidence
from roofline_server.model.roofline import point_gaps
from roofline_server.model.roofline.roofs import limits
from roofline_server.model.roofline.summary import summarize
from roofline_server.sentences import points as texts

from ...builders import DRAM, PEAK_F32
from ..evidence import evidence, ints, kernels, of

NODE = limits("node1", "", [PEAK_F32, DRAM], "f32")


def lacks(*ranks: RankEvidence, level: str = "minimum") -> str:
    return point_gaps.incomplete(ranks, summarize(ranks, [NODE], Scope.PROCESS).values, level)


def test_complete_counts_lack_nothing() -> None:
    assert lacks(evidence(kernels=kernels([100] * 10))) == ""


def test_amx_and_multiplexing_are_named_where_counters_tell_the_flops() -> None:
    total = CounterEvidence(100.0, 10.0, 10, 10.0)
    rank = evidence(counted_flops=CountedFlops(total, coverage=0.4, amx_busy=True))
    assert lacks(rank) == (f"{texts.NO_AMX}; {texts.multiplexed(0.4)}")
    assert lacks(rank._replace(kernels=kernels([100] * 10))) == ""  # kernels tell them


def test_unmodelled_kernels_and_cut_steps_are_named() -> None:
    k = kernels([100] * 10, unmodelled=ints(*[3] * 10))
    k.complete[:2] = False
    assert lacks(evidence(kernels=k)) == (f"{texts.not_modelled(30)}; {texts.cut_steps(2, 10)}")


def test_ranks_of_which_nothing_is_known_are_named() -> None:
    ranks = [evidence(kernels=kernels([100, 100])), evidence()]
    assert lacks(*ranks) == "no FLOPs are known for 1 of 2 ranks"


def test_lower_bound_of_dram_bytes_is_named_at_that_level() -> None:
    rank = evidence(kernels=kernels([100, 100]), dram=CounterEvidence(10, 1, 1, 10), dram_is_bound=True)
    assert lacks(rank, level="dram") == texts.CACHE_MISSES
    assert lacks(rank) == ""


def test_one_step_only_is_said() -> None:
    ten, one = evidence(kernels=kernels([10**9] * 10)), evidence(key="worker:1", kernels=kernels([10**9]))
    values = of(one)
    assert point_gaps.incomplete([one], values, "minimum") == "one step only"
    assert point_gaps.incomplete([ten], values, "minimum") == ""
    assert point_gaps.incomplete([ten, one], values, "minimum") == "one step only of worker:1"
