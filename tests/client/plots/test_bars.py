"""Pictures of breakdowns and of steps."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from ..reports import absent, seen
from . import models
from .test_kinds import drawn, seen_text


def test_parts_of_a_whole_are_stacked_and_others_stand_side_by_side() -> None:
    figure, _ = drawn(models.breakdown("worker", kinds=["time", "traffic_by_level"]), "breakdown")
    stacked, beside = ([patch.get_x() for patch in axis.patches] for axis in figure.axes)  # type: ignore[attr-defined]
    assert len(set(stacked)) == 5 and stacked[0] == 0
    assert beside == [0, 0, 0]


def test_absent_parts_are_named() -> None:
    record = models.breakdown("worker", kinds=["time"])
    gone = record.parts[0]._replace(kind="flops_by_width", value=absent("FLOP", "no PMU here"))
    _, texts = drawn(record._replace(parts=[*record.parts, gone]), "breakdown")
    assert seen_text(texts, "FLOPs by vector width (input) of worker absent: no PMU here.")


def test_bars_of_one_part_alone_are_a_sentence() -> None:
    record = models.breakdown("worker", "ps", kinds=["time", "flops_by_width"])
    parts = [p for p in record.parts if p.kind == "time" or p.part == "512-bit"]
    figure, texts = drawn(record._replace(parts=parts), "breakdown")
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["Time"]
    assert seen_text(texts, "All of one kind: FLOPs by vector width (512-bit, 2.05 GFLOP to 4.1 GFLOP).")
    alone = [p for p in parts if p.kind != "time"]
    assert len(drawn(record._replace(parts=alone), "breakdown")[0].axes) == 1  # rather than nothing


def test_memory_accesses_have_their_word() -> None:
    part = models.breakdown("worker", kinds=["time"]).parts[0]._replace(kind="work_and_memory")
    parts = [
        part._replace(part="FLOPs", value=seen(4e9, "FLOP"), share=absent("1")),
        part._replace(part="memory accesses", value=seen(119_900.0, "1"), share=absent("1")),
    ]
    _, texts = drawn(models.breakdown()._replace(parts=parts), "breakdown")
    assert {"4 GFLOP", "119.9 k accesses"} <= texts


def test_a_single_step_stands_in_the_middle_over_its_number() -> None:
    figure, _ = drawn(models.steps(models.rank_steps("worker:0", [7])), "steps")
    (axis,) = figure.axes
    assert axis.get_xlim() == (6, 9)
    assert [(t.get_position()[0], t.get_text()) for t in axis.get_xticklabels()] == [(7.5, "7")]


def test_steps_nobody_saw_leave_a_hole() -> None:
    numbers = [n for n in range(60) if not 20 <= n < 30]
    figure, texts = drawn(models.steps(models.rank_steps("worker:0", numbers)), "steps")
    heights = figure.axes[0].patches[-1].get_data().values  # type: ignore[attr-defined]
    assert [at for at, height in enumerate(heights) if math.isnan(height)] == list(range(20, 30))
    assert seen_text(texts, "Empty places: worker:0 lacks 10 of 60 steps.")


def test_phases_reach_up_to_the_step() -> None:
    figure, texts = drawn(models.steps(models.rank_steps("worker:0", range(5), 0.1)), "steps")
    shapes = [patch.get_data() for patch in figure.axes[0].patches]  # type: ignore[attr-defined]
    assert len(shapes) == 5 and all((b.baseline == a.values).all() for a, b in pairwise(shapes))
    assert shapes[-1].values[0] == pytest.approx(100, rel=0.05)
    assert {"input", "forward", "backward", "communicate", "other"} <= texts


def test_a_step_far_longer_than_the_others_does_not_press_them_to_the_ground() -> None:
    first = models.rank_steps("worker:0", range(1), 20.0)
    figure, texts = drawn(models.steps(first, models.rank_steps("worker:0", range(1, 60), 0.1)), "steps")
    assert figure.axes[0].get_ylim()[1] < 400  # ms
    assert seen_text(texts, "Cut at the top: step 0 of worker:0 (20.")


def test_many_ranks_are_bands_by_role() -> None:
    ranks = [models.rank_steps(f"worker:{n}", range(10), 0.05 + 0.001 * n) for n in range(9)]
    figure, texts = drawn(models.steps(*ranks, models.rank_steps("ps:0", range(10))), "steps")
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["ps:0", "worker:0-8"]
    assert "worker: median of 9 ranks" in texts


def test_many_steps_share_places() -> None:
    _, texts = drawn(models.steps(models.rank_steps("worker:0", range(2400))), "steps")
    assert seen_text(texts, "A place holds 10 steps") and "longest" in texts
