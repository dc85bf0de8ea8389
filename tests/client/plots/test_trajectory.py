"""The picture of a trajectory: stops joined in order, throughput, efficiency or speedup, what is missing."""

from __future__ import annotations

import math

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from roofline.answers.trajectory import Path, Stop, Trajectory
from roofline_client.tables import trajectories
from roofline_client.tables.text import rendered

from ..reports import absent, seen
from . import models
from .drawing import drawn as drawn_as
from .drawing import seen_text
from .models import point


def drawn(record: Trajectory) -> tuple[Figure, set[str]]:
    return drawn_as(record, "trajectory")


@pytest.mark.slow
def test_trajectory_has_an_arrow_from_stop_to_stop() -> None:
    figure, _ = drawn(models.vgg16())
    plane = figure.axes[0]
    (inset,) = plane.child_axes
    assert [arrows(plane), arrows(inset)] == [2 * 5, 5]
    assert len(figure.axes) == 3


@pytest.mark.parametrize(
    ("devices", "what"), [(("", ""), "node"), (("gpu 0", "gpu 1"), "GPU"), (("", "gpu 0"), "GPU or node")]
)
def test_performance_is_that_of_what_computes(devices: tuple[str, str], what: str) -> None:
    stops = [
        models.stop(n, point("worker:0", flops=3e11 * k, device=device), None, None)
        for k, (n, device) in enumerate(zip("12", devices, strict=True), 1)
    ]
    record = models.trajectory(Path("worker", stops, ""))
    _, texts = drawn(record)
    assert any(one.startswith(f"Performance of a {what} (") for one in texts)
    assert f"FLOP/s per {what} " in rendered(trajectories.as_text(record))


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


def test_noise_is_not_enlarged() -> None:
    figure, texts = drawn(short("1", "2", "4", factor=1.0001))
    assert not figure.axes[0].child_axes and arrows(figure.axes[0]) == 0
    assert "worker 1 … 4" in texts and not any("larger" in text for text in texts)


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
    why = absent("1", "a larger batch uses no more hardware")
    stops = [models.stop(f"{n}", point(), 120.0 * n, None)._replace(efficiency=why) for n in (1, 4)]
    figure, texts = drawn(models.trajectory(Path("worker", stops, ""), over="batch"))
    assert [axis.get_ylabel() for axis in figure.axes[1:]] == ["Throughput (examples/s)", "Speedup"]
    assert list(figure.axes[2].lines[0].get_ydata()) == [1.0, 4.0]  # type: ignore[arg-type]
    assert "ideal scaling" not in texts
    assert seen_text(texts, "No scaling efficiency: a larger batch uses no more hardware.")
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


def counted(at: str, throughput: float, unit: str) -> Stop:
    return models.stop(at, point(), throughput, None)._replace(throughput=seen(throughput, unit))


@pytest.mark.parametrize(
    ("units", "drawn_unit", "left_out"),
    [
        (("examples/s", "examples/s", "steps/s"), "examples/s", "4"),
        (("steps/s", "examples/s", "steps/s"), "steps/s", "2"),
        (("steps/s", "examples/s"), "examples/s", "1"),
    ],
)
def test_throughputs_of_several_units_share_no_axis(
    units: tuple[str, ...], drawn_unit: str, left_out: str
) -> None:
    stops = [counted(str(2**k), 10.0 + k, unit) for k, unit in enumerate(units)]
    figure, texts = drawn(models.trajectory(Path("worker", stops, "")))
    assert figure.axes[1].get_ylabel() == f"Throughput ({drawn_unit})"
    shown = [10.0 + k for k, unit in enumerate(units) if unit == drawn_unit]
    assert list(figure.axes[1].lines[0].get_ydata()) == shown  # type: ignore[arg-type]
    (other,) = set(units) - {drawn_unit}
    note = f"worker at nodes {left_out}: throughput not drawn (counted in {other}, not in {drawn_unit})."
    assert seen_text(texts, note)


def test_values_and_parameters_are_no_mathematics() -> None:
    stops = [models.stop(at, point(), 100.0, None) for at in (r"$\x$", "$b$")]
    figure, _ = drawn(models.trajectory(Path("worker", stops, ""), over=r"$\size$"))
    axis = figure.axes[-1]
    for text in (axis.xaxis.label, *axis.get_xticklabels()):
        assert "$" in text.get_text() and not text.get_parse_math()


def test_like_machines_share_the_lowest_roof_and_others_name_theirs() -> None:
    nodes = [models.xeon_roof(f"n{n}", 1.1 - n / 100) for n in range(4)]
    record = short("1", "2", factor=3)
    _, texts = drawn(record._replace(roofs=nodes, about=models.about("n0", "n1", "n2", "n3")))
    assert not any("(n" in text and "GFLOP/s" in text for text in texts)
    assert any("under the roof of n3, the lowest of them." in text for text in texts)
    old = models.xeon_roof("old", 0.4)
    _, texts = drawn(record._replace(roofs=[*nodes[:1], old], about=models.about("n0", "old")))
    assert {text.rpartition(" ")[2] for text in texts if "DRAM triad" in text} == {"(n0)", "(old)"}
