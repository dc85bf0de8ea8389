"""Which ceilings are drawn, and what plane holds them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from roofline.answers.roofline import Roof, RoofLine
from roofline_client.plots.label_placement import Labels
from roofline_client.plots.roofs import (
    DISTINCT,
    DISTINCT_THEORY,
    draw_roof,
    drawable,
    frame_of,
    outside,
    worth_drawing,
)
from roofline_client.plots.scales import shaped

from ..reports import PEAK, compute_line, memory_line


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
    assert names(worth_drawing(lines)) == ["triad"]
    assert names(worth_drawing([x._replace(binding=True) for x in lines])) == ["read", "triad"]


def test_theory_stands_beside_what_was_measured() -> None:
    top = compute_line(2.0e12, binding=True, name="top")
    near, same = (
        compute_line(peak, name=name)._replace(provenance="analytic")
        for peak, name in ((2.1e12, "near"), (2.01e12, "same"))
    )
    assert names(worth_drawing([same, near, top])) == ["near", "top"]


amounts = st.floats(1e6, 1e15)
compute_lines = st.builds(compute_line, amounts, binding=st.booleans())
memory_lines = st.builds(lambda a: memory_line(a, max(a, PEAK)), st.floats(1e6, 1e12))


@given(st.lists(compute_lines | memory_lines, max_size=8))
def test_drawn_ceilings_are_distinct(lines: list[RoofLine]) -> None:
    kept = worth_drawing(lines)
    assert all(line in kept for line in lines if line.binding)
    for kind in ("memory", "compute"):
        own = [x.flops[0] / (x.intensity[0] if kind == "memory" else 1) for x in kept if x.kind == kind]
        assert own == sorted(own, reverse=True)
        assert bool(own) == any(x.kind == kind for x in lines)
    free = [x.flops[0] for x in kept if x.kind == "compute" and not x.binding]
    assert all(low <= DISTINCT * high for high, low in pairwise(free))
    assert DISTINCT_THEORY > DISTINCT


places = st.tuples(st.floats(1e-4, 1e6), st.floats(1e3, 1e16))


@given(st.lists(compute_lines | memory_lines, max_size=6), st.lists(places, max_size=8))
def test_frame_holds_points_and_ridges_of_the_roof(
    lines: list[RoofLine], placed: list[tuple[float, float]]
) -> None:
    frame = frame_of(lines, placed)
    peaks = [line.flops[0] for line in lines if line.kind == "compute"]
    roof = [line for line in lines if line.binding] or lines
    # Without a compute line nothing turns flat.
    ridges = [(x.intensity[-1], max(peaks)) for x in roof if x.kind == "memory"] if peaks else []
    for wide in (frame, shaped(frame, 0.55, 0.8)[0]):
        assert all(wide.holds(x, y) for x, y in [*placed, *ridges])


def test_ceilings_that_bind_nothing_do_not_stretch_the_plane() -> None:
    roof = [memory_line(400e9, binding=True), compute_line(PEAK, 400e9, binding=True)]
    fast, slow = memory_line(40e12, name="cache"), memory_line(1e9, name="far")
    assert frame_of([*roof, fast, slow], [(9.0, 1e12)]) == frame_of(roof, [(9.0, 1e12)])


def test_ceilings_left_of_the_plane_are_in_a_note() -> None:
    fast = memory_line(40e12, name="cache")
    lines = [memory_line(400e9, binding=True), fast, compute_line(PEAK, 400e9, binding=True)]
    frame = frame_of(lines, [(9.0, 1e12)])
    assert fast.intensity[-1] < frame.left
    assert outside(lines, frame) == [f"{fast.label}: left of this picture."]
    assert outside(lines, frame._replace(left=fast.intensity[-1] / 2)) == []


def test_the_slowest_slope_comes_into_the_plane_far_enough_for_its_name() -> None:
    low = compute_line(PEAK / 20, name="scalar")
    lines = [memory_line(400e9, binding=True), compute_line(PEAK, 400e9, binding=True), low]
    frame = frame_of(lines, [(9.0, 1e12)])
    assert frame.left * 400e9 < PEAK / 8 and frame.bottom < PEAK / 8


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("BF16 amx 5484.0 GFLOP/s", "BF16 AMX 5.48 TFLOP/s"),
        ("FP32 scalar 28.4 GFLOP/s", "FP32 scalar 28.4 GFLOP/s"),
        ("L1 copy 8600.3 GB/s", "L1 copy 8600.3 GB/s"),
    ],
)
def test_labels_have_units_without_long_numbers(label: str, expected: str) -> None:
    line = compute_line(PEAK)._replace(label=label)
    assert [x.label for x in drawable(Roof("node1", "", [line], [], "", 0))] == [expected]


def test_peaks_alone_have_no_ridge() -> None:
    """Where no memory or network was measured the server lets compute lines begin far left."""
    alone = compute_line(PEAK)._replace(intensity=[1e-9, 4096.0])
    assert frame_of([alone], [(24.0, 3e11)]).left > 1e-3


def test_memory_alone_does_not_stretch_the_frame() -> None:
    """Without a compute ceiling the server lets memory lines run to the highest intensity there is."""
    line = memory_line(40e9, 40e9 * 2**12)
    assert frame_of([line], [(24.0, 3e11)]).right == frame_of([], [(24.0, 3e11)]).right


def test_a_flat_line_begins_at_a_slope_that_is_drawn() -> None:
    flat = compute_line(1e12, binding=True, name="top")._replace(intensity=[1.0, 1e4])
    slope = memory_line(1e11, 1e12, binding=True)  # the faster memory, whose ridge is at 1, is not drawn
    axis = Figure().add_subplot()
    axis.set(xscale="log", yscale="log", xlim=(0.1, 1e3), ylim=(1e9, 1e13))
    draw_roof(axis, Labels(axis), [flat, slope], frame_of([flat, slope], [(5.0, 1e11)]))
    (drawn,) = (line for line in axis.lines if len(set(line.get_ydata())) == 1)
    assert drawn.get_xdata()[0] == pytest.approx(10.0)
