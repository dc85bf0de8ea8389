"""The picture of the time-based roofline: symbols, sweeps, names and notes."""

from __future__ import annotations

from collections import Counter

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from roofline.answers.time_roofline import TimePoint, TimeRoofline
from roofline_client import plots
from roofline_client.plots.panels import MOST_PANELS

from ..reports import absent, seen
from . import models
from .texts import faults, written
from .time_models import time_point, time_roofline, v100


def drawn(record: TimeRoofline) -> tuple[Figure, list[str]]:
    figure = plots.figure("time", record)
    found = written(figure)
    assert faults(figure) == []
    return figure, [t.text for t in found]


def joined(texts: list[str]) -> str:
    """Without breaks of lines."""
    return " ".join(" ".join(texts).split())


def markers(axis: Axes) -> list[Line2D]:
    return [line for line in axis.lines if line.get_marker() not in (None, "None", "")]


def swept(name: str, factor: float = 1.0) -> list[TimePoint]:
    return [time_point(name, 4e10 * n * factor, 2e8 * n, 1e-2 * n, at=f"{n}") for n in (1, 8, 64)]


def without_ceilings(point: TimePoint) -> TimePoint:
    return point._replace(time_bytes=0.0, time_flops=0.0, bound="", bandwidth_time=absent("s"))


def test_complexity_is_closed_and_time_is_open() -> None:
    one = time_point()
    figure, _ = drawn(time_roofline(v100([one])))
    closed, opened = sorted(markers(figure.axes[0]), key=lambda line: line.get_markerfacecolor() == "white")
    assert (closed.get_xdata()[0], closed.get_ydata()[0]) == (one.bytes.value, one.flops.value)  # type: ignore[index]
    assert (opened.get_xdata()[0], opened.get_ydata()[0]) == (one.time_bytes, one.time_flops)  # type: ignore[index]


@pytest.mark.slow
def test_sweep_is_joined_in_order_of_its_parameter() -> None:
    points = [time_point("step", 1e11 * n, 1e9 * n, 0.01 * n, at=str(n)) for n in (10, 9, 1)]
    figure, texts = drawn(time_roofline(v100(points)))
    assert any(list(line.get_xdata()) == [1e9, 9e9, 10e9] for line in figure.axes[0].lines)  # type: ignore[arg-type]
    assert "step 10" in texts


@pytest.mark.slow
def test_title_and_key_name_the_parameter() -> None:
    points = swept("convolution backward_data of a long name")
    _, texts = drawn(time_roofline(v100(points), over="batch"))
    assert any(text.startswith("Time-based roofline over batch of ") for text in texts)
    assert "at batch 64, " in " ".join(texts)
    assert "A 64" in texts


def test_swept_kernels_have_shapes_of_their_own_that_the_key_names() -> None:
    names = [f"convolution {n} of a long long name" for n in range(3)]
    points = [p for name, factor in zip(names, (1.0, 4.0, 9.0), strict=True) for p in swept(name, factor)]
    figure, texts = drawn(time_roofline(v100(points)))
    assert {line.get_marker() for line in markers(figure.axes[0])} == {"o", "s", "^"}
    key = " ".join(texts)
    assert all(
        f"{sign} {letter} {name}" in key for sign, letter, name in zip("●■▲", "ABC", names, strict=True)
    )


def test_equal_labels_on_one_spot_are_written_once() -> None:
    points = [p for n in range(3) for p in swept(f"convolution {n} of a long long name", 1 + 0.02 * n)]
    _, texts = drawn(time_roofline(v100(points)))
    # Once at the closed symbols, once at the open ones.
    assert Counter(texts)["8"] == 2


def test_open_symbols_have_the_sign_of_their_closed_one() -> None:
    long = "convolution backward_weights 64x56x56x64"
    figure, _ = drawn(time_roofline(v100([time_point(long), time_point("send", 1e9, 2e9, 0.01)])))
    counts = Counter(t.get_text() for t in figure.axes[0].texts if t.get_visible())
    assert counts["1"] == 2 and counts["send"] == 2


def test_frame_holds_the_bars() -> None:
    one = time_point(time_spread=models.Spread(1e-5, 2e-4, 1e-3, 5e-3, 0.1, 60))
    (axis,) = drawn(time_roofline(v100([one])))[0].axes
    assert axis.get_xlim()[1] > 100 * one.time_bytes and axis.get_ylim()[1] > 100 * one.time_flops


@pytest.mark.slow
def test_without_ceilings_no_open_symbol_is_explained() -> None:
    _, texts = drawn(time_roofline(v100([without_ceilings(time_point())], boxes=[], isocurves=[])))
    assert "complexity: bytes and FLOPs" in texts
    assert not {"time: as bytes and FLOPs at peak", "5 to 95 % of launches"} & set(texts)
    assert "its time has no place without ceilings of compute and memory" in " ".join(texts)
    timeless = without_ceilings(time_point(time=0.1)._replace(time=absent("s", "its calls were not timed")))
    _, texts = drawn(time_roofline(v100([timeless])))
    assert "no time (its calls were not timed)" in " ".join(texts)


def test_kernels_without_flops_are_in_the_caption() -> None:
    gone = time_point("memset", flops=0.0)
    _, texts = drawn(time_roofline(v100([time_point(), gone])))
    why = "0 FLOP has no place on a logarithmic axis"
    assert f"1,234 launches without FLOPs, 12.3 ms: not plotted: {why}." in joined(texts)
    one = v100([time_point()], no_flop_launches=seen(1.0, "1"), no_flop_time=absent("s"))
    assert f"1 launch without FLOPs: not plotted: {why}." in joined(drawn(time_roofline(one))[1])
    assert "memset: not drawn (0 FLOP has no place" in " ".join(texts)


def test_of_many_panels_the_first_are_drawn_and_the_others_counted() -> None:
    panels = [v100([time_point()], device=f"gpu {n}") for n in range(MOST_PANELS + 2)]
    figure = plots.figure("time", time_roofline(*panels))
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == [f"node1, gpu {n}, f16" for n in range(MOST_PANELS)]
    assert "2 more panels are not drawn." in " ".join(t.text for t in written(figure))
