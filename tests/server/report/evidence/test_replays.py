"""Steps that ncu replayed: what their kernels did counts, how long they took does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline.answers.report import RankReport
from roofline.answers.values import Provenance
from roofline.v1 import ingest_pb2 as pb
from roofline_server.report.job.build import build
from roofline_server.report.questions import ALL_STEPS, Steps, Subject
from roofline_server.report.roofline.rooflines import needed, roofline
from roofline_server.report.steps.steps import NEEDED, steps_table
from roofline_server.report.time_roofline.time_rooflines import TimeRooflineQuery, time_roofline
from roofline_server.report.waits.stragglers import find
from roofline_server.sentences import notes, rooflines
from roofline_server.sentences import steps as texts
from roofline_server.store.store import Store

from ...builders import BEGIN, END, MS, S, batch, calls, marks, open_store, rank, spans
from ..work import CPU, FIRST, GPU_F32, HBM, STEP, Host

REPLAYED, LONG = 5, 20 * S
GEMM = pb.Kernel(library="cuda", operation="gemm", precision="f32", flops=10**11, dram_bytes=10**9)
SAID = "ncu replayed steps 5 of worker:0: "


def store_of(tmp_path: Path, fact: str = "ncu.steps=5", ranks: int = 1) -> Store:
    """Ten steps of 0.1 s; one of ten kernels of 8 ms is replayed for 20 s, and all ranks wait."""
    store, host = open_store(tmp_path), Host("a", (*CPU, HBM, GPU_F32))
    host.greet(store)
    now, said, told = FIRST, [], []
    for k in range(10):
        begin, now = now, now + (LONG if k == REPLAYED else STEP)
        for r in range(ranks):
            said += [(r, BEGIN, k, 8, begin), (r, END, k, 8, now)]
            told.append((r, "phase.forward", begin, (begin + now) // 2, 0, 1))
    begin = FIRST + REPLAYED * STEP
    events = [
        pb.Event(kind=pb.EVENT_KIND_KERNELS_COVERED, rank=0, begin_ns=begin, end_ns=begin + LONG),
        pb.Event(kind=pb.EVENT_KIND_FACT, rank=0, begin_ns=FIRST, end_ns=FIRST, text=fact),
    ]
    called = calls([(0, 0, begin + i * 8 * MS, 8 * MS) for i in range(10)])
    members = [rank(index=r, pid=100 + r) for r in range(ranks)]
    host.put(
        store,
        batch(
            1,
            FIRST - S,
            now + S,
            ranks=members,
            kernels=[GEMM],
            calls=called,
            marks=marks(said),
            events=events,
            spans=spans(told),
        ),
    )
    return store


def reports(store: Store, steps: Steps = ALL_STEPS) -> list[RankReport]:
    view = store.view("job")
    assert view is not None
    found = build(view, steps)
    assert any(note.startswith(SAID) for note in found.notes)
    return found.ranks


@pytest.mark.parametrize("points", ["role", "rank", "step"])
def test_flops_of_a_replayed_step_are_held_against_the_other_steps(tmp_path: Path, points: str) -> None:
    store = store_of(tmp_path)
    view = store.view("job", needed("classic", points))
    assert view is not None
    found = roofline(store, view, Subject("job", ALL_STEPS, ()), "classic", points)
    (point,) = found.points
    assert point.flops_per_second.value == pytest.approx(1e13)
    assert point.headroom.value == pytest.approx(2)
    assert point.words.startswith("compute-bound, 2x below")
    assert any(note.startswith(SAID) for note in found.notes)


@pytest.mark.parametrize("steps", [ALL_STEPS, Steps(6, None), Steps(0, 2)])
def test_values_of_a_rank_with_replayed_steps(tmp_path: Path, steps: Steps) -> None:
    (found,) = reports(store_of(tmp_path), steps)
    values = found.summary.values
    assert values["flops_per_step"].value == 1e12
    assert values["flops_per_second"].value == pytest.approx(1e13)
    assert values["flops_per_second"].provenance == Provenance.ESTIMATED
    assert values["examples_per_second"].value == pytest.approx(80)
    assert values["step_time_p95"].value == pytest.approx(0.1)
    assert values["intensity.dram"].value == 100


def test_replayed_step_alone_has_work_and_no_time(tmp_path: Path) -> None:
    (found,) = reports(store_of(tmp_path), Steps(REPLAYED, REPLAYED))
    values = found.summary.values
    assert values["flops_per_step"].value == 1e12
    assert values["step_time_median"].value is None and "replayed" in values["step_time_median"].reason
    assert values["flops_per_second"].value == pytest.approx(1e13)


def test_ranks_that_wait_for_a_replayed_one_lose_the_step_too(tmp_path: Path) -> None:
    store = store_of(tmp_path, ranks=2)
    for found in reports(store):
        assert found.summary.values["examples_per_second"].value == pytest.approx(80)
    view = store.view("job")
    assert view is not None
    assert not find(view).causes


def test_mean_step_in_the_time_plane_is_none_of_replays(tmp_path: Path) -> None:
    (panel,) = time_roofline(
        store_of(tmp_path), TimeRooflineQuery(Subject("job", ALL_STEPS, ()), "", (), "", "step")
    ).panels
    (point,) = panel.points
    assert (point.flops.value, point.time.value) == (1e12, pytest.approx(0.1))
    assert "the mean of the others" in point.flops.reason


def test_table_of_steps_keeps_the_row_and_says_what_it_is(tmp_path: Path) -> None:
    view = store_of(tmp_path).view("job", NEEDED)
    assert view is not None
    (chunk,) = steps_table(view, (), ALL_STEPS, "synchronous")
    assert chunk.rows == 10
    assert texts.replayed(notes.replayed("5", ["worker:0"])) in chunk.notes


def test_replayed_kernels_are_in_no_phase(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    view = store.view("job", needed("classic", "phase"))
    assert view is not None
    found = roofline(store, view, Subject("job", ALL_STEPS, ()), "classic", "phase")
    assert found.points == []
    assert rooflines.replayed_phases(["worker:0"]) in found.notes


@pytest.mark.parametrize("fact", ["ncu.steps=", "ncu.steps=x,5-3,1-2-3", "ncu.steps=0-99999999999"])
def test_fact_that_names_no_steps_changes_nothing(tmp_path: Path, fact: str) -> None:
    view = store_of(tmp_path, fact).view("job")
    assert view is not None
    assert build(view).ranks[0].summary.values["step_time_p95"].value > 1  # type: ignore[operator]
