"""Answers as DataFrames, notebooks' HTML and pictures, asked for as a user does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from roofline.answers.roofline import RoofPoint
from roofline.v1 import query_pb2 as pb
from roofline_client import Client, ClientError, Refused, connect
from roofline_client.errors import UsageError
from roofline_client.results import RooflineResult
from roofline_client.tables.flat import SUFFIXES, UNITS

from . import models, reports
from .chunks import BEGIN, introductions, message, slices, steps
from .fake_server import Asked, answer, chunks, serving
from .reports import report, roof
from .verdicts import verdict

ANSWERS = {
    **{model.method: answer(model.message()) for model in models.MODELS.values()},
    "GetMachines": answer(models.machines()),
    "GetSteps": chunks(message("steps", steps(), ["a note"]), message("steps", steps("worker:1"))),
    "GetTimeline": chunks(
        message("timeline", introductions()), message("timeline", slices("steps", [(0, 10), (10, 20)]))
    ),
    "Export": chunks(
        message("marks", {"rank": ["worker:0"], "time_ns": [BEGIN]}),
        message("calls", {"rank": ["worker:0"] * 2, "begin_ns": [BEGIN, None]}),
    ),
    "GetStragglers": answer(
        pb.Stragglers(
            job="42",
            verdict="worker:1 holds the others up",
            causes=[pb.Cause(rank="worker:1", kind="cpu", cost=models.value(0.01, "s"), evidence=["a", "b"])],
            ranks=[pb.RankWaits(rank="worker:0", role="worker", values={"wait": models.value(0.01, "s")})],
        )
    ),
    "GetEfficiency": answer(models.efficiency()),
    "jobs": answer(pb.ListJobsResponse(jobs=[pb.Job(job="42", tags={"nodes": "1"}, begin_ns=BEGIN)])),
}
Ask = Callable[[Client], Any]
RESULTS: dict[str, Ask] = {
    "roofline": lambda c: c.job("42").roofline(),
    "time_roofline": lambda c: c.job("42").time_roofline(),
    "trajectory": lambda c: c.experiment("scaling").trajectory(over="nodes"),
    "breakdown": lambda c: c.job("42").breakdown(),
    "efficiency": lambda c: c.job("42").efficiency(),
    "stragglers": lambda c: c.job("42").stragglers(),
    "steps": lambda c: c.job("42").steps(),
    "timeline": lambda c: c.job("42").timeline(),
    "export": lambda c: c.job("42").export(),
    "jobs": lambda c: c.jobs(),
    "machines": lambda c: c.machines(),
}


@pytest.fixture(scope="module")
def site() -> Iterator[Asked]:
    with serving(**ANSWERS) as asked:
        yield asked


@pytest.fixture(scope="module")
def client(site: Asked) -> Iterator[Client]:
    with connect(site.address) as made:
        yield made


@pytest.mark.parametrize("name", RESULTS)
def test_every_table_of_every_answer_is_a_frame(client: Client, name: str) -> None:
    result = RESULTS[name](client)
    assert result.tables
    for table in result.tables:
        frame = result.to_pandas(table)
        assert isinstance(frame, pd.DataFrame) and len(frame.columns) > 1, table
    assert len(result.to_pandas()) > 0
    assert result.to_pandas().equals(result.to_pandas(result.tables[0]))


@pytest.mark.parametrize("name", RESULTS)
def test_table_that_is_none(client: Client, name: str) -> None:
    with pytest.raises(ClientError, match=r"no table 'nonsense'.* it has "):
        RESULTS[name](client).to_pandas("nonsense")


@pytest.mark.parametrize("name", RESULTS)
def test_shown_in_a_notebook_and_printed(client: Client, name: str) -> None:
    result = RESULTS[name](client)
    page = result._repr_html_()
    assert page.startswith("<div") and page.endswith("</div>") and "<table>" in page
    assert "42" in page or "node1" in page
    assert "\x1b" not in str(result) and str(result) != repr(result)


def test_points_have_units_in_their_columns(client: Client) -> None:
    frame = client.job("42").roofline().to_pandas()
    first = frame.iloc[0]
    assert first["job"] == "42" and first["label"] == "worker:0"
    assert first["intensity_flops_per_byte"] == 24.0 and first["flops_per_second"] == 3e11
    assert first["time_seconds"] == 1.8 and first["headroom"] == 3.2
    assert first["flops_spread_p50_flops_per_second"] == 3e11 and first["flops_spread_count"] == 60
    assert frame.attrs["units"]["intensity_flops_per_byte"] == "FLOP/byte"
    assert first["intensity_provenance"] == "measured"


def test_what_is_absent_is_nan_with_its_reason(client: Client) -> None:
    frame = client.job("42").roofline().to_pandas()
    second = frame.iloc[1]
    assert pd.isna(second["intensity_flops_per_byte"]) and second["intensity_reason"] == models.WHY
    assert frame["flops_per_joule"].isna().all() and frame["flops_per_joule"].dtype == float
    assert frame["intensity_flops_per_byte"].dtype == float


def test_roofs_are_rows_of_vertices(client: Client) -> None:
    roofs = client.job("42").roofline().to_pandas("roofs")
    line = roofs[roofs["name"] == "dram.triad"]
    assert list(line["intensity_flops_per_byte"]) == [0.25, 50.0]
    assert list(line["flops_per_second"]) == [10e9, 2e12]
    assert set(client.job("42").roofline().to_pandas("ceilings")["host"]) == {"node1"}


def test_time_roofline_has_its_panels_beside(client: Client) -> None:
    result = client.job("42").time_roofline()
    point, panel = result.to_pandas().iloc[0], result.to_pandas("panels").iloc[0]
    assert (point["panel_host"], point["panel_precision"], point["launches"]) == ("node1", "f32", 60)
    assert panel["compute_value"] == 2e12 and panel["compute_unit"] == "FLOP/s"
    assert pd.isna(panel["launch_overhead_seconds"]) and "launch" in panel["launch_overhead_reason"]
    assert len(result.to_pandas("isocurves")) == 2


def test_trajectory_is_in_order(client: Client) -> None:
    frame = client.experiment("scaling").trajectory("nodes").to_pandas()
    assert list(frame["at"]) == ["1", "2", "4"] and set(frame["path"]) == {"worker"}
    assert list(frame["throughput_unit"].unique()) == ["examples/s"]
    assert frame["speedup"].is_monotonic_increasing and frame["flops_per_second"].iloc[0] == 3e11


def test_breakdown_parts_say_their_unit(client: Client) -> None:
    frame = client.job("42").breakdown().to_pandas()
    widths = frame[frame["kind"] == "flops_by_width"]
    assert widths["share"].sum() == pytest.approx(1.0) and set(widths["value_unit"]) == {"FLOP"}
    assert pd.isna(frame["value"].iloc[2]) and frame["value_reason"].iloc[2] == models.WHY


def test_steps_keep_whole_times_and_their_names(client: Client) -> None:
    result = client.job("42").steps()
    frame = result.to_pandas()
    assert len(frame) == 6 and list(frame["rank"].unique()) == ["worker:0", "worker:1"]
    assert frame["begin_ns"].dtype == "int64" and frame["begin_ns"].iloc[0] == BEGIN
    assert frame["cpu_time"].isna().sum() == 2 and frame["cpu_time"].dtype == float
    assert frame.attrs["units"]["cpu_time"] == "s" and result.notes == ["a note"]
    assert set(result.to_pandas("columns")["column"]) == set(frame.columns)


def test_pieces_with_other_columns_go_together(client: Client) -> None:
    frame = client.job("42").timeline().to_pandas()
    assert list(frame.columns[:4]) == ["rank", "host", "row", "name"]
    assert len(frame) == 6 and list(frame["row"][-2:]) == ["steps", "steps"]
    assert list(frame["host"][-2:]) == ["", ""] and frame["error"].notna().sum() == 1
    assert frame["begin_ns"].dtype == "int64" and frame["end_ns"].iloc[-1] == BEGIN + 20


def test_raw_data_is_a_table_a_dataset(client: Client, tmp_path: Path) -> None:
    result = client.job("42").export()
    assert result.tables == ("marks", "calls", "columns")
    begins = result.to_pandas("calls")["begin_ns"]
    assert begins.iloc[0] == BEGIN and begins.isna().iloc[1]  # not through a float, which would round it
    assert result.write(str(tmp_path / "raw")) == {"marks": 1, "calls": 2}
    client.job("42").timeline().write(str(tmp_path / "t.json"))
    assert (tmp_path / "t.json").read_text().startswith("{")


def test_waits_and_their_causes(client: Client) -> None:
    result = client.job("42").stragglers()
    assert result.to_pandas("causes").iloc[0]["cost_seconds"] == 0.01
    assert result.to_pandas().iloc[0]["wait_seconds"] == 0.01
    assert "worker:1 holds the others up" in result._repr_html_()


def test_machines_and_jobs_stay_lists(client: Client) -> None:
    machines, jobs = client.machines(), client.jobs()
    assert machines[0].machine.host == "node1" and len(machines) == 1
    assert list(machines.to_pandas("ceilings")["name"]) == ["peak.f32.512", "dram.triad"]
    assert jobs[0].job == "42" and jobs.to_pandas().iloc[0]["tags"] == "nodes=1"


def test_report_is_a_row_a_rank() -> None:
    from roofline_client.results import ReportResult

    members = [reports.rank("ps:0", what=reports.empty_summary()), reports.rank()]
    made = report(members, [roof()], verdict=verdict())
    result = ReportResult(made)
    ranks = result.to_pandas()
    assert list(ranks["rank"]) == ["ps:0", "worker:0"]
    assert ranks["step_time_median_seconds"].iloc[1] == 0.0652
    assert pd.isna(ranks["step_time_median_seconds"].iloc[0])
    assert ranks["step_time_median_reason"].iloc[0] == "nobody measured it"
    assert {"flops_per_second", "intensity_minimum_flops_per_byte", "memory_peak_bytes"} <= set(ranks.columns)
    values = result.to_pandas("values")
    assert {"metric", "value", "unit", "provenance", "reason"} <= set(values.columns)
    for table in result.tables:
        assert len(result.to_pandas(table)) > 0, table
    assert "worker:0" in result._repr_html_()
    assert str(result).splitlines()[0].startswith("Job 42") and "BOTTLENECK" in str(result)
    assert "Settings and facts" in result.full() and "Settings and facts" not in str(result)
    assert result.html().startswith("<!DOCTYPE html>")
    assert list(result.to_pandas("findings")["cost_seconds"]) == [0.0761, 0.0761]


# -- what is asked ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("", (None, None)),
        ("3:9", (3, 9)),
        (7, (7, 7)),
        ((3, None), (3, None)),
        (":9", (None, 9)),
        (tuple(pd.Series([3, 9])), (3, 9)),
    ],
)
def test_steps_are_said_in_several_ways(site: Asked, client: Client, given: Any, asked: Any) -> None:
    client.job(42).roofline(kind="hierarchical", points="phase", steps=given, ranks=["worker:0"])
    request = site.requests[-1]
    subject = request.subject
    known = [getattr(subject, f) if subject.HasField(f) else None for f in ("first_step", "last_step")]
    assert (subject.job, *known, list(subject.ranks)) == ("42", *asked, ["worker:0"])
    assert (request.kind, request.points) == ("hierarchical", "phase")


def test_experiment_is_a_name_or_jobs(site: Asked, client: Client) -> None:
    client.experiment(jobs=[1, "2"]).trajectory(over="batch", roles=["ps"])
    assert list(site.requests[-1].jobs) == ["1", "2"] and site.requests[-1].over == "batch"
    client.experiment(jobs=pd.Series(["1", "2"])).trajectory(over="batch")
    assert list(site.requests[-1].jobs) == ["1", "2"]
    client.experiment("scaling").time_roofline(over="batch")
    assert (site.requests[-1].experiment, site.requests[-1].subject.job) == ("scaling", "")
    for wrong in ({}, {"name": "a", "jobs": ["1"]}):
        with pytest.raises(Refused, match="experiment"):
            client.experiment(**wrong)


def test_steps_that_are_none(client: Client) -> None:
    with pytest.raises(Refused, match="FIRST:LAST"):
        client.job("42").roofline(steps="a:b")
    for wrong in ((1, 2, 3), (1.5, None), ("1", "2"), (True, None)):
        with pytest.raises(UsageError, match=r"must be \(FIRST, LAST\)"):
            client.job("42").roofline(steps=wrong)  # type: ignore[arg-type]


def test_a_closed_client_says_so(site: Asked) -> None:
    with connect(site.address) as client:
        job = client.job("42")
    for ask in (job.report, lambda: job.steps().to_pandas()):
        with pytest.raises(ClientError, match=r"this client of .* is closed: connect again"):
            ask()


# -- HTML ------------------------------------------------------------------------------------------


def test_names_cannot_become_html() -> None:
    evil = "<script>alert(1)</script>"
    record = models.made("roofline")
    point = record.points[0]._replace(label=evil, words=evil, bound=evil, incomplete=evil)
    head = record.about._replace(jobs=[evil])
    result = RooflineResult(record._replace(points=[point], notes=[evil], about=head))
    page = result._repr_html_()
    assert "<script" not in page and page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 5


def test_notes_and_reasons_are_shown(client: Client) -> None:
    page = client.job("42").roofline()._repr_html_()
    assert "a note" in page and models.WHY in page and "AMX FLOPs are not counted" in page


# -- pictures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["roofline", "time_roofline", "trajectory", "breakdown", "steps"])
def test_picture_of_each(client: Client, name: str) -> None:
    figure = RESULTS[name](client).plot()
    assert isinstance(figure, Figure) and figure.axes
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["roofline", "time_roofline", "trajectory"])
def test_picture_on_axes_of_ones_own(client: Client, name: str) -> None:
    axes: Axes = Figure().subplots()
    assert RESULTS[name](client).plot(ax=axes) is axes
    assert axes.lines or axes.collections or axes.patches


def test_picture_of_steps_has_axes_for_each_rank(client: Client) -> None:
    axes = list(Figure().subplots(2))
    assert client.job("42").steps().plot(ax=axes) is axes
    assert all(axis.lines or axis.collections or axis.patches for axis in axes)
    with pytest.raises(ClientError, match="not 1"):
        client.job("42").steps().plot(ax=axes[0])


@pytest.mark.parametrize("kind", ["hierarchical", "network"])
def test_picture_of_other_rooflines(kind: str) -> None:
    record: Any = models.roofline(kind)
    with serving(GetRoofline=answer(record)) as asked, connect(asked.address) as client:
        assert isinstance(client.job("42").roofline(kind=kind).plot(), Figure)


def test_answer_without_picture_says_so(client: Client) -> None:
    with pytest.raises(ClientError, match="to_pandas"):
        client.job("42").stragglers().plot()


# -- how it is built -------------------------------------------------------------------------------


def test_every_unit_has_a_word() -> None:
    assert set(UNITS.values()) <= set(SUFFIXES)


def test_number_in_another_unit_is_not_passed_off() -> None:
    record = models.made("roofline")
    point = record.points[0]
    wrong = point._replace(time=point.time._replace(unit="ms"))
    with pytest.raises(ClientError, match=r"time in 'ms'.*'s'"):
        RooflineResult(record._replace(points=[wrong])).to_pandas()


def test_asking_loads_neither_pandas_nor_matplotlib() -> None:
    code = (
        "import roofline_client, sys; c = roofline_client.connect('127.0.0.1:9');"
        "c.job(1), c.experiment('x');"
        "print(sorted({'pandas', 'matplotlib', 'rich', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_field_of_a_point_is_in_its_table(client: Client) -> None:
    columns = client.job("42").roofline().to_pandas().columns
    for field in RoofPoint._fields:
        assert any(name.startswith(field) for name in columns), field


def test_one_name_may_come_without_its_list(site: Asked, client: Client) -> None:
    job = client.job("42")
    for ask in (job.roofline, job.time_roofline, job.breakdown):
        ask(ranks="ddp:0")
        assert list(site.requests[-1].subject.ranks) == ["ddp:0"]
    for ask in (job.steps, job.timeline):
        assert ask(ranks="ddp:0").record is not None
        assert list(site.requests[-1].ranks) == ["ddp:0"]
    client.experiment(jobs="42").trajectory(over="batch", roles="ps")
    assert (list(site.requests[-1].jobs), list(site.requests[-1].roles)) == (["42"], ["ps"])


def test_steps_in_which_no_step_is(client: Client) -> None:
    with pytest.raises(Refused, match="the first comes after the last"):
        client.job("42").steps((5, 3))
