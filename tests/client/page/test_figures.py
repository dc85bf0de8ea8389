"""What the page draws, from records."""

from __future__ import annotations

from typing import Any

import numpy as np
from roofline.answers.roofline import Roofline
from roofline.convert import from_message
from roofline_client.page import figures
from roofline_client.page.figures import RankSteps
from roofline_client.plots import style

from .. import models, verdicts


def line(*own_ms: int, duration_ms: int = 100, first: int = 0) -> RankSteps:
    own = np.array(own_ms, np.int64) * 1_000_000
    return RankSteps(np.arange(first, first + len(own)), np.full(len(own), duration_ms * 1_000_000), own)


def test_an_account_adds_up_to_its_step_and_has_the_colours_of_plots() -> None:
    found = verdicts.account("worker:0", 0.1, compute=0.6, input=0.3, wait_ranks=0.1)
    figure = figures.accounts([found, found._replace(rank="worker:1")])
    assert sum(bar["x"][0] for bar in figure["data"]) == 100  # ms
    assert {bar["marker"]["color"] for bar in figure["data"]} == {
        style.account_colour(part) for part in ("compute", "input", "wait_ranks")
    }
    assert all(bar["y"] == ["worker:0", "worker:1"] for bar in figure["data"])
    assert all("a step" in bar["customdata"][0] for bar in figure["data"])


def test_no_spike_is_lost_when_a_line_has_too_many_points() -> None:
    x = np.arange(100_000)
    y = np.full(100_000, 10)
    y[77_777], y[33] = 500, 1
    few_x, few_y = figures.decimated(x, y)
    assert len(few_x) <= figures.MOST_POINTS
    assert few_y.max() == 500 and few_x[few_y.argmax()] == 77_777
    assert few_y.min() == 1
    assert (np.diff(few_x) > 0).all()


def test_many_ranks_are_shown_by_role() -> None:
    lines = {f"worker:{k}": line(50, 50, duration_ms=100 + k) for k in range(40)}
    lines |= {f"ps:{k}": line(50, 50, duration_ms=10) for k in range(2)}
    roles = {rank: rank.partition(":")[0] for rank in lines}
    data = figures.step_times(lines, roles)["data"]
    shown = {one["name"]: one["y"][0] for one in data}
    assert shown == {
        "ps, longest": 10, "ps, median rank": 10, "ps, shortest": 10,
        "worker, longest": 139, "worker, median rank": 120, "worker, shortest": 100,
    }  # fmt: skip


def test_few_ranks_have_a_line_each() -> None:
    data = figures.step_times({"ddp:1": line(1), "ddp:0": line(1)}, {"ddp:0": "ddp", "ddp:1": "ddp"})["data"]
    assert [one["name"] for one in data] == ["ddp:0", "ddp:1"]
    assert data[0]["line"]["color"] == style.colour("ddp")
    assert data[0]["line"]["dash"] != data[1]["line"]["dash"]


def test_who_waits_for_others_is_not_late() -> None:
    # All steps take 100 ms, as the ranks wait for each other; the third works 40 ms longer.
    lines = {"ddp:0": line(50, 50), "ddp:1": line(50, 50), "ddp:2": line(90, 50)}
    (data,) = figures.lateness(lines)["data"]
    assert data["z"] == [[0, 0], [0, 0], [40, 0]]


def test_a_step_that_a_rank_lacks_stays_empty() -> None:
    (data,) = figures.lateness({"a:0": line(50, 50, 50), "a:1": line(50, first=2)})["data"]
    assert data["x"] == [0, 1, 2] and data["z"][1] == [None, None, 0]


def test_a_late_moment_outlives_the_pooling_of_many_steps() -> None:
    late = [50] * 5000
    late[4321] = 90
    (data,) = figures.lateness({"a:0": line(*late), "a:1": line(*[50] * 5000), "a:2": line(*[50] * 5000)})[
        "data"
    ]
    assert len(data["x"]) <= figures.MOST_POINTS and max(data["z"][0]) == 40


def test_no_steps_are_an_empty_picture() -> None:
    assert figures.lateness({})["data"][0]["z"] == []
    assert figures.step_times({}, {})["data"] == []
    assert figures.accounts([])["data"] == []


def roofline() -> Roofline:
    return from_message(Roofline, models.roofline())  # type: ignore[no-any-return]


def test_points_stand_under_the_roof_of_their_node() -> None:
    figure = figures.roofline(roofline(), {})
    roofs = [one for one in figure["data"] if one["mode"] == "lines"]
    points = [one for one in figure["data"] if one["mode"] == "markers"]
    assert roofs and points
    assert all("measured" in one["hovertemplate"] or "(" in one["hovertemplate"] for one in roofs)
    assert "FLOP/s" in points[0]["customdata"][0]


def test_a_trail_ends_where_the_point_is() -> None:
    found = roofline()
    point = next(one for one in found.points if one.intensity.value and one.flops_per_second.value)
    figure = figures.roofline(found, {point.label: [(60.0, 2.0, 1e9), (10.0, 3.0, 2e9)]})
    (trail,) = [one for one in figure["data"] if one["mode"] == "lines+markers"]
    assert trail["x"] == [2.0, 3.0, point.intensity.value]
    assert trail["customdata"] == ["60 s ago", "10 s ago", "now"]


def test_without_points_the_picture_says_why() -> None:
    figure = figures.roofline(roofline()._replace(points=[], notes=["no <rank> has FLOPs"]), {})
    assert figure["layout"]["annotations"][0]["text"] == "no &lt;rank&gt; has FLOPs"


def test_names_from_a_training_are_no_html() -> None:
    evil = '<a href="javascript:alert(1)">x</a>'
    lines = {evil: line(1), "b": line(1)}
    found = verdicts.account(evil, 0.1, compute=1.0)
    for figure in (figures.accounts([found]), figures.step_times(lines, {}), figures.lateness(lines)):
        assert "<a" not in texts(figure["data"])


def texts(thing: Any) -> str:
    if isinstance(thing, dict):
        return "".join(texts(value) for name, value in thing.items() if name != "hovertemplate")
    return "".join(map(texts, thing)) if isinstance(thing, list) else str(thing)
