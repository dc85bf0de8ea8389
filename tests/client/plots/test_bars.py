"""Pictures of breakdowns and of steps."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from matplotlib.patches import Polygon
from roofline.answers.tables import TableChunk
from roofline_client.plots import style

from .. import verdicts
from ..chunks import chunk
from ..reports import absent, seen
from . import models
from .drawing import drawn, seen_text


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


def test_all_panels_show_the_same_of_many_ranks() -> None:
    ranks = [f"worker:{n}" for n in range(40)]
    record = models.breakdown(*ranks, kinds=["time", "traffic_by_level"])
    factors = {rank: {"time": (1 + n) ** 2, "traffic_by_level": 1} for n, rank in enumerate(ranks)}
    parts = [
        p._replace(value=seen((p.value.value or 0.0) * factors[p.subject][p.kind], p.value.unit))
        for p in record.parts
    ]
    figure, texts = drawn(record._replace(parts=parts), "breakdown")
    time, traffic = ([label.get_text() for label in axis.get_yticklabels()] for axis in figure.axes)
    assert time == traffic == ranks[:23:-1]
    assert seen_text(texts, "Time: the 16 longest of 40 bars, and the same below.")


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


def test_steps_with_numbers_ten_apart_lack_none() -> None:
    numbers = range(0, 1000, 10)
    figure, texts = drawn(models.steps(models.rank_steps("worker:0", numbers)), "steps")
    heights = figure.axes[0].patches[-1].get_data().values  # type: ignore[attr-defined]
    assert len(heights) == 100 and not any(map(math.isnan, heights))
    assert not seen_text(texts, "Empty places") and not seen_text(texts, "A place holds")
    some = models.rank_steps("worker:1", [n for n in numbers if n != 50])
    _, texts = drawn(models.steps(models.rank_steps("worker:0", numbers), some), "steps")
    assert seen_text(texts, "Empty places: worker:1 lacks 1 of 100 steps.")


def test_few_steps_with_numbers_apart_stand_over_their_numbers() -> None:
    figure, _ = drawn(models.steps(models.rank_steps("worker:0", [10, 20, 30])), "steps")
    (axis,) = figure.axes
    assert [(t.get_position()[0], t.get_text()) for t in axis.get_xticklabels()] == [
        (15, "10"),
        (25, "20"),
        (35, "30"),
    ]


def test_steps_that_were_done_again_are_counted() -> None:
    again = models.rank_steps("worker:0", range(3))
    once = models.rank_steps("worker:0", [2])
    _, texts = drawn(models.steps(again, once), "steps")
    assert seen_text(texts, "1 step was done again")


def test_parts_too_small_to_be_seen_are_in_the_caption_and_not_in_the_legend() -> None:
    record = models.breakdown("worker", kinds=["time"])
    parts = [
        part._replace(value=seen(1e-6, "s")) if part.part == "optimizer" or part.part == "other" else part
        for part in record.parts
    ]
    _, texts = drawn(record._replace(parts=parts), "breakdown")
    assert "other" not in texts and "communicate" in texts
    assert seen_text(texts, "Time: too small to be seen: other (1 us).")


def test_phases_too_short_to_be_seen_are_in_the_caption_and_not_in_the_legend() -> None:
    rank = models.rank_steps("worker:0", range(5), 0.1)
    columns = [c._replace(values=[1e-6] * 5) if c.name == "input_time" else c for c in rank.columns]
    _, texts = drawn(models.steps(rank._replace(columns=columns)), "steps")
    assert "input" not in texts and seen_text(texts, "Too short to be seen: input (at most 1 us).")


def own(rank: TableChunk, name: str, share: float) -> TableChunk:
    """These steps with a phase of the training's own, of this share of each."""
    times = next(c.values for c in rank.columns if c.name == "duration_ns")
    (made,) = chunk("steps", {f"{name}_time": [share * time / 1e9 for time in times]}).columns
    return rank._replace(columns=[*rank.columns, made])


def test_phases_of_the_trainings_own_are_drawn() -> None:
    figure, texts = drawn(
        models.steps(own(models.rank_steps("worker:0", range(5), 0.1), "rollout", 0.03)), "steps"
    )
    assert "rollout" in texts
    assert len(figure.axes[0].patches) == 6


def test_phases_that_overlap_are_not_drawn_on_top_of_each_other() -> None:
    figure, texts = drawn(
        models.steps(own(models.rank_steps("worker:0", range(5), 0.1), "train", 0.8)), "steps"
    )
    assert "train" not in texts and len(figure.axes[0].patches) == 5
    assert seen_text(texts, "Phases that are not drawn, which overlap with others: train.")


def test_phases_reach_up_to_the_step() -> None:
    figure, texts = drawn(models.steps(models.rank_steps("worker:0", range(5), 0.1)), "steps")
    shapes = [patch.get_data() for patch in figure.axes[0].patches]  # type: ignore[attr-defined]
    assert len(shapes) == 5 and all((b.baseline == a.values).all() for a, b in pairwise(shapes))
    assert shapes[-1].values[0] == pytest.approx(100, rel=0.05)
    assert {"input", "forward", "backward", "communicate and wait", "other"} <= texts


def test_a_step_far_longer_than_the_others_does_not_press_them_to_the_ground() -> None:
    first = models.rank_steps("worker:0", range(1), 20.0)
    figure, texts = drawn(models.steps(first, models.rank_steps("worker:0", range(1, 60), 0.1)), "steps")
    assert figure.axes[0].get_ylim()[1] < 400  # ms
    assert seen_text(texts, "Cut at the top: step 0 of worker:0 (20.")


def stretched(chunk: TableChunk, at: int, factor: float) -> TableChunk:
    """With one step that many times as long."""
    return chunk._replace(
        columns=[
            column._replace(values=[v * factor if n == at else v for n, v in enumerate(column.values)])  # type: ignore[operator]
            if column.name == "duration_ns"
            else column
            for column in chunk.columns
        ]
    )


def test_cut_bars_are_broken_and_have_their_value() -> None:
    rank = stretched(models.rank_steps("worker:0", range(60), 0.1), 20, 30)
    figure, texts = drawn(models.steps(rank), "steps")
    (axis,) = figure.axes
    (gap,) = [patch for patch in axis.patches if isinstance(patch, Polygon) and len(patch.get_xy()) == 5]
    assert {x for x, _ in gap.get_xy()} == {20, 21} and max(y for _, y in gap.get_xy()) < axis.get_ylim()[1]
    assert any(text.endswith(" s") and text.startswith("3.") for text in texts)
    whole, _ = drawn(models.steps(models.rank_steps("worker:0", range(60), 0.1)), "steps")
    assert not any(isinstance(patch, Polygon) for patch in whole.axes[0].patches)


def test_bars_far_from_the_cut_ones_are_whole() -> None:
    """What is longer than usual, and not far longer, stays below the breaks."""
    rank = stretched(stretched(models.rank_steps("worker:0", range(60), 0.1), 20, 30), 30, 2.5)
    figure, texts = drawn(models.steps(rank), "steps")
    assert figure.axes[0].get_ylim()[1] > 300
    assert seen_text(texts, "Cut at the top: step 20 of worker:0") and not seen_text(texts, "step 30")


def test_many_ranks_are_bands_by_role() -> None:
    ranks = [models.rank_steps(f"worker:{n}", range(10), 0.05 + 0.001 * n) for n in range(9)]
    figure, texts = drawn(models.steps(*ranks, models.rank_steps("ps:0", range(10))), "steps")
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["ps:0", "worker:0-8"]
    assert "worker: median of 9 ranks" in texts


def test_many_steps_share_places() -> None:
    _, texts = drawn(models.steps(models.rank_steps("worker:0", range(2400))), "steps")
    assert seen_text(texts, "A place holds 10 steps") and "longest" in texts


@pytest.mark.parametrize(("number", "last"), [(2.4e6, "2 M"), (500.0, "500")])
def test_numbers_without_a_unit_have_none_at_their_axis(number: float, last: str) -> None:
    record = models.breakdown("worker", "ps", kinds=["time"])
    parts = [part._replace(value=seen(number / 5, "1")) for part in record.parts]
    figure, _ = drawn(record._replace(parts=parts), "breakdown")
    figure.draw_without_rendering()
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()][-1] == last


def test_names_of_ranks_are_no_mathematics() -> None:
    record = models.account([r"$\x$:0", "worker:1"])
    figure, texts = drawn(record, "account")
    assert r"$\x$:0" in texts
    assert not any(text.get_parse_math() for text in figure.axes[0].get_yticklabels())


def test_names_and_headline_of_an_account_are_whole_however_long() -> None:
    ranks = [f"worker:{n}" for n in range(100, 120)]
    record = models.account(ranks)
    found = record.report.verdict
    assert found is not None and found.bottleneck is not None
    headline = f"more CPU time on {', '.join(ranks[:4])} and 5 more: in kernels or in Python, not separable"
    slow = found._replace(headline=headline, bottleneck=found.bottleneck._replace(rank=", ".join(ranks[:8])))
    figure, texts = drawn(
        record._replace(report=record.report._replace(verdict=slow, job="j" * 90)), "account"
    )
    title = [text for text in figure.texts if text.get_fontsize() == style.TITLE]
    assert " ".join(text.get_text() for text in title).endswith(headline)
    bold = {text.get_text() for text in figure.axes[0].get_yticklabels() if text.get_fontweight() == "bold"}
    assert bold == set(ranks[:8]) & texts


def test_an_account_of_short_steps_is_in_microseconds() -> None:
    record = models.account()
    found = record.report.verdict
    assert found is not None
    short = [verdicts.account("worker:0", 90e-6, compute=0.9, other=0.1)]
    verdict = found._replace(accounts=short)
    _, texts = drawn(record._replace(report=record.report._replace(verdict=verdict)), "account")
    assert "Mean of a steady step (µs)" in texts and "20" in texts


@pytest.mark.parametrize(
    ("first", "last", "steps"),
    [
        (None, None, "a steady step"),
        (0, None, "all steps"),
        (3, 60, "steps 3 to 60"),
        (3, None, "steps 3 to the last"),
        (None, 60, "steps 0 to 60"),
        (5, 5, "step 5"),
    ],
)
def test_an_account_says_of_which_steps_it_is(first: int | None, last: int | None, steps: str) -> None:
    figure, _ = drawn(models.account(first_step=first, last_step=last), "account")
    assert figure.axes[0].get_xlabel() == f"Mean of {steps} (ms)"
