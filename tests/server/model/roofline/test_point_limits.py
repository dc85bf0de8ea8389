from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from roofline.answers.machines import Ceiling
from roofline.answers.values import Scope, Value
from roofline_server.model.evidence import CountedFlops, CounterEvidence, RankEvidence
from roofline_server.model.roofline import point_limits
from roofline_server.model.roofline.roofs import Limits, limits
from roofline_server.model.roofline.summary import summarize
from roofline_server.sentences import points as texts

from ...builders import DRAM, PEAK_F32, S
from ..evidence import TEN, evidence, ints, kernels, of

NET = Ceiling("net.tcp", "network", "network", "", 0, 1e9, "byte/s", 0, "", 0)
NODE = limits("node1", "", [PEAK_F32, DRAM, NET], "f32")
RIDGE = PEAK_F32.value / DRAM.value


def values_of(*ranks: RankEvidence) -> Mapping[str, Value]:
    return summarize(ranks, [NODE], Scope.PROCESS).values


def said(
    headroom: float,
    intensity: float,
    *ranks: RankEvidence,
    level: str = "dram",
    sharing: int = 1,
    **more: Any,
) -> str:
    where: Limits = more.get("where", NODE)
    return point_limits.sentence(headroom, intensity, level, where, ranks, values_of(*ranks), sharing)


def counted(**by: float) -> RankEvidence:
    flops = {name.replace("_", "."): n for name, n in by.items()}
    total = CounterEvidence(sum(by.values()), 10.0, 10, sum(by.values()) / 10)
    return evidence(counted_flops=CountedFlops(total, by=flops))


def busy(share: float, **more: Any) -> RankEvidence:
    """A rank whose kernels fill so much of its steps of a second."""
    k = kernels([10**9] * 10, kernel_ns=ints(*[int(share * S)] * 10))
    return evidence(kernels=k, **more)


# -- what binds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headroom, intensity, level, words",
    [
        (3.1, 1, "dram", texts.bound_by(texts.memory("dram"), texts.below_roof(3.1, 1))),
        (
            3.1,
            1,
            "minimum",
            "memory-bound on DRAM if its tensors come from there, 3.1x below the roof: "
            "raise intensity (larger batch, fusion)",
        ),
        (
            1.05,
            1,
            "dram",
            texts.bound_by(texts.memory("dram"), texts.at_roof(1.05)),
        ),
        (
            2.0,
            2 * RIDGE,
            "dram",
            texts.bound_by(texts.COMPUTE, texts.below_roof(2.0, 1)),
        ),
        (
            1.09,
            2 * RIDGE,
            "dram",
            "compute-bound, at the roof (92% of it): only a cheaper precision or more machines help",
        ),
        (
            5.0,
            1,
            "network",
            texts.bound_by(texts.NETWORK, texts.below_roof(5.0, 1)),
        ),
        (
            0.5,
            1,
            "minimum",
            texts.above_roof_in_caches(0.5),
        ),
        (
            0.5,
            2 * RIDGE,
            "minimum",
            "2x above its roof: the ceiling was measured too low (on a busy node?), or something is counted "
            "twice",
        ),
        (
            0.97,
            2 * RIDGE,
            "dram",
            "compute-bound, at the roof (103% of it): only a cheaper precision or more machines help",
        ),
    ],
)
def test_words_name_the_ceiling_and_what_helps(
    headroom: float, intensity: float, level: str, words: str
) -> None:
    assert said(headroom, intensity, evidence(), level=level) == words


@pytest.mark.parametrize("intensity, ceiling", [(1, "dram.triad"), (2 * RIDGE, "peak.f32.512")])
def test_what_is_far_below_its_roof_is_not_held_back_by_it(intensity: float, ceiling: str) -> None:
    words = said(1234.0, intensity, evidence())
    assert words.startswith(f"1,234x below its roof ({ceiling}): far below peak, ")
    # Four ranks share the node: a quarter of the roof is what one can have.
    assert "-bound" in said(35.0, intensity, evidence(), sharing=4)


def test_who_has_its_part_of_a_shared_roof_is_at_it() -> None:
    whole = "only a cheaper precision or more machines help; the node's roof is shared by 16 ranks"
    words = said(16.0, 2 * RIDGE, evidence(), sharing=16)
    assert words == f"compute-bound, at its part of the roof (1/16 of it): {whole}"
    assert "32x" not in said(32.0, 2 * RIDGE, evidence(), sharing=16)
    assert "2x below its part of the roof" in said(32.0, 2 * RIDGE, evidence(), sharing=16)


@pytest.mark.parametrize("headroom", [9.7, 11.0])
def test_a_little_more_or_less_changes_what_is_said_a_little(headroom: float) -> None:
    words = said(headroom, 2 * RIDGE, evidence())
    assert "check threads, small kernels and stalls" in words
    assert not words.startswith("compute-bound")


def test_level_without_ceiling_has_the_reason_for_words() -> None:
    assert "no L2 bandwidth of node1" in point_limits.of_work(2.0, 1.0, "l2", NODE)


def test_shared_roof_is_said() -> None:
    assert said(3.0, 1, evidence(), sharing=4).endswith("; the node's roof is shared by 4 ranks")
    assert "shared" not in said(3.0, 1, evidence(), sharing=1)


def test_shared_gpu_is_said() -> None:
    hbm = DRAM._replace(level="hbm", device="gpu 0")
    gpu = limits("node1", "gpu 0", [PEAK_F32._replace(device="gpu 0"), hbm], "f32")
    words = said(3.0, 1, evidence(), level="hbm", sharing=2, where=gpu)
    assert (
        words.startswith("memory-bound on HBM, 1.5x below its part of the roof (1/2 of it)")
        and "the GPU's roof is shared by 2 ranks" in words
    )


# -- narrow vectors ---------------------------------------------------------------------------------------


def test_narrow_vectors_are_named_where_compute_binds() -> None:
    words = said(3.0, 2 * RIDGE, counted(f32_128=62, f32_512=38))
    assert texts.narrow_vectors(0.62, 128, 512) in words
    assert "scalar" in said(3.0, 2 * RIDGE, counted(f32_scalar=62, f32_512=38))


@pytest.mark.parametrize(
    "headroom, intensity, by",
    [
        (3.0, 0.5 * RIDGE, {"f32_128": 62, "f32_512": 38}),  # memory binds
        (1.02, 2 * RIDGE, {"f32_128": 62, "f32_512": 38}),  # at the roof
        (3.0, 2 * RIDGE, {"f32_128": 10, "f32_512": 90}),
        (3.0, 2 * RIDGE, {"all_all": 100}),  # these events do not tell
        (3.0, 2 * RIDGE, {}),
    ],
)
def test_narrow_vectors_are_not_blamed_without_evidence(
    headroom: float, intensity: float, by: dict[str, float]
) -> None:
    assert "-bit" not in said(headroom, intensity, counted(**by) if by else evidence())


# -- steps that are not kernels ---------------------------------------------------------------------------


def test_rank_that_hardly_computes_is_told_so() -> None:
    words = said(3.5, 2 * RIDGE, busy(0.4))
    assert words.startswith("its kernels reach 71% of the roof, but they fill only 40% of the step: ")
    assert "the time between them counts more" in words
    assert said(50.0, 2 * RIDGE, busy(0.4)).startswith("its kernels reach 5% of the roof, and fill only 40%")
    assert "reach 100% of the roof, but" in said(1.67, 2 * RIDGE, busy(0.4)), "and no more, in caches too"


def test_rank_that_lacks_cpus_is_told_so() -> None:
    """Of a step of 0.9 s it ran 0.1 s and waited for a CPU 0.8 s."""
    cpu, waited = (CounterEvidence(10 * n, 10, 10, n) for n in (0.1e9, 0.8e9))
    lacks = texts.lacks_cpus(0.89)
    starved = busy(0.4)._replace(cpu_ns=cpu, cpu_wait=waited)
    assert said(3.5, 2 * RIDGE, starved).endswith(f"of the step: {lacks}")
    assert f"; {lacks}" in said(50.0, 2 * RIDGE, evidence(cpu_ns=cpu, cpu_wait=waited))
    assert "not scheduled" not in said(1.02, 2 * RIDGE, starved), "it is at its roof"
    calm = busy(0.4)._replace(cpu_ns=cpu, cpu_wait=waited._replace(per_window=0.05e9))
    assert "the time between them counts more" in said(3.5, 2 * RIDGE, calm)


def test_communication_that_was_inferred_is_said_to_be() -> None:
    rank = busy(0.4)._replace(
        held=np.full(10, 0.5), barrier="kernels", sent=CounterEvidence(1e9, 10, 10, 1e8)
    )
    assert "by when its last kernels ended, it waits for communication" in said(
        3.5, 2 * RIDGE, rank._replace(wait=np.full(10, 0.01))
    )
    unseen = rank._replace(sent=None, wait=np.zeros(10))
    assert "communication" not in said(3.5, 2 * RIDGE, unseen)
    assert "nobody saw its ranks communicate" in of(unseen)["communicate_time_per_step"].reason


@pytest.mark.parametrize(
    "columns, wait, advice",
    [
        ({"phase.input.ns": 700}, None, "it waits for input"),
        ({"phase.optimizer.ns": 600, "phase.input.ns": 200}, None, "the optimizer takes the rest"),
        ({"phase.communicate.ns": 800}, None, "it waits for communication"),
        ({"phase.communicate.ns": 800}, 0.7, "it waits for other ranks"),
        # Of 770 ms in forward and communicate only 100 ms are kernels: most of forward is none.
        ({"phase.forward.ns": 600, "phase.communicate.ns": 170}, None, "the time between them counts more"),
    ],
)
def test_what_the_rest_of_the_step_is_is_said(
    columns: dict[str, int], wait: float | None, advice: str
) -> None:
    each = {name: ints(*[ms * 10**6] * 10) for name, ms in columns.items()}
    more: dict[str, Any] = {}
    if wait is not None:
        held = np.full(10, 0.8)
        more = {"wait": np.full(10, wait), "held": held, "barrier": "communicate"}
    assert advice in said(3.5, 2 * RIDGE, busy(0.1, columns=each, **more))


def test_kernels_side_by_side_do_not_fill_more_than_the_step() -> None:
    assert point_limits.filled([busy(1.7)]) is None
    assert point_limits.filled([busy(0.5)]) == pytest.approx(0.5)
    assert point_limits.filled([evidence()]) is None
    assert "compute-bound" in said(3.5, 2 * RIDGE, busy(1.7))
    assert "compute-bound" in said(1.05, 2 * RIDGE, busy(0.4))  # whatever it fills: it is at its roof


def test_mixed_precisions_are_said() -> None:
    k = kernels([100] * 10, by_precision={"f32": ints(*[70] * 10), "bf16": ints(*[30] * 10)})
    assert texts.mixed_precisions(0.7, "f32") in said(3.0, 1, evidence(kernels=k, steps=TEN))
