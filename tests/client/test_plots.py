"""The roofline picture: what is in it, what is left out, and that it is never cut off."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_client import ClientError
from roofline_client.names import short_hosts
from roofline_client.plots import TOLD_APART, draw_roofline, figure_of, frame_of, worth_drawing
from roofline_client.records import Point, Report, RoofLine

from .reports import PEAK, compute_line, memory_line, point, rank, report, roof

ROOT = Path(__file__).parents[2]
MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-", ".PNG": b"\x89PNG"}


def one_node(count: int = 2) -> Report:
    return report(roofs=[roof()], points=[point(f"worker:{i}", flops=3e11 * (1 + i)) for i in range(count)])


@pytest.mark.parametrize("suffix", list(MAGIC))
def test_file_is_what_its_name_says(tmp_path: Path, suffix: str) -> None:
    draw_roofline(one_node(), tmp_path / f"x{suffix}")
    assert (tmp_path / f"x{suffix}").read_bytes().startswith(MAGIC[suffix])


def test_what_others_set_in_matplotlib_stays(tmp_path: Path) -> None:
    """A notebook that draws a report keeps its backend and its own figures."""
    code = (
        "import sys, matplotlib; matplotlib.use('svg'); before = dict(matplotlib.rcParams);"
        "from pathlib import Path; from tests.client.test_plots import one_node;"
        "from roofline_client.plots import draw_roofline;"
        f"draw_roofline(one_node(), Path({str(tmp_path / 'x.png')!r}));"
        "assert dict(matplotlib.rcParams) == before; assert 'matplotlib.pyplot' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_text_stays_text_in_the_file(tmp_path: Path) -> None:
    draw_roofline(one_node(), tmp_path / "x.pdf")
    assert b"/Type0" in (tmp_path / "x.pdf").read_bytes()  # TrueType, never Type 3
    assert b"/Type3" not in (tmp_path / "x.pdf").read_bytes()


@pytest.mark.parametrize("name", ["x", "x.bmp", "x.png.txt", ".png"])
def test_other_endings_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ClientError, match=r"\.png, \.svg, \.pdf"):
        draw_roofline(one_node(), tmp_path / name)


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"cannot write .*nowhere"):
        draw_roofline(one_node(), tmp_path / "nowhere" / "x.png")


def test_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="nothing to draw"):
        draw_roofline(report(), tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


def test_every_rank_and_drawn_ceiling_is_named(tmp_path: Path) -> None:
    draw_roofline(one_node(8), tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    for i in range(8):
        assert f"worker:{i}: " in text
    assert "DRAM triad 40.0 GB/s" in text and "FP32 512-bit 2000.0 GFLOP/s" in text
    assert "DRAM read" not in text  # 0.9 of the roof: it would hide behind it
    assert "Job 42 on node1" in text and "FLOPs: analytic" in text


def test_points_without_roof_and_roof_without_points() -> None:
    (axis,) = figure_of(report(points=[point()])).axes
    assert len(axis.lines) == 1
    (axis,) = figure_of(report(roofs=[roof()])).axes
    assert axis.get_legend() is None and len(axis.lines) == 5


def test_node_without_roof_beside_one_with() -> None:
    figure = figure_of(report(roofs=[roof("a.org")], points=[point(host="a.org"), point(host="b.org")]))
    axes = figure.axes
    assert figure.get_suptitle() == "Job 42"
    assert [axis.get_title(loc="left") for axis in axes] == ["a", "b"]
    assert [bool(axis.get_ylabel()) for axis in axes] == [True, False]
    assert len(axes[1].lines) == 1


def outside(axis: Any) -> list[tuple[float, float]]:
    left, right = axis.get_xlim()
    bottom, top = axis.get_ylim()
    placed = [
        (float(x), float(y))
        for line in axis.lines
        if line.get_marker() not in (None, "None", "")
        for x, y in line.get_xydata()
    ]
    return [(x, y) for x, y in placed if not (left < x < right and bottom < y < top)]


def test_points_of_one_node_are_in_the_picture() -> None:
    (axis,) = figure_of(report(roofs=[roof()], points=[point(), point(intensity=0.02, flops=1e7)])).axes
    assert outside(axis) == []


def test_points_of_unequal_nodes_are_in_the_picture() -> None:
    slow = point("worker:1", "b", 2.0, 1e9)
    placed = [slow, point("worker:0", "a")]
    axes = figure_of(report(roofs=[roof("b", 1e10, 1e9), roof("a")], points=placed)).axes
    assert [outside(axis) for axis in axes] == [[], []]


def test_many_nodes_stand_in_rows_of_three() -> None:
    axes = figure_of(report(roofs=[roof(f"n{i}") for i in range(5)])).axes
    heights = [round(axis.get_position().y0, 3) for axis in axes]
    assert len(axes) == 5 and len(set(heights[:3])) == len(set(heights[3:])) == 1 < len(set(heights))


def test_addresses_are_not_shortened() -> None:
    assert short_hosts(["10.0.0.1", "10.0.0.2"]) == {"10.0.0.1": "10.0.0.1", "10.0.0.2": "10.0.0.2"}
    assert short_hosts(["a.x", "a.y"]) == {"a.x": "a.x", "a.y": "a.y"}
    assert short_hosts(["a.x", "b.x"]) == {"a.x": "a", "b.x": "b"}


def legend_of(*points: Point) -> list[str]:
    (axis,) = figure_of(report(roofs=[roof()], points=points)).axes
    return [text.get_text().split(": ")[0] for text in axis.get_legend().get_texts()]


def test_ranks_on_one_spot_share_an_entry() -> None:
    same = [point(f"worker:{i}", flops=3e11 * (1 + 0.003 * i)) for i in range(8) if i != 4]
    assert legend_of(point("ps:0"), *same) == ["ps:0", "worker:0-3,5-7"]
    assert legend_of(*same[:4]) == [f"worker:{i}" for i in range(4)]


@pytest.mark.parametrize("flops", [1e9, 3e11])
@pytest.mark.parametrize("count", [2, 8])
def test_legend_covers_nothing(flops: float, count: int) -> None:
    placed = [point(f"worker:{i}", intensity=400.0, flops=flops * 1.2**i) for i in range(count)]
    figure = figure_of(report(roofs=[roof()], points=placed))
    figure.draw_without_rendering()
    (axis,) = figure.axes
    box = axis.get_legend().get_window_extent()
    assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and figure.bbox.y0 <= box.y0
    for line in axis.lines:
        assert not line.get_path().transformed(axis.transData).intersects_bbox(box, filled=False)


def test_memory_label_runs_along_its_line() -> None:
    drawn = figure_of(one_node())
    drawn.draw_without_rendering()
    (axis,) = drawn.axes
    label = next(t for t in axis.texts if t.get_text().startswith("DRAM triad"))
    (x0, y0), (x1, y1) = axis.transData.transform([(1.0, 40e9), (2.0, 80e9)])
    assert label.get_rotation() == pytest.approx(math.degrees(math.atan2(y1 - y0, x1 - x0)), abs=0.3)


@pytest.mark.parametrize("name", ["$\\x$", "a $b_{ c$"])
def test_names_are_no_mathematics(tmp_path: Path, name: str) -> None:
    draw_roofline(report(roofs=[roof(name)], points=[point(host=name)], job=name), tmp_path / "x.svg")
    assert name in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize(("intensity", "flops"), [(0.0, 1e9), (1.0, 0.0)])
def test_point_at_zero_is_left_out(tmp_path: Path, intensity: float, flops: float) -> None:
    none = point("worker:1", intensity=intensity, flops=flops)
    draw_roofline(report([rank(), rank("worker:1")], [roof()], [point(), none]), tmp_path / "x.png")


# -- which ceilings ---------------------------------------------------------------------------------


def names(lines: Sequence[RoofLine]) -> list[str]:
    return [line.name.rpartition(".")[2] for line in lines]


def test_ceilings_too_close_to_tell_apart_are_left_out() -> None:
    lines = [
        compute_line(1.0e12, name="low"),
        compute_line(1.9e12, name="close"),
        compute_line(2.0e12, binding=True, name="top"),
    ]
    assert names(worth_drawing(lines)) == ["top", "low"]


def test_roof_is_always_drawn() -> None:
    lines = [memory_line(41e9, name="read"), memory_line(40e9, binding=True, name="triad")]
    assert names(worth_drawing(lines)) == ["read", "triad"]


amounts = st.floats(1e6, 1e15)
compute_lines = st.builds(compute_line, amounts, binding=st.booleans())
memory_lines = st.builds(lambda a: memory_line(a, max(a, PEAK)), st.floats(1e6, 1e12))


@given(st.lists(compute_lines | memory_lines, max_size=8))
def test_drawn_ceilings_can_be_told_apart(lines: list[RoofLine]) -> None:
    kept = worth_drawing(lines)
    assert all(line in kept for line in lines if line.binding)
    for kind in ("memory", "compute"):
        heights = [x.flops[0] / (x.intensity[0] if kind == "memory" else 1) for x in kept if x.kind == kind]
        assert heights == sorted(heights, reverse=True)
        highest = [x.flops[0] / (x.intensity[0] if kind == "memory" else 1) for x in lines if x.kind == kind]
        assert not highest or max(highest) == heights[0]
    free = [x.flops[0] for x in kept if x.kind == "compute" and not x.binding]
    assert all(low < TOLD_APART * high for high, low in pairwise(free))


# -- the frame --------------------------------------------------------------------------------------

points = st.builds(point, intensity=st.floats(1e-4, 1e6), flops=st.floats(1e3, 1e16))


@given(st.lists(compute_lines | memory_lines, max_size=6), st.lists(points, max_size=8))
def test_frame_holds_points_and_ridges_of_the_roof(lines: list[RoofLine], placed: list[Point]) -> None:
    frame = frame_of(lines, placed)
    ridges = [(line.intensity[0], line.flops[0]) for line in lines if line.kind == "compute"]
    for x, y in [*((p.intensity, p.flops) for p in placed), *ridges]:
        assert frame.left < x < frame.right
        assert frame.bottom < y < frame.top


def test_frame_holds_the_ridge_of_a_slow_memory() -> None:
    lines = [memory_line(400e9, binding=True), memory_line(10e9, name="far"), compute_line(PEAK, 400e9)]
    assert frame_of(lines, []).right > PEAK / 10e9


def test_memory_alone_does_not_stretch_the_frame() -> None:
    """Without a compute ceiling the server lets memory lines run to the highest intensity there is."""
    line = memory_line(40e9, 40e9 * 2**12)
    assert frame_of([line], [point()]) == frame_of([], [point()])


@pytest.mark.parametrize(
    ("levels", "traffic"),
    [(["minimum"], "minimum"), (["dram"], "DRAM"), (["minimum", "dram"], "DRAM or minimum"), ([], "minimum")],
)
def test_axis_says_which_bytes_the_intensity_is_over(levels: list[str], traffic: str) -> None:
    points = [point(f"worker:{n}")._replace(level=level) for n, level in enumerate(levels)]
    (axis,) = figure_of(report(roofs=[roof()], points=points)).axes
    assert axis.get_xlabel() == f"Arithmetic intensity over {traffic} traffic (FLOP/byte)"
