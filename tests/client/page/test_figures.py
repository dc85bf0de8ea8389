"""What the page draws, from records."""

from __future__ import annotations

from typing import Any

from roofline.answers.roofline import Roofline
from roofline.convert import from_message
from roofline_client.page import account_figure, roofline_figure
from roofline_client.plots import style

from .. import models, verdicts


def test_an_account_adds_up_to_its_step_and_has_the_colours_of_plots() -> None:
    found = verdicts.account("worker:0", 0.1, compute=0.6, input=0.3, wait_ranks=0.1)
    figure = account_figure.accounts([found, found._replace(rank="worker:1")])
    assert sum(bar["x"][0] for bar in figure["data"]) == 100  # ms
    assert {bar["marker"]["color"] for bar in figure["data"]} == {
        style.account_colour(part) for part in ("compute", "input", "wait_ranks")
    }
    assert all(bar["y"] == ["worker:0", "worker:1"] for bar in figure["data"])
    assert all("a step" in bar["customdata"][0] for bar in figure["data"])


def test_no_accounts_are_an_empty_picture() -> None:
    assert account_figure.accounts([])["data"] == []


def test_ranks_that_are_not_shown_are_counted() -> None:
    found = [verdicts.account(f"worker:{number}", 0.1, compute=1.0) for number in range(80)]
    figure, table = account_figure.accounts(found), account_figure.accounts_table(found)
    assert figure["layout"]["xaxis"]["title"]["text"].endswith("; the worst 64 of 80 ranks")
    assert table.rows[-1][0] == ["  and 16 more", "", ""]
    assert "worst" not in account_figure.accounts(found[:64])["layout"]["xaxis"]["title"]["text"]
    assert len(account_figure.accounts_table(found[:64]).rows) == 64


def test_points_that_are_not_in_the_table_are_counted() -> None:
    found = roofline()
    table = roofline_figure.roofline_table(found._replace(points=found.points[:1] * 66))
    assert table.rows[-1][0] == ["  and 2 more", "", "", "", ""]


def roofline() -> Roofline:
    return from_message(Roofline, models.roofline())  # type: ignore[no-any-return]


def test_points_stand_under_the_roof_of_their_node() -> None:
    figure = roofline_figure.roofline(roofline(), {}, "steady steps")
    roofs = [one for one in figure["data"] if one["mode"] == "lines"]
    points = [one for one in figure["data"] if one["mode"] == "markers"]
    assert roofs and points
    assert all("measured" in one["hovertemplate"] or "(" in one["hovertemplate"] for one in roofs)
    assert "FLOP/s" in points[0]["customdata"][0] and "steady steps" in points[0]["customdata"][0]


def test_a_trail_ends_where_the_point_is() -> None:
    found = roofline()
    point = next(one for one in found.points if one.intensity.value and one.flops_per_second.value)
    figure = roofline_figure.roofline(found, {point.label: [(60.0, 2.0, 1e9), (10.0, 3.0, 2e9)]}, "")
    (trail,) = [one for one in figure["data"] if one["mode"] == "lines+markers"]
    assert trail["x"] == [2.0, 3.0, point.intensity.value]
    assert trail["customdata"] == ["60 s ago", "10 s ago", "now"]


def test_a_legend_of_many_points_would_leave_no_room_for_them() -> None:
    found = roofline()
    point = next(one for one in found.points if one.intensity.value and one.flops_per_second.value)
    layouts = [
        roofline_figure.roofline(found._replace(points=[point] * n), {}, "")["layout"] for n in (12, 13)
    ]
    assert [layout["showlegend"] for layout in layouts] == [True, False]


def test_without_points_the_picture_says_why() -> None:
    figure = roofline_figure.roofline(roofline()._replace(points=[], notes=["no <rank> has FLOPs"]), {}, "")
    assert figure["layout"]["annotations"][0]["text"] == "no &lt;rank&gt; has FLOPs"


def test_names_from_a_training_are_no_html() -> None:
    evil = '<a href="javascript:alert(1)">x</a>'
    shown = texts(account_figure.accounts([verdicts.account(evil, 0.1, compute=1.0)])["data"])
    assert "<a" not in shown and "&lt;a" in shown


def texts(thing: Any) -> str:
    if isinstance(thing, dict):
        return "".join(texts(value) for name, value in thing.items() if name != "hovertemplate")
    return "".join(map(texts, thing)) if isinstance(thing, list) else str(thing)
