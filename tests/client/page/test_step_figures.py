"""What the page draws of steps, from records."""

from __future__ import annotations

import json
import math

from roofline_client.page import roofline_figure, step_figures
from roofline_client.plots import style

from ..plots import models
from .overviews import late, line, overview

EVIL = '<a href="javascript:alert(1)">x</a>'


def test_few_ranks_have_a_line_each() -> None:
    data = step_figures.step_times(overview([line("ddp:0", 0.1), line("ddp:1", 0.2)]))["data"]
    assert [(one["name"], one["y"]) for one in data] == [("ddp:0", [100.0]), ("ddp:1", [200.0])]
    assert data[0]["line"]["color"] == style.colour("ddp")
    assert data[0]["line"]["dash"] != data[1]["line"]["dash"]


def test_roles_that_users_name_differ_and_look_as_in_other_pictures() -> None:
    """The first choice of actor and reward is the same colour."""
    assert style.colour("actor") == style.colour("reward")
    found = overview([line("reward:0", 0.1), line("actor:0", 0.2)])
    steps = {one["name"]: one["line"]["color"] for one in step_figures.step_times(found)["data"]}
    points = [models.point(name) for name in ("actor:0", "reward:0")]
    drawn = roofline_figure.roofline(models.roofline(points), {}, "")["data"]
    plane = {one["name"]: one["marker"]["color"] for one in drawn if one["mode"] == "markers"}
    assert steps == plane
    assert steps["actor:0"] == style.colour("actor") != steps["reward:0"]


def test_many_ranks_are_a_band_around_the_median_rank() -> None:
    data = step_figures.step_times(overview([line("worker", 0.1, ranks=40)]))["data"]
    assert {one["name"]: one["y"] for one in data} == {
        "worker, longest": [110.0],
        "worker, shortest": [90.0],
        "worker, median rank": [100.0],
    }


def test_where_there_are_no_steps_the_reason_stands() -> None:
    layout = step_figures.step_times(overview(notes=["3 files cannot be read <b>"]))["layout"]
    assert [one["text"] for one in layout["annotations"]] == ["3 files cannot be read &lt;b&gt;"]


def test_a_spike_within_a_stretch_is_drawn() -> None:
    one = line("ddp:0", 0.1, 0.1)._replace(longest=[0.1, 0.9])
    (drawn,) = step_figures.step_times(overview([one], wide=10))["data"]
    assert (drawn["x"], drawn["y"]) == ([0, 9, 10, 19], [100.0, 100.0, 100.0, 900.0])


def test_steps_that_are_left_out_stand_on_grey() -> None:
    found = overview([line("ddp:0", 0.3, 0.1, 0.1, 0.5)], left_out=[True, False, False, True])
    shapes = step_figures.step_times(found)["layout"]["shapes"]
    assert [(one["x0"], one["x1"]) for one in shapes] == [(-0.5, 0.5), (2.5, 3.5)]


def test_steps_of_microseconds_are_not_rounded_to_whole_ones() -> None:
    found = overview([line("ddp:0", 1.5e-6)], [late("ddp:0", 4e-8)])
    assert step_figures.step_times(found)["data"][0]["y"] == [0.0015]
    assert step_figures.lateness(found)["data"][0]["z"] == [[0.00004]]


def test_what_is_absent_is_no_number() -> None:
    found = overview([line("ddp:0", math.nan, 0.1)], [late("ddp:0", math.nan, 0.01)])
    assert step_figures.step_times(found)["data"][0]["y"] == [None, 100.0]
    assert step_figures.lateness(found)["data"][0]["z"] == [[None, 10.0]]
    json.dumps(step_figures.numbers(found), allow_nan=False)


def test_a_row_of_several_ranks_says_which() -> None:
    rows = [late("worker:0 to worker:15", 0.0, 0.05, last=15), late("worker:16", -0.01, 0.0, first=16)]
    (drawn,) = step_figures.lateness(overview(lateness=rows))["data"]
    assert drawn["customdata"] == [[0, 15], [16, 16]] and drawn["z"][0] == [0.0, 50.0]
    assert "the furthest of 16 ranks" in drawn["hovertemplate"]
    table = step_figures.lateness_table(overview(lateness=rows))
    assert [cells[0] for cells, _ in table.rows] == ["worker:0 to worker:15", "worker:16"]


def test_no_steps_are_an_empty_picture() -> None:
    assert step_figures.lateness(overview())["data"][0]["z"] == []
    assert step_figures.step_times(overview())["data"] == []


def test_names_from_a_training_are_no_html() -> None:
    found = overview([line(EVIL, 0.1)], [late(EVIL, 0.1)])
    for figure in (step_figures.step_times(found), step_figures.lateness(found)):
        shown = json.dumps([one.get("name", one.get("y")) for one in figure["data"]])
        assert "<a" not in shown and "&lt;a" in shown
