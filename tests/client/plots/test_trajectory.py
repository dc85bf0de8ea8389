"""The picture of a trajectory: stops joined in order, throughput, efficiency or speedup, what is missing."""

from __future__ import annotations

import math

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from roofline.answers.trajectory import Path, Trajectory

from ..reports import absent
from . import models
from .models import point
from .test_kinds import drawn as drawn_as
from .test_kinds import seen_text


def drawn(record: Trajectory) -> tuple[Figure, set[str]]:
    return drawn_as(record, "trajectory")


@pytest.mark.slow
def test_trajectory_has_an_arrow_from_stop_to_stop() -> None:
    figure, _ = drawn(models.vgg16())
    plane = figure.axes[0]
    (inset,) = plane.child_axes
    assert [arrows(plane), arrows(inset)] == [2 * 5, 5]
    assert len(figure.axes) == 3


def arrows(axis: Axes) -> int:
    return sum(isinstance(a, Annotation) and a.arrow_patch is not None for a in axis.texts)


def short(*at: str, factor: float = 1.04) -> Trajectory:
    """A worker whose stops lie close to each other, and hide where it went."""
    stops = [models.stop(n, point("worker:0", flops=3e11 * factor**k), None, None) for k, n in enumerate(at)]
    return models.trajectory(Path("worker", stops, ""))


def test_stops_that_hide_each_other_are_drawn_larger() -> None:
    figure, texts = drawn(short("1", "2", "4"))
    (inset,) = figure.axes[0].child_axes
    assert "worker 1 … 4" in texts and {"1", "2", "4"} <= texts
    ((left, right), (bottom, top)) = inset.get_xlim(), inset.get_ylim()
    assert right / left == pytest.approx(top / bottom)  # equal decades
    (title,) = (text for text in texts if text.startswith("worker, "))
    wide = figure.axes[0].get_window_extent().width / math.log(_ratio(figure.axes[0]))
    larger = inset.get_window_extent().width / math.log(_ratio(inset)) / wide
    assert title == f"worker, {larger:.2g}× larger"


def _ratio(axis: Axes) -> float:
    left, right = axis.get_xlim()
    return right / left


@pytest.mark.slow
def test_stops_apart_or_on_one_spot_need_no_inset() -> None:
    assert not drawn(short("1", "2", factor=20))[0].axes[0].child_axes
    assert not drawn(short("1", "2", factor=1))[0].axes[0].child_axes
    assert not drawn(short("1"))[0].axes[0].child_axes


def test_path_without_a_point_is_named_once() -> None:
    gone = Path("ps", [models.stop("1", models.no_point("ps:0"), None, None)], "no stop has a point")
    record = short("1", "2")
    _, texts = drawn(record._replace(paths=[*record.paths, gone]))
    assert seen_text(texts, "ps: not drawn (no FLOP/s") and not seen_text(texts, "no stop has a point")


def test_trajectory_without_throughput_is_the_plane_alone() -> None:
    path = Path("worker", [models.stop("1", point(), None, None), models.stop("2", point(), None, None)], "")
    assert len(drawn(models.trajectory(path))[0].axes) == 1


def test_stop_without_flops_is_named() -> None:
    stops = [
        models.stop("1", point(), 100.0, 1.0),
        models.stop("2", models.no_point("worker:0"), 190.0, 0.95),
    ]
    figure, texts = drawn(models.trajectory(Path("worker", stops, "")))
    assert seen_text(texts, "worker at nodes 2: not drawn (no FLOP/s")
    throughput = figure.axes[1].lines[0]
    assert list(throughput.get_ydata()) == [100.0, 190.0]  # type: ignore[arg-type]


@pytest.mark.slow
def test_where_efficiency_has_no_meaning_speedup_is_drawn_and_the_reason_given() -> None:
    why = absent("1", "a larger batch is no more of the machine")
    stops = [models.stop(f"{n}", point(), 120.0 * n, None)._replace(efficiency=why) for n in (1, 4)]
    figure, texts = drawn(models.trajectory(Path("worker", stops, ""), over="batch"))
    assert [axis.get_ylabel() for axis in figure.axes[1:]] == ["Throughput (examples/s)", "Speedup"]
    assert list(figure.axes[2].lines[0].get_ydata()) == [1.0, 4.0]  # type: ignore[arg-type]
    assert "ideal scaling" not in texts
    assert seen_text(texts, "No scaling efficiency: a larger batch is no more of the machine.")
    alone = [stop._replace(speedup=why) for stop in stops]
    figure, texts = drawn(models.trajectory(Path("worker", alone, ""), over="batch"))
    assert len(figure.axes) == 2 and figure.axes[1].get_xlabel() == "batch"


def test_stops_of_several_precisions_name_their_roofs() -> None:
    stops = [models.stop("1", point(), 1.0, 1.0), models.stop("2", point(precision="bf16"), 2.0, 1.0)]
    _, texts = drawn(models.trajectory(Path("worker", stops, "")))
    assert seen_text(
        texts, "Stops differ in precision: f32 (worker at 1) under FP32 512-bit FMA 1.21 TFLOP/s;"
    )
    assert seen_text(texts, "bf16 (worker at 2) has no ceiling here.")


def test_ideal_is_the_throughput_at_full_efficiency() -> None:
    stops = [models.stop(str(n), point(), 100.0 * n * e, e) for n, e in ((1, 1.0), (4, 0.5))]
    top, bottom = drawn(models.trajectory(Path("worker", stops, "")))[0].axes[1:]
    assert [list(line.get_ydata()) for line in top.lines] == [[100.0, 200.0], [100.0, 400.0]]  # type: ignore[arg-type]
    assert list(bottom.lines[0].get_ydata()) == [1.0, 0.5]  # type: ignore[arg-type]
