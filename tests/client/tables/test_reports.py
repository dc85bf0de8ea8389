"""The same report as text, CSV, DataFrame and JSON: absent stays absent, and names are only names."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import subprocess
import sys
from typing import Any

import pandas as pd
import pytest
from rich.console import Console
from roofline.answers.jobs import Job
from roofline.answers.report import ProfilerCost, Summary
from roofline_client import ClientError
from roofline_client.results.jobs import ReportResult
from roofline_client.tables import jobs, reports
from roofline_client.tables.documents import VERSION
from roofline_client.tables.text import show

from ..reports import (
    BEGIN,
    SECOND,
    UNITS,
    absent,
    ceiling,
    empty_summary,
    part,
    rank,
    report,
    roof,
    seen,
    summary,
)
from ..verdicts import finding, verdict

HOSTILE = (
    "[bold]x[/bold]",
    "[/bold]",
    "[/]",
    "one\ntwo",
    "[link=http://x]y[/link]",
    "\\[x]",
    "back\\",
    "{0} %s",
)
JOB = Job("42", BEGIN, BEGIN + 12 * SECOND, 3, {"ps": 1, "worker": 2}, ["node1", "node2"], True, {})


@pytest.fixture
def piped(capsys: pytest.CaptureFixture[str]) -> Any:
    """What `show` prints where stdout is no terminal."""

    def shown(what: Any) -> str:
        show(what)
        return capsys.readouterr().out

    return shown


def row(text: str, begin: str) -> list[str]:
    """Cells of the first line that begins so."""
    line = next(line for line in text.splitlines() if line.strip().startswith(begin))
    return [cell for cell in line.split("  ") if cell.strip()]


def test_absent_is_a_dash_never_a_zero(piped: Any) -> None:
    text = piped(reports.as_text(report([rank(what=empty_summary()), rank("worker:1")])))
    assert {cell.strip() for cell in row(text, "worker:0 @node1")[1:]} == {"-"}
    assert {cell.strip() for cell in row(text, "worker x2")[1:]} == {"-"}


def test_tables_and_columns_that_hold_nothing_are_left_out(piped: Any) -> None:
    text = piped(reports.as_text(report([rank(what=empty_summary())], parts=[])))
    assert [
        title for title in ("Steps", "Roofline", "Resources", "step time", "FLOP/s") if title in text
    ] == []
    some = piped(reports.as_text(report([rank(what=summary(step_time_p95=None))])))
    assert "step time (median)" in some and "p95" not in some


def test_zero_is_shown_as_zero(piped: Any) -> None:
    text = piped(reports.as_text(report([rank(what=summary(steps=0.0, step_time_median=None))])))
    assert [cell.strip() for cell in row(text, "worker:0 @node1")[1:3]] == ["0", "71 ms"]


def test_values_stand_below_their_titles(piped: Any) -> None:
    text = piped(reports.as_text(report()))
    titles = next(line for line in text.splitlines() if "step time" in line)
    values = next(line for line in text.splitlines() if "worker:0" in line)
    for title, value in (("steps", "60"), ("step time (median)", "65.2 ms"), ("examples/s", "245.4")):
        assert titles.index(title) + len(title) == values.index(value) + len(value)


def test_counted_flops_have_columns_where_somebody_counted(piped: Any) -> None:
    assert "counted/s" not in piped(reports.as_text(report()))
    counted = summary(flops_per_second__measured=6e10, flops_per_step__measured=4e9)
    text = piped(reports.as_text(report([rank(what=counted), rank("worker:1")])))
    assert "counted/s" in text and "60 GFLOP/s" in text


def test_notes_are_shown_whole_and_in_order(piped: Any) -> None:
    notes = [f"note {i}: " + "why it is so, " * 20 for i in range(3)]
    text = piped(reports.as_text(report(notes=notes)))
    assert [" ".join(note.split()) in " ".join(text.split()) for note in notes] == [True] * 3
    assert text.index("note 0") < text.index("note 1") < text.index("note 2")


def test_head_says_mode_state_range_and_clock(piped: Any) -> None:
    text = piped(reports.as_text(report(first_step=10, running=True)))
    assert "running" in text and "synchronous" in text and "12.0 s" in text
    assert "steps 10 to … only" in text
    assert "node1: clock aligned to within 25 us (shortest median step 65.2 ms)" in text


def test_tags_stand_in_the_head_and_beside_each_job(piped: Any) -> None:
    tags = {"nodes": "4", "note": "a\x1b[2Jb"}
    assert "\nnodes=4, note=a?[2Jb\n" in piped(reports.as_text(report(tags=tags)))
    listed = piped(jobs.as_text([JOB._replace(tags=tags)])).splitlines()
    assert "tags" in listed[0] and "nodes=4, note=a?[2Jb" in listed[1]
    without = piped(reports.as_text(report(tags={})))
    assert without.splitlines()[1].startswith("node1: clock")


def test_clock_nobody_knows_says_why(piped: Any) -> None:
    unknown = report().alignment[0]._replace(error=absent("s", "no ping was answered yet"))
    assert "node1: clock: no ping was answered yet" in piped(reports.as_text(report(alignment=[unknown])))


def test_report_without_anybody(piped: Any) -> None:
    text = piped(reports.as_text(report(roles=[], alignment=[], notes=[])._replace(ranks=[])))
    assert "0 ranks" in text and "none measured" in text and "Notes" not in text


def test_legend_says_where_values_come_from(piped: Any) -> None:
    text = " ".join(piped(reports.as_text(report())).split())
    assert "'-' = not measured." in text
    assert "measured: " in text and "step_time_median" in text.split("measured: ")[1]
    assert "step_time_median" not in piped(reports.as_text(report([rank(what=empty_summary())])))


def test_no_escape_codes_when_piped(piped: Any) -> None:
    assert "\x1b" not in piped(reports.as_text(report(roofs=[roof()])))
    assert "\x1b" not in piped(jobs.as_text([JOB]))


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_never_markup(piped: Any, name: str) -> None:
    hostile = rank(name=name, host=name)._replace(rank=name, role=name)
    shown = piped(reports.as_text(report([hostile], [roof(name)], job=name, notes=[name], mode=name)))
    assert shown.count(name.partition("\n")[0]) >= 6
    listed = piped(jobs.as_text([JOB._replace(job=name, hosts=[name])]))
    assert listed.count(name.partition("\n")[0]) == 2


@pytest.mark.parametrize("where", ["ceiling", "bound", "role"])
def test_no_name_from_the_wire_is_markup(piped: Any, where: str) -> None:
    name = "[/bold]"
    if where == "ceiling":
        own = roof()._replace(ceilings=[ceiling(name, "compute", 1e12)])
        assert name in piped(reports.as_text(report(roofs=[own])))
    elif where == "bound":
        assert name in piped(reports.as_text(report([rank(what=summary(bound=name))])))
    else:
        assert name in piped(jobs.as_text([JOB._replace(roles={name: 1})]))


def test_names_cannot_steer_the_terminal(piped: Any) -> None:
    name = "x\x1b[2Jy\x1b]0;title\x07"
    shown = piped(reports.as_text(report([rank(host=name)], job=name, notes=[name])))
    assert "\x1b" not in shown and shown.count("x?[2Jy?]0;title?") >= 3


def test_names_are_no_emoji(piped: Any) -> None:
    assert "a:warning:b" in piped(reports.as_text(report([rank(host="a:warning:b")])))


def long_names() -> Any:
    return report([rank(host=f"gpu-node-{'x' * 150}.cluster.example.org", name="a-long-name" * 8)])


def test_nothing_is_cut_when_piped(piped: Any) -> None:
    text = piped(reports.as_text(long_names()))
    assert "…" not in text and "cluster.example.org" in text


def test_no_number_is_cut_on_a_narrow_terminal() -> None:
    counted = summary("peak.f32.512", flops_per_second__measured=6e10, attainable_flops_per_second=2e12)
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(reports.as_text(report([rank(host="node-0123.cluster", what=counted)])))
    assert "…" not in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_every_number_is_whole_on_any_terminal(width: int) -> None:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(reports.as_text(long_names()))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    for number in ("65.2 ms", "245.4", "4.32 GFLOP", "66 GFLOP/s", "1373.3", "3 MiB"):
        assert number in text


def test_ceiling_that_nobody_dated(piped: Any) -> None:
    ceilings = [ceiling("dram.triad", "memory", 4e10, time_ns=0), ceiling("dram.read", "memory", 4e10)]
    own = roof()._replace(ceilings=ceilings)
    assert row(piped(reports.as_text(report(roofs=[own]))), "node1  dram.triad")[-1].strip() == "-"


def test_ceiling_that_nobody_measured_has_no_spread(piped: Any) -> None:
    theory = ceiling("peak.f32.512.theory", "compute", 2e12, provenance="analytic")
    own = roof()._replace(ceilings=[ceiling("peak.f32.512", "compute", 1e12), theory])
    text = piped(reports.as_text(report(roofs=[own])))
    assert row(text, "node1  peak.f32.512 ")[3].strip().endswith("%")
    assert row(text, "node1  peak.f32.512.theory")[3].strip() == "-"


def test_what_holds_the_job_back_stands_first(piped: Any) -> None:
    text = piped(reports.as_text(report(verdicts=["worker:0-1: it waits\x1b"])))
    assert text.index("\nBottleneck\n  worker:0-1: it waits?\n") < text.index("\nSteps")
    assert "Bottleneck" not in piped(reports.as_text(report(verdicts=[])))


def test_what_speaks_against_a_ceiling_stands_beside_it(piped: Any) -> None:
    own = roof()._replace(ceilings=[ceiling("dram.read", "memory", 1e10, doubt="its runs differ by 80%")])
    assert (
        "its runs differ by 80%" in row(piped(reports.as_text(report(roofs=[own]))), "node1  dram.read")[-1]
    )
    assert "underestimated" not in piped(reports.as_text(report(roofs=[roof()])))


def test_jobs(piped: Any) -> None:
    text = piped(jobs.as_text([JOB, JOB._replace(job="41", running=False)]))
    assert (
        row(text, "42")[0] == "42" and "running" in text.splitlines()[1] and "ended" in text.splitlines()[2]
    )
    assert "psx1 workerx2" in text and "node1, node2" in text


def full() -> Any:
    """Every kind of cell: absent, zero, coverage, commas, quotes and line breaks in names."""
    odd = rank("worker:1", 'a,"b"\nc', summary(steps=0.0))
    partly = Summary({**summary().values, "steps": seen(3, "1")._replace(coverage=0.25)}, "", "")
    return report([rank("ps:0", what=empty_summary()), rank(what=partly), odd], [roof()])


def test_csv_is_the_rows() -> None:
    read = list(csv.reader(io.StringIO(reports.as_csv(full()))))
    assert tuple(read[0]) == reports.CSV_COLUMNS
    wanted = [["" if cell is None else str(cell) for cell in line] for line in reports.rows(full())]
    assert read[1:] == wanted


def test_every_role_and_rank_has_every_value_once() -> None:
    lines = [dict(zip(reports.CSV_COLUMNS, line, strict=True)) for line in reports.rows(full())]
    assert sum(x["subject"] in ("role", "rank") for x in lines) == (2 + 3) * len(UNITS)
    assert sum(x["subject"] == "profiler" for x in lines) == 1
    assert len({(x["subject"], x["role"], x["rank"], x["metric"]) for x in lines}) == len(lines)
    for line in lines:
        assert line["value"] is not None or line["reason"]


@pytest.mark.parametrize(
    ("ranks", "role"),
    [("ddp:1", "ddp"), ("ddp:0, ddp:1", "ddp"), ("ps:0, worker:1", ""), ("", "")],
)
def test_finding_has_the_role_of_its_ranks(ranks: str, role: str) -> None:
    found = report(verdict=verdict(bottleneck=finding(rank=ranks), also=[]))
    lines = [dict(zip(reports.CSV_COLUMNS, line, strict=True)) for line in reports.rows(found)]
    assert {(x["rank"], x["role"]) for x in lines if x["subject"] == "finding"} == {(ranks, role)}


def test_parts_show_what_moved_and_leave_out_zeros(piped: Any) -> None:
    assert re.search(
        r"node1 · eth0 +network +nic_sent 41.7 MB/s$", piped(reports.as_text(report())), re.MULTILINE
    )
    lines = [dict(zip(reports.CSV_COLUMNS, line, strict=True)) for line in reports.rows(report())]
    parts = {x["metric"]: x["value"] for x in lines if x["subject"] == "part"}
    assert parts["nic_dropped.per_second"] == 0.0
    assert {(x["source"], x["instance"]) for x in lines if x["subject"] == "part"} == {("network", "eth0")}


def test_without_parts_there_is_no_table_of_them(piped: Any) -> None:
    assert "Nodes, devices and peers" not in piped(reports.as_text(report(parts=[])))


def test_dataframe_is_the_csv() -> None:
    frame = ReportResult(full()).to_pandas("values")
    text = {name: str for name in reports.CSV_COLUMNS if name not in ("value", "coverage")}
    read = pd.read_csv(
        io.StringIO(reports.as_csv(full())),
        dtype=text,
        keep_default_na=False,
        na_values={"value": [""], "coverage": [""]},
    )
    pd.testing.assert_frame_equal(frame, read, check_dtype=False)
    assert frame["value"].dtype == frame["coverage"].dtype == float
    assert frame["value"].isna().sum() == sum(line[6] is None for line in reports.rows(full()))


@pytest.mark.parametrize("ranks", [[], [rank(what=empty_summary())]])
def test_dataframe_has_the_same_types_whatever_was_seen(ranks: Any) -> None:
    frame = ReportResult(report(ranks, roles=[])._replace(ranks=ranks)).to_pandas("values")
    assert frame["value"].dtype == frame["coverage"].dtype == float


def test_json_is_the_report() -> None:
    whole = json.loads(reports.as_json(full()))
    assert whole["version"] == VERSION
    assert set(whole) == {"version", *full()._fields}
    assert whole["ranks"][0]["summary"]["values"]["steps"] == absent("1")._asdict()
    assert whole["roofs"][0]["lines"][0]["intensity"] == full().roofs[0].lines[0].intensity


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_json_never_holds_what_json_cannot(number: float) -> None:
    with pytest.raises(ClientError, match="JSON"):
        reports.as_json(report([rank(what=Summary({"steps": seen(number, "1")}, "", ""))]))


def test_jobs_json() -> None:
    whole = json.loads(jobs.as_json([JOB]))
    assert whole == {"version": VERSION, "jobs": [JOB._asdict()]}


def test_pandas_and_matplotlib_are_loaded_by_those_who_need_them() -> None:
    code = (
        "import roofline_client.cli, roofline_client.tables.reports, sys;"
        "print({'pandas', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout.strip() == "set()"


def test_what_the_profiler_cost_is_a_line_where_it_is_known(piped: Any) -> None:
    assert "The profiler itself: 0.2 %\n" in piped(reports.as_text(report()))
    assert "profiler itself" not in piped(reports.as_text(report(cost=ProfilerCost("", {}))))


def test_what_lay_between_steps_has_a_table_of_the_kinds_that_were_seen(piped: Any) -> None:
    between = {
        "between.evaluation.count": seen(12, "1"),
        "between.evaluation.time": seen(0.8, "s"),
        "between.share": seen(0.14, "1"),
    }
    what = Summary({**summary().values, **between}, "", "")
    text = piped(reports.as_text(report([rank(what=what)])))
    (head,) = [line for line in text.splitlines() if "evaluations" in line]
    assert "checkpoints" not in head and "of the time" in head
    (row,) = [line for line in text.splitlines() if "800 ms" in line and "worker:0" in line]
    assert "12" in row and row.endswith("14.0%")
    assert "evaluations" not in piped(reports.as_text(report()))


def test_ceilings_have_their_device_and_their_peer(piped: Any) -> None:
    of_gpu = ceiling("hbm.read", "memory", 3e12, device="gpu 3")
    to_peer = ceiling("net.tcp", "network", 1e9, peer="node2")
    text = piped(reports.as_text(report(roofs=[roof()._replace(ceilings=[of_gpu, to_peer])])))
    assert row(text, "node1  gpu 3 hbm.read") and row(text, "node1  net.tcp to node2")


def test_time_that_was_counted_is_cpus_or_a_share_of_the_time(piped: Any) -> None:
    values = {
        "node_cpu_busy_ns.per_second": seen(1.98, "1"),
        "agent_cpu_ns.per_second": seen(0.00912, "1"),
        "node_cpu_pressure_ns.per_second": seen(0.9, "1"),
        "tcp_busy_ns.per_second": seen(0.0719, "1"),
    }
    text = piped(reports.as_text(report(parts=[part(**values)])))
    for shown in (
        "node_cpu_busy 1.98 CPUs",
        "agent_cpu 0.91% of a CPU",
        "node_cpu_pressure 90% of the time",
        "tcp_busy 7.2% of the time",
    ):
        assert shown in text
