"""Texts of rooflines: in which order points stand, and what columns say their numbers are of."""

from __future__ import annotations

from roofline.answers.roofline import Roofline
from roofline.answers.time_roofline import TimeRoofline
from roofline_client.tables import rooflines, time_rooflines, wording
from roofline_client.tables.rooflines import in_order
from roofline_client.tables.text import rendered

from .. import models

FOUND: Roofline = models.made("roofline")
POINT = FOUND.points[0]
TIMES: TimeRoofline = models.made("time_roofline")
KERNEL = TIMES.panels[0].points[0]


def labels(kind: str, *names: str) -> list[str]:
    points = [POINT._replace(kind=kind, label=name, rank=name.partition(" ")[0]) for name in names]
    return [point.label for point in in_order(points)]


def test_ranks_and_steps_stand_in_natural_order() -> None:
    assert labels("rank", "worker:10", "ps:0", "worker:2") == ["ps:0", "worker:2", "worker:10"]
    steps = ("worker:0 step 100", "worker:0 step 9", "ps:0 step 11")
    assert labels("step", *steps) == ["ps:0 step 11", "worker:0 step 9", "worker:0 step 100"]


def test_kernels_and_phases_of_a_rank_stay_in_the_order_of_their_time() -> None:
    assert labels("kernel", "matmul", "add", "conv") == ["matmul", "add", "conv"]
    phases = ("worker:10 forward", "worker:2 other", "worker:2 backward")
    assert labels("phase", *phases) == ["worker:2 other", "worker:2 backward", "worker:10 forward"]


def test_text_of_ranks_is_in_order_and_json_as_it_came() -> None:
    found = FOUND._replace(points=[POINT._replace(label=f"worker:{n}") for n in (10, 2)])
    text = rendered(rooflines.as_text(found))
    assert text.index("worker:2 @") < text.index("worker:10 @")
    assert rooflines.as_json(found).index("worker:10") < rooflines.as_json(found).index("worker:2")


def test_columns_say_what_times_and_spreads_are_of() -> None:
    text = rendered(rooflines.as_text(FOUND))
    assert "total time" in text and "FLOP/s of a step, 5 to 95 %" in text and "bound by" not in text
    kernels = FOUND._replace(points=[POINT._replace(kind="kernel")])
    assert "FLOP/s of a launch, 5 to 95 %" in rendered(rooflines.as_text(kernels))


def times(*points: object, **more: object) -> str:
    panel = TIMES.panels[0]._replace(points=list(points))._replace(**more)
    return rendered(time_rooflines.as_text(TIMES._replace(panels=[panel], over="batch")))


def test_numbers_of_a_time_roofline_say_what_they_are_of() -> None:
    step = KERNEL._replace(time=KERNEL.time._replace(reason="a step; mean over 20 steps"))
    text = times(step)
    assert "time of a step" in text and "a launch, 5 to 95 %" in text
    assert "times are of: a step; mean over 20 steps" in text
    whole = KERNEL._replace(time=KERNEL.time._replace(reason="in the whole run"))
    assert "time of a step" not in times(whole)
    assert "a step, 5 to 95 %" in times(KERNEL._replace(kind="step"))


def test_what_lacks_is_said_once() -> None:
    (panel,) = TIMES.panels
    why = panel.launch_overhead.reason
    assert panel.launch_overhead.value is None and why
    text = rendered(time_rooflines.as_text(TIMES._replace(notes=["it still runs", why])))
    assert text.count(why) == 1 and "  - it still runs" in text.splitlines()


def test_sentences_of_a_sweep_say_where_in_it() -> None:
    text = times(KERNEL._replace(at="16"), KERNEL._replace(at="64", words="memory takes the time"))
    assert "  convolution forward at batch 16: compute takes the time" in text
    assert "  convolution forward at batch 64: memory takes the time" in text


def test_jobs_of_a_sweep_are_told_apart() -> None:
    first, second = KERNEL._replace(job="conv-a"), KERNEL._replace(job="conv-b")
    assert "conv-a" not in times(first)
    assert "conv-a" in times(first, second) and "conv-b" in times(first, second)


def test_what_is_true_of_several_is_said_once() -> None:
    steps = [(f"step {n}", "it waits") for n in range(80)]
    assert rooflines.sentences([*steps, ("step 80", "it computes"), ("step 81", "")]) == [
        "step 0, step 1, step 2 and 77 more: it waits",
        "step 80: it computes",
    ]


def test_sentences_that_are_too_many_are_counted() -> None:
    pairs = [(f"step {n}", f"{n}x below its roof") for n in range(80)]
    lines = rooflines.sentences(pairs)
    assert len(lines) == 13 and lines[-1] == wording.more_sentences(68)
    assert len(rooflines.sentences(pairs[:13])) == 13


def test_one_launch_is_no_plural() -> None:
    one = TIMES.panels[0].no_flop_launches._replace(value=1.0)
    assert "  1 launch without FLOPs" in times(KERNEL, no_flop_launches=one)
