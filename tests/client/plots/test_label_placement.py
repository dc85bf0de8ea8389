"""Labels of ceilings and points that lie close to each other."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from roofline_client import plots
from roofline_client.plots import roofs
from roofline_client.plots.label_placement import Labels
from roofline_client.plots.roofs import joined

from . import models
from .models import line, point, roofline, xeon_roof
from .texts import faults

PEAK = models.PEAK_512


def drawn(record: Any, kind: str = "roofline") -> Figure:
    figure = plots.figure(kind, record)
    assert faults(figure) == []
    return figure


def label(axis: Axes, begin: str) -> Text:
    (found,) = (t for t in axis.texts if t.get_visible() and t.get_text().startswith(begin))
    return found


def memory(name: str, bandwidth: float) -> Any:
    label = f"{name} {bandwidth / 1e9:.1f} GB/s"
    return line(f"{name}.x", label, "memory", bandwidth, PEAK, True, level=name.lower())


def side(axis: Axes, text: Text, bandwidth: float) -> float:
    """Above (positive) or below the line of a bandwidth, pixels."""
    x, _ = axis.transData.inverted().transform(text.get_position())
    return float(text.get_position()[1] - axis.transData.transform((x, x * bandwidth))[1])


def test_of_two_close_lines_the_upper_has_its_label_above_and_the_lower_below() -> None:
    roof = xeon_roof()
    compute = [x for x in roof.lines if x.kind == "compute"]
    lines = [*compute, memory("L3", 57.8e9), memory("DRAM", 50.3e9)]
    (axis,) = drawn(roofline([point()], [roof._replace(lines=lines)])).axes
    upper, lower = label(axis, "L3 57.8"), label(axis, "DRAM 50.3")
    assert side(axis, upper, 57.8e9) > 0 > side(axis, lower, 50.3e9)


def test_of_three_close_lines_the_upper_two_share_a_label() -> None:
    roof = xeon_roof()
    compute = [x for x in roof.lines if x.kind == "compute"]
    lines = [*compute, memory("L2", 64e9), memory("L3", 57.8e9), memory("DRAM", 50.3e9)]
    (axis,) = drawn(roofline([point()], [roof._replace(lines=lines)])).axes
    assert label(axis, "L2 64.0, L3 57.8 GB/s") and label(axis, "DRAM 50.3 GB/s")


def test_a_line_without_room_for_its_value_is_still_named_and_the_key_has_the_value() -> None:
    figure = Figure(figsize=(1.4, 3.0))
    FigureCanvasAgg(figure)
    axis = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axis.set_ylim(0, 3)
    labels = Labels(axis)
    for height, shorter in ((1, ("DRAM triad", "DRAM")), (2, ())):
        drawn = axis.axhline(height)
        labels.at_line(drawn, "DRAM triad 114.0 GB/s to node1", "black", False, shorter=shorter)
    key, hidden = labels.abbreviate(figure.canvas.get_renderer(), iter("ab"))  # type: ignore[attr-defined]
    assert [text.get_text() for text in axis.texts] == ["DRAM triad", "a"]
    assert key == ["DRAM triad 114.0 GB/s to node1", "a DRAM triad 114.0 GB/s to node1"] and hidden == []


@pytest.mark.parametrize(
    ("names", "slanting", "shorter"),
    [
        (["L2 read 367.3 GB/s"], True, ("L2 read", "L2")),
        (["L3 triad 57.8 GB/s", "L3 copy 50.3 GB/s"], True, ("L3 triad, L3 copy", "L3")),
        (["FP32 512-bit theoretical 1.31 TFLOP/s"], False, ("FP32 512-bit theoretical",)),
    ],
)
def test_shorter_names_of_ceilings(names: list[str], slanting: bool, shorter: tuple[str, ...]) -> None:
    assert roofs.shorter(names, slanting) == shorter


def test_a_unit_that_all_share_appears_once() -> None:
    assert joined(["L3 57.8 GB/s", "DRAM 50.3 GB/s"]) == "L3 57.8, DRAM 50.3 GB/s"
    assert joined(["L3 5.8 GB/s", "net 50 MB/s"]) == "L3 5.8 GB/s, net 50 MB/s"
    assert joined(["alone"]) == "alone"


def test_what_finds_no_room_gets_a_sign_that_the_caption_explains() -> None:
    hosts = ("a", "b", "c")
    roofs = [xeon_roof(host, hierarchical=True) for host in hosts]
    # Points far apart press the ceilings together.
    points = [point(f"worker:{n}", 4.0 * 10 ** (n * 4), 1e8 * 30**n, host=h) for n, h in enumerate(hosts)]
    figure = drawn(roofline(points, roofs, "hierarchical"), "hierarchical")
    caption = " ".join(text.get_text() for text in figure.texts)
    signs = [t.get_text() for t in figure.axes[0].texts if t.get_visible() and len(t.get_text()) == 1]
    assert signs and all(f" {sign} " in caption for sign in signs)
    seen = caption + " ".join(t.get_text() for axis in figure.axes for t in axis.texts if t.get_visible())
    assert all(seen.count(ceiling) >= len(hosts) for ceiling in ("L1 read", "DRAM triad", "FP32 scalar"))


def test_kernels_on_one_spot_have_their_numbers_together() -> None:
    names = [f"convolution {what} mb16_ic64oc64_ih56oh56" for what in ("forward", "data", "weights")]
    points = [point(name, 140.0, 4e11 * (1 + 0.01 * n), kind="kernel") for n, name in enumerate(names)]
    (axis,) = drawn(roofline(points, [xeon_roof()])).axes
    assert label(axis, "1–3")


def test_label_keeps_off_an_arrow_that_crosses_its_line() -> None:
    (axis,) = drawn(roofline([point("worker:0", 60.0, 4e10)], [xeon_roof()])).axes
    assert label(axis, "FP32 256-bit").get_window_extent().x0 > axis.transData.transform((60.0, 1.0))[0]
