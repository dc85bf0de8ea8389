from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofline.answers.roofline import RoofPoint
from roofline.answers.trajectory import Path
from roofline.answers.values import Provenance, Scope, Spread, Value
from roofline_server.model.roofline.points import Level
from roofline_server.model.roofline.trajectory import (
    Reading,
    comparable,
    in_order,
    level_of,
    number_of,
    path,
    pooled_point,
)
from roofline_server.sentences import trajectories as texts

G = 1e9
SPREAD = Spread(1.0, 2.0, 3.0, 4.0, 5.0, 9)


def known(number: float | None, unit: str, provenance: Provenance = Provenance.MEASURED) -> Value:
    if number is None:
        return Value(None, unit, reason="nobody counted it")
    return Value(number, unit, provenance, Scope.ROLE)


def at(
    reached: float | None, intensity: float | None, headroom: float | None = 2.0, **more: Any
) -> RoofPoint:
    made = RoofPoint(
        label="worker",
        kind="role",
        role="worker",
        rank="",
        host="node1",
        device="",
        level="minimum",
        precision="f32",
        intensity=known(intensity, "FLOP/byte"),
        flops_per_second=known(reached, "FLOP/s"),
        intensity_spread=SPREAD,
        flops_spread=SPREAD,
        time=known(1.0, "s"),
        bound="dram.triad",
        attainable=known(None if None in (reached, headroom) else reached * headroom, "FLOP/s"),  # type: ignore[operator]
        headroom=known(headroom, "1"),
        words="",
        incomplete="",
        flops_per_joule=known(None, "FLOP/J"),
    )
    return made._replace(**more)


def reading(
    job: str,
    value: str,
    reached: float | None = 100 * G,
    throughput: float | None = 10.0,
    intensity: float | None = 2.0,
    unit: str = "examples/s",
    points: dict[str, RoofPoint] | None = None,
    headroom: float | None = 2.0,
) -> Reading:
    point = at(reached, intensity, headroom)
    placed = {"minimum": point} if reached and intensity else {}
    return Reading(
        job, value, placed if points is None else points, point, known(throughput, unit), known(0.1, "s")
    )


# AlexNet of Javed, Ibrahim, Lu 2019: 311 GFLOP/s per node sink to 98 as the PS cluster grows.
ALEXNET = [
    reading("a", "1", 311 * G, 100.0, 2.0, headroom=1.2),
    reading("b", "2", 210 * G, 140.0, 2.01, headroom=1.8),
    reading("c", "8", 98 * G, 250.0, 1.99, headroom=3.8),
]


def test_jobs_compare_by_misses_only_where_the_job_stands_by_them() -> None:
    every = [Level(name, known(1.0, "FLOP/byte")) for name in ("minimum", "l2", "dram")]
    assert [level.name for level in comparable(every, "minimum")] == ["minimum"]
    assert [level.name for level in comparable(every, "dram")] == ["minimum", "dram"]
    every[2] = every[2]._replace(name="hbm")
    assert [level.name for level in comparable(every, "hbm")] == ["minimum", "hbm"]


def test_words_name_what_the_flops_are_of() -> None:
    on_gpu = at(100 * G, 2.0, 2.0)._replace(device="gpu 0")
    gpus = [reading(job, n, points={"minimum": on_gpu}) for job, n in (("a", "1"), ("b", "2"))]
    assert "FLOP/s per GPU stays" in path("worker", "nodes", gpus).words
    mixed = [reading("c", "1"), gpus[1]]
    assert "FLOP/s per GPU or node stays" in path("worker", "nodes", mixed).words


def test_path_of_the_paper() -> None:
    found = path("worker", "nodes", ALEXNET)
    assert [s.at for s in found.stops] == ["1", "2", "8"]
    assert [s.speedup.value for s in found.stops] == [1.0, 1.4, 2.5]
    assert [s.efficiency.value for s in found.stops] == [1.0, 0.7, pytest.approx(2.5 / 8)]
    assert found.words == (
        "from nodes 1 to 8 FLOP/s per node falls from 311 GFLOP/s to 98 GFLOP/s while intensity stays at 2 "
        "FLOP/byte: as much work for its bytes, but it waits more, has more overhead, or fewer ranks do it "
        "there; throughput goes from 100 examples/s to 250 examples/s, 2.5x "
        "(31% scaling efficiency at nodes 8)"
    )


values = st.sampled_from(["1", "2", "10", "02", "1.0", "-3", "b2", "b10", "x", "1e3", "nan", "²", "1_0"])
told = st.tuples(
    values,
    st.sampled_from([None, 1 * G, 5 * G, 7 * G]),
    st.sampled_from([None, 1.0, 3.0, 8.0]),
    st.sampled_from([None, 0.5, 2.0]),
    st.sampled_from(["examples/s", "steps/s"]),
)
readings = st.lists(told, min_size=1, max_size=8).map(
    lambda each: [reading(f"job {number}", *one) for number, one in enumerate(each)]
)


@settings(deadline=None)
@given(readings, st.sampled_from(["nodes", "batch", "colour"]), st.randoms(use_true_random=False))
def test_order_in_which_jobs_are_given_says_nothing(
    given_: list[Reading], over: str, shuffled: random.Random
) -> None:
    other = list(given_)
    shuffled.shuffle(other)
    assert path("worker", over, other) == path("worker", over, given_)


@settings(deadline=None)
@given(readings)
def test_every_job_is_at_one_stop(given_: list[Reading]) -> None:
    stops = path("worker", "nodes", given_).stops
    assert sorted(job for stop in stops for job in stop.jobs) == sorted(r.job for r in given_)
    assert all(stop.speedup.value is not None or stop.speedup.reason for stop in stops)
    assert all(stop.efficiency.value is not None or stop.efficiency.reason for stop in stops)


@settings(deadline=None)
@given(st.lists(values, min_size=1))
def test_order_is_total_and_loses_nothing(texts: list[str]) -> None:
    groups = in_order(texts)
    assert sorted(text for group in groups for text in group) == sorted(set(texts))
    assert groups == in_order(list(reversed(texts)))


@pytest.mark.parametrize(
    ("texts", "ordered"),
    [
        (["10", "9", "1e1", "-1"], [["-1"], ["9"], ["10", "1e1"]]),
        (["4", "04", "4.0"], [["4", "04", "4.0"]]),
        (["b10", "b2", "a"], [["a"], ["b2"], ["b10"]]),
        (["10", "9", "none"], [["9"], ["10"], ["none"]]),
        (["nan", "1"], [["1"], ["nan"]]),
    ],
)
def test_order_of_values(texts: list[str], ordered: list[list[str]]) -> None:
    assert in_order(texts) == ordered


@pytest.mark.parametrize("text", ["nan", "inf", "", "x", "1_0", "٣"])
def test_what_is_no_number(text: str) -> None:
    assert number_of(text) is None


# -- pooling ------------------------------------------------------------------------------------------------


def test_jobs_with_one_value_are_pooled_by_the_median() -> None:
    three = [
        reading("a", "4", 90 * G, 10.0),
        reading("b", "4.0", 100 * G, 30.0),
        reading("c", "4", 300 * G, 11.0),
    ]
    (stop,) = path("worker", "nodes", three).stops
    assert (stop.at, stop.jobs) == ("4", ["a", "b", "c"])
    assert (stop.point.flops_per_second.value, stop.throughput.value) == (100 * G, 11.0)
    assert stop.point.headroom.value == pytest.approx(200 / 100)
    assert stop.point.flops_spread is None, "it is over the steps of one job"


def test_point_of_a_single_job_is_as_it_was() -> None:
    assert pooled_point([at(G, 2.0)]) == at(G, 2.0)


def test_job_without_flops_takes_no_part_in_the_point() -> None:
    some = [reading("a", "4", 90 * G, 10.0), reading("b", "4", None, 30.0)]
    (stop,) = path("worker", "nodes", some).stops
    assert (stop.point.flops_per_second.value, stop.throughput.value) == (90 * G, 20.0)


def test_values_of_different_making_are_estimates_together() -> None:
    analytic = at(G, 2.0, flops_per_second=known(G, "FLOP/s", Provenance.ANALYTIC))
    assert pooled_point([at(G, 2.0), analytic]).flops_per_second.provenance == Provenance.ESTIMATED


@pytest.mark.parametrize("units", [("steps/s", "examples/s"), ("steps/s", "steps/s")])
def test_steps_are_no_measure_of_work(units: tuple[str, str]) -> None:
    """Perfect weak scaling has the same steps a second on more nodes."""
    said = [reading(at, at, throughput=10.0, unit=unit) for at, unit in zip("12", units, strict=True)]
    stops = path("worker", "nodes", said).stops
    assert [(s.speedup.value, s.efficiency.value) for s in stops[1:]] == [(None, None)]
    assert "number of examples per step" in stops[1].speedup.reason
    assert stops[1].efficiency.reason == stops[1].speedup.reason


# -- levels -------------------------------------------------------------------------------------------------


def counted(job: str, value: str, *levels: str) -> Reading:
    return reading(job, value, points={level: at(G, 3.0, level=level) for level in levels})


def test_stops_are_compared_by_a_level_that_all_know() -> None:
    some = [counted("a", "1", "minimum", "dram"), counted("b", "2", "minimum")]
    assert [s.point.level for s in path("worker", "nodes", some).stops] == ["minimum", "minimum"]
    every = [counted("a", "1", "minimum", "dram"), counted("b", "2", "minimum", "hbm")]
    assert [s.point.level for s in path("worker", "nodes", every).stops] == ["dram", "hbm"]
    assert level_of([reading("a", "1", None)]) == ""


# -- efficiency ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", ["ps", "batch", "ranks_per_node", "colour"])
def test_parameter_that_is_no_amount_of_resources_has_no_efficiency(over: str) -> None:
    found = path("worker", over, ALEXNET)
    assert [s.efficiency.value for s in found.stops] == [None] * 3
    assert all(s.efficiency.reason for s in found.stops)
    assert [s.speedup.value for s in found.stops] == [1.0, 1.4, 2.5]
    assert "efficiency" not in found.words


def test_parameter_servers_have_no_efficiency() -> None:
    stops = path("ps", "nodes", ALEXNET).stops
    assert [s.efficiency.value for s in stops] == [None] * 3
    assert "adds no compute" in stops[1].efficiency.reason
    assert stops[1].speedup.value == 1.4


@pytest.mark.parametrize("first", ["0", "-1"])
def test_growth_from_nothing_is_none(first: str) -> None:
    found = path("worker", "nodes", [reading("a", first), reading("b", "4")])
    assert [s.efficiency.value for s in found.stops if s.at == "4"] == [None]


def test_without_throughput_of_the_first_there_is_no_speedup() -> None:
    first, second = path("worker", "nodes", [reading("a", "1", throughput=None), reading("b", "2")]).stops
    assert (first.speedup.value, second.speedup.value) == (None, None)
    assert second.efficiency.reason == second.speedup.reason == "nobody counted it"


# -- words --------------------------------------------------------------------------------------------------


def words(found: Sequence[Reading], over: str = "nodes") -> str:
    made: Path = path("worker", over, found)
    return made.words


def test_one_stop_is_no_path() -> None:
    assert words([reading("a", "1")]) == texts.one_value("nodes")


def test_more_bytes_along_the_roof_and_below_it() -> None:
    first = reading("a", "1", 100 * G, intensity=4.0, headroom=1.5)
    along = words([first, reading("b", "2", 50 * G, intensity=2.0, headroom=1.5)])
    below = words([first, reading("b", "2", 50 * G, intensity=2.0, headroom=3.0)])
    unknown = words([first, reading("b", "2", 50 * G, intensity=2.0, headroom=None)])
    assert f"{texts.MORE_BYTES_ALONG_ROOF};" in along
    assert f"{texts.MORE_BYTES_BELOW_ROOF};" in below
    assert "more bytes for each FLOP;" in unknown, "without a roof nothing is said of it"


def test_turn_on_the_way_is_told() -> None:
    found = words([reading("a", "1", 10 * G), reading("b", "2", 50 * G), reading("c", "4", 10 * G)])
    assert "FLOP/s per node stays at 10 GFLOP/s over 50 GFLOP/s at 2 while" in found


def test_what_rises_is_not_explained() -> None:
    found = words([reading("a", "1", 10 * G, throughput=None), reading("b", "2", 50 * G, throughput=None)])
    assert found == (
        "from nodes 1 to 2 FLOP/s per node rises from 10 GFLOP/s to 50 GFLOP/s "
        "while intensity stays at 2 FLOP/byte"
    )


def test_role_without_points_leaves_throughput_to_the_one_that_trains() -> None:
    found = words([reading("a", "1", None, 10.0), reading("b", "2", None, 15.0)])
    assert found == "no stop has a point"
    assert words([reading("a", "1"), reading("b", "2", None)]).startswith("only 1 has a point; ")
