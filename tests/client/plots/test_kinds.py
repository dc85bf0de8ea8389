"""What pictures show of odd answers: few points and many, absent values, gaps, equal decades."""

from __future__ import annotations

import math

import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from roofline.answers.roofline import Roof, RoofPoint
from roofline_client import plots
from roofline_client.errors import NothingToDraw
from roofline_client.plots.point_labels import names_of, spots_of
from roofline_client.tables.names import short_hosts

from ..reports import absent, seen
from . import models, time_models
from .drawing import drawn, seen_text
from .models import point, roofline, xeon_roof


def markers(axis: Axes) -> list[Line2D]:
    return [line for line in axis.lines if line.get_marker() not in (None, "None", "")]


PLANES = {
    "roofline": roofline([point()], [xeon_roof()]),
    "hierarchical": roofline([point(level="l1")], [xeon_roof(hierarchical=True)], "hierarchical"),
    "network": roofline([point(level="network", intensity=190.0)], [models.network_roof()], "network"),
    "time": time_models.time_roofline(time_models.v100([time_models.time_point()])),
    "trajectory": models.vgg16(),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(PLANES))
def test_decades_are_equal(kind: str) -> None:
    figure, _ = drawn(PLANES[kind], kind)
    axis = figure.axes[0]
    box, ((left, right), (bottom, top)) = axis.get_window_extent(), (axis.get_xlim(), axis.get_ylim())
    across, up = box.width / math.log10(right / left), box.height / math.log10(top / bottom)
    assert up == pytest.approx(across, rel=1e-3)


@pytest.mark.slow
def test_incomplete_counts_are_hollow_and_named() -> None:
    figure, texts = drawn(
        roofline(
            [point(), point("chief:0", 1.0, 1e10, incomplete="AMX FLOPs are not counted")], [xeon_roof()]
        )
    )
    faces = {line.get_markeredgecolor(): line.get_markerfacecolor() for line in markers(figure.axes[0])}
    assert list(faces.values()).count("white") == 1
    assert (
        seen_text(texts, "chief:0: incomplete (AMX FLOPs are not counted).") and "incomplete counts" in texts
    )


@pytest.mark.slow
def test_theory_is_dashed_and_what_was_measured_is_not() -> None:
    figure, _ = drawn(PLANES["roofline"])
    lines = [line for line in figure.axes[0].lines if line.get_marker() in (None, "None", "")]
    dashed = [line for line in lines if line.is_dashed()]
    assert [float(line.get_ydata()[0]) for line in dashed] == [pytest.approx(1305.6e9)]  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize("number", [0.0, math.nan, math.inf, -1.0, None])
def test_what_has_no_place_on_the_axes_is_named(number: float | None) -> None:
    gone = point("ps:0")._replace(
        flops_per_second=absent("FLOP/s", "no PMU") if number is None else seen(number, "FLOP/s")
    )
    figure, texts = drawn(roofline([point(), gone], [xeon_roof()]))
    assert len(markers(figure.axes[0])) == 1
    assert seen_text(texts, "ps:0: not drawn (" + ("no FLOP/s: no PMU" if number is None else f"{number:g}"))


@pytest.mark.slow
def test_headroom_of_few_points() -> None:
    _, texts = drawn(roofline([point("worker:0", 4.2, 1e11)], [xeon_roof()]))
    assert "5.4×" in texts and "headroom to the roof" in texts
    many = [point(f"worker:{n}", 1.5**n, 1e9 * 2**n) for n in range(8)]
    assert "headroom to the roof" not in drawn(roofline(many, [xeon_roof()]))[1]


@pytest.mark.slow
def test_headroom_of_several_points_names_each_point() -> None:
    long = "convolution backward_weights of 64x56x56x64"
    points = [point("worker:0", 4.2, 1e11), point("chief:0", 4.4, 3e10), point(long, 4.0, 1e10, role="ddp")]
    _, texts = drawn(roofline(points, [xeon_roof()]))
    assert {"worker:0 5.4×", "chief:0 19×", "1: 51×"} <= texts


def test_measured_label_keeps_off_the_theoretical_line_just_above() -> None:
    # Below the line an arrow is in the way.
    figure, _ = drawn(roofline([point("worker:0", 60.0, 4e10)], [xeon_roof()]))
    axis = figure.axes[0]
    places = {t.get_text(): t.get_position()[1] for t in axis.texts if t.get_visible()}
    measured, theory = (
        next(at for text, at in places.items() if text.startswith(f"FP32 512-bit {word}"))
        for word in ("FMA", "theoretical")
    )
    low, high = (
        axis.transData.transform((1.0, peak))[1] for peak in (models.PEAK_512 * 0.93, models.PEAK_512)
    )
    assert measured < low < high < theory


@pytest.mark.slow
def test_level_whose_ceiling_lies_on_another_is_named() -> None:
    roof = xeon_roof()
    near = models.line("l3.read", "L3 read 140.0 GB/s", "memory", 140e9, models.PEAK_512 * 0.93)
    other = near._replace(name="dram.read", label="DRAM read 130.0 GB/s", level="dram")
    _, texts = drawn(roofline([point()], [roof._replace(lines=[*roof.lines, near, other])]))
    assert seen_text(texts, "node1: hidden, because each overlaps another line: L3 read 140.0 GB/s.")
    assert not seen_text(texts, "DRAM read 130.0")  # the triad tells of DRAM
    assert not seen_text(drawn(roofline([point()], [roof]))[1], "would lie on others")


@pytest.mark.slow
def test_many_ranks_have_the_names_of_the_slowest_and_fastest() -> None:
    ranks = [point(f"worker:{n}", 2 * 1.15**n, 1e10 * 1.16**n, flops_spread=None) for n in range(32)]
    _, texts = drawn(roofline(ranks, [xeon_roof()]))
    assert {text for text in texts if text.startswith("worker:")} == {"worker:0", "worker:31"}
    assert any(text.startswith("worker (32 ranks): ") for text in texts)


@pytest.mark.slow
def test_ranks_on_one_spot_have_one_name() -> None:
    same = [point(f"worker:{n}", flops=3e11 * (1 + 0.003 * n)) for n in range(8) if n != 4]
    assert "worker:0-3,5-7" in drawn(roofline(same, [xeon_roof()]))[1]
    assert [spot.name for spot in spots_of([point("ps:0"), *same])] == ["ps:0", "worker:0-3,5-7"]


def test_names_of_ranks() -> None:
    assert names_of(["a:1", "a:2", "a:9"]) == "a:1-2,9"
    assert names_of(["a:1", "b:2"]) == "a:1, b:2"
    assert names_of(["alone"]) == "alone"


@pytest.mark.slow
def test_steps_of_a_rank_are_a_cloud_with_one_name() -> None:
    steps = [
        point(f"worker:0 step {n}", 4 + 0.01 * n, 3e11 * (1 + 0.002 * (n % 40)), kind="step", rank="worker:0")
        for n in range(200)
    ]
    figure, texts = drawn(roofline(steps, [xeon_roof()]))
    assert len(markers(figure.axes[0])) == 200 and "worker:0" in texts
    assert not any("step 1" in text for text in texts)


@pytest.mark.slow
def test_long_names_are_numbers_with_a_key() -> None:
    long = "convolution backward_weights jit:avx512_core 64x56x56x64"
    _, texts = drawn(roofline([point(long, role="worker", kind="kernel")], [xeon_roof()]))
    assert "1" in texts and seen_text(texts, f"1 {long}.")


@pytest.mark.slow
def test_names_are_cleaned_and_no_mathematics() -> None:
    name = "$\\x$\x1b[31m_{"
    record = roofline([point(name, role="worker", host=name)], [xeon_roof(name)], notes=["a\nb $x$"])
    _, texts = drawn(record)
    assert seen_text(texts, "$\\x$?[31m_{") and seen_text(texts, "a?b $x$")


@pytest.mark.slow
def test_nodes_have_panels_and_a_scale_together() -> None:
    hosts = ("a.org", "b.org", "c.org")
    roofs = [xeon_roof(host, 0.1 + n) for n, host in enumerate(hosts)]
    figure, _ = drawn(roofline([point(f"worker:{n}", host=host) for n, host in enumerate(hosts)], roofs))
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["a", "b", "c"]
    assert len({(axis.get_xlim(), axis.get_ylim()) for axis in figure.axes}) == 1
    assert [bool(axis.get_ylabel()) for axis in figure.axes] == [True, False, False]


@pytest.mark.slow
def test_many_nodes_of_one_machine_share_a_panel_under_the_lowest_roof() -> None:
    hosts = [f"n{n}" for n in range(9)]
    roofs = [xeon_roof(host, 1 + 0.01 * n) for n, host in enumerate(hosts)]
    points = [point(f"worker:{n}", 1.3**n, 1e10 * 2**n, host=host) for n, host in enumerate(hosts)]
    figure, texts = drawn(roofline(points, roofs))
    assert len(figure.axes) == 1 and len(markers(figure.axes[0])) == 9
    assert seen_text(texts, "under the roof of n0, the lowest of them")


def test_panels_are_in_order_of_their_nodes() -> None:
    hosts = ["n10", "n1", "n0", "n2"]
    figure, _ = drawn(roofline([point(f"worker:{n}", host=host) for n, host in enumerate(hosts)]))
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["n0", "n1", "n2", "n10"]


def gpus(count: int, host: str = "n0", scale: float = 8.0) -> tuple[list[RoofPoint], list[Roof]]:
    devices = [f"gpu {n}" for n in range(count)]
    points = [point(f"worker:{host}{n}", host=host, device=device) for n, device in enumerate(devices)]
    return points, [xeon_roof(host, scale * (1 + n / 100))._replace(device=d) for n, d in enumerate(devices)]


@pytest.mark.slow
def test_all_like_gpus_share_a_panel_and_others_have_their_own() -> None:
    points, roofs = gpus(8)
    more_points, more_roofs = gpus(8, "n1")
    old_points, old_roofs = gpus(1, "n2", 3.0)
    all_points, all_roofs = [*points, *more_points, *old_points], [*roofs, *more_roofs, *old_roofs]
    figure, texts = drawn(roofline(all_points, all_roofs))
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["16 × GPU on 2 nodes", "n2, gpu 0"]
    assert [len(markers(axis)) for axis in figure.axes] == [16, 1]
    assert seen_text(texts, "16 × GPU on 2 nodes: under the roof of n0 gpu 0, the lowest of them.")


@pytest.mark.slow
def test_a_picture_without_caption_says_how_many_kinds_of_machines_it_leaves_out() -> None:
    several = [gpus(1, f"n{n}", 2.0**n) for n in range(8)]
    record = roofline(
        [p for points, _ in several for p in points], [r for _, roofs in several for r in roofs]
    )
    figure = plots.figure("roofline", record, with_caption=False)
    assert len(figure.axes) == 6
    assert "2 more kinds of machines are not drawn." in [text.get_text() for text in figure.texts]


def test_node_without_a_roof_says_so() -> None:
    figure, texts = drawn(roofline([point(host="a"), point(host="b")], [xeon_roof("a")]))
    assert len(figure.axes) == 2
    assert seen_text(texts, "b: no roof, no ceilings were measured there.")


@pytest.mark.slow
def test_device_without_points_beside_one_with_points_is_left_out() -> None:
    gpu = xeon_roof()._replace(device="gpu 0")
    figure, _ = drawn(roofline([point()], [xeon_roof(), gpu]))
    assert len(figure.axes) == 1
    with pytest.raises(NothingToDraw, match="no FLOPs are known"):
        drawn(roofline([], [xeon_roof(), gpu]))


def test_addresses_are_not_shortened() -> None:
    assert short_hosts(["10.0.0.1", "10.0.0.2"]) == {"10.0.0.1": "10.0.0.1", "10.0.0.2": "10.0.0.2"}
    assert short_hosts(["a.x", "a.y"]) == {"a.x": "a.x", "a.y": "a.y"}


@pytest.mark.parametrize(
    ("levels", "expected"),
    [(["minimum"], "tensor bytes"), (["dram", "minimum"], "DRAM traffic or tensor bytes")],
)
def test_axis_says_which_bytes_the_intensity_is_over(levels: list[str], expected: str) -> None:
    points = [point(f"worker:{n}", 4.0 * 3**n, level=level) for n, level in enumerate(levels)]
    (axis,) = drawn(roofline(points, [xeon_roof()]))[0].axes
    assert axis.get_xlabel() == f"Arithmetic intensity over {expected} (FLOP/byte)"


def test_levels_of_one_thing_are_joined() -> None:
    points: list[RoofPoint] = [
        point(level=level, intensity=x) for level, x in (("l1", 0.5), ("l2", 2.0), ("dram", 16.0))
    ]
    figure, texts = drawn(roofline(points, [xeon_roof(hierarchical=True)], "hierarchical"), "hierarchical")
    level = [tuple(line.get_xdata()) for line in figure.axes[0].lines if len(set(line.get_ydata())) == 1]  # type: ignore[arg-type]
    assert (0.5, 16.0) in level
    assert {"over L1 traffic", "over L2 traffic", "over DRAM traffic"} <= texts
    assert len({line.get_marker() for line in markers(figure.axes[0])}) == 3


@pytest.mark.slow
def test_levels_nobody_counted_are_named() -> None:
    record = roofline([point(level="minimum")], [xeon_roof(hierarchical=True)], "hierarchical")
    _, texts = drawn(record, "hierarchical")
    assert seen_text(texts, "Bytes of L1, L2, L3, DRAM: they were not counted.")
    counted = roofline([point(level="dram"), point(level="l1", intensity=1.0)], record.roofs, "hierarchical")
    assert seen_text(drawn(counted, "hierarchical")[1], "Bytes of L2, L3: they were not counted.")


# -- network ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_batch_that_hides_the_network_is_whole_examples() -> None:
    found = point(level="network", intensity=190.0)
    for at, expected in ((102.01, "at batch 103"), (188.0000000001, "at batch 188")):
        record = roofline([found], [models.network_roof()], "network", crossings=[models.crossing(at=at)])
        assert expected in drawn(record, "network")[1]


@pytest.mark.slow
def test_sentences_on_crossings_name_their_ranks() -> None:
    crossings = [
        models.crossing(f"worker:{n}")._replace(words=words)
        for n, words in enumerate(("same", "same", "own"))
    ]
    points = [point(f"worker:{n}", 190.0 + n, level="network") for n in range(3)]
    _, texts = drawn(roofline(points, [models.network_roof()], "network", crossings=crossings), "network")
    assert seen_text(texts, "worker:0-1: same") and seen_text(texts, "worker:2: own")
