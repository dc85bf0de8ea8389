"""Logarithmic planes: their shape, and numbers at axes in one style, none cut off at the end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from roofline_client.plots.scales import LEAST_DECADES, Frame, performance, set_plane, shaped, tick, unit_for


def ticks(frame: Frame) -> tuple[list[str], list[str]]:
    """Those that are seen, across and up."""
    figure = Figure(figsize=(6, 4))
    axis = figure.subplots()
    set_plane(axis, frame, "x", "y", 1.0)
    figure.draw_without_rendering()
    return tuple(  # type: ignore[return-value]
        [t.label1.get_text() for t in side.get_major_ticks() if low <= t.get_loc() <= high]
        for side, low, high in (
            (axis.xaxis, frame.left, frame.right),
            (axis.yaxis, frame.bottom, frame.top),
        )
    )


def test_numbers_with_prefixes_are_alike_on_both_axes() -> None:
    figure = Figure(figsize=(6, 4))
    axis = figure.subplots()
    set_plane(axis, Frame(500.0, 5e7, 500.0, 5e7), "x", "y", prefixed=True)
    figure.draw_without_rendering()
    for side in (axis.xaxis, axis.yaxis):
        shown = [t.label1.get_text() for t in side.get_major_ticks() if 500 <= t.get_loc() <= 5e7]
        assert shown == ["1 k", "10 k", "100 k", "1 M", "10 M"]


def test_numbers_with_prefixes_have_room_on_narrow_axes() -> None:
    figure = Figure(figsize=(3, 3))
    axis = figure.subplots()
    set_plane(axis, Frame(1.0, 1e10, 1.0, 1e10), "x", "y", prefixed=True)
    figure.draw_without_rendering()
    boxes = [t.label1.get_window_extent() for t in axis.xaxis.get_major_ticks() if t.label1.get_text()]
    shown = sorted((box.x0, box.x1) for box in boxes if box.width)
    assert len(shown) > 2 and all(end < begin for (_, end), (begin, _) in pairwise(shown))


def test_fast_machines_have_axes_in_teraflops() -> None:
    assert performance(1e12) == (1e9, "GFLOP/s") and performance(2e13) == (1e12, "TFLOP/s")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.5, 2000.0, ["1", "10", "100", "1000"]),
        (0.01, 999.0, ["0.01", "0.1", "1", "10", "100"]),
        (0.5, 20000.0, ["10⁰", "10¹", "10²", "10³", "10⁴"]),
        (1e-4, 1.0, ["10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰"]),
        (1e3, 2e5, ["10³", "2·10³", "5·10³", "10⁴", "2·10⁴", "5·10⁴", "10⁵", "2·10⁵"]),
    ],
)
def test_an_axis_has_one_style(low: float, high: float, expected: list[str]) -> None:
    across, up = ticks(Frame(low, high, low, high))
    assert across == expected and up == expected


limits = st.floats(1e-9, 1e15)


@given(limits, st.floats(1.01, 1e12), limits, st.floats(1.01, 1e12))
def test_shape_is_within_its_bounds_and_loses_nothing(
    left: float, wide: float, bottom: float, high: float
) -> None:
    frame = Frame(left, left * wide, bottom, bottom * high)
    found, ratio = shaped(frame, 0.5, 1.0)
    across, up = found.decades
    assert 0.5 - 1e-6 <= ratio <= 1 + 1e-6 and ratio == pytest.approx(up / across)
    assert min(across, up) >= LEAST_DECADES - 1e-6
    near = 1 + 1e-9
    assert found.left <= frame.left * near and found.right * near >= frame.right
    assert found.bottom <= frame.bottom * near and found.top * near >= frame.top


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0.01, "0.01"), (500, "500"), (1e-7, "10⁻⁷"), (2e8, "2·10⁸"), (0, "0"), (10000, "10000"), (1e5, "10⁵")],
)
def test_ticks_are_short(number: float, expected: str) -> None:
    assert tick(number) == expected


@pytest.mark.parametrize(
    ("unit", "largest", "expected"),
    [
        ("s", 0.05, (1e-3, "ms")),
        ("s", 70.0, (1.0, "s")),
        ("byte", 3e6, (2.0**20, "MiB")),
        ("FLOP", 5e9, (1e9, "GFLOP")),
        ("J", 0.5, (1.0, "J")),
        ("s", 1e-12, (1e-9, "ns")),
    ],
)
def test_numbers_are_written_in_a_multiple_of_their_unit(
    unit: str, largest: float, expected: tuple[float, str]
) -> None:
    assert unit_for(unit, largest) == expected
