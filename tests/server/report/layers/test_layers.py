"""Points and shares of layers: of the steps that were traced, whichever others there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_server.report.breakdown.breakdowns import breakdown
from roofline_server.report.questions import STEADY_STEPS, Steps, Subject
from roofline_server.report.roofline.rooflines import roofline
from roofline_server.report.steps.timeline import timeline
from roofline_server.store.store import Store

from ...builders import BEGIN, END, MS, S, batch, calls, marks, open_store, rank
from ..work import CPU, FIRST, Host

STEPS = 40
LASTS = 10 * MS


def operator(layer: str, flops: int | None, library: str = "torch") -> pb.Kernel:
    return pb.Kernel(
        library=library,
        operation="aten::mm",
        precision="f32",
        flops=flops,
        bytes=flops and 10**6,
        layer=layer,
    )


KERNELS = (operator("Net/a", 10**9), operator("Net/b", 10**8), operator("Net/b", None), operator("", None))
EACH_MS = (3, 1, 1, 2)  # of a step


def store_of(tmp_path: Path, facts: Sequence[str] = ("trace.steps=20-21",), layered: bool = True) -> Store:
    """A worker whose steps of 10 ms are all covered with calls; those of the traced ones have layers."""
    store, host = open_store(tmp_path), Host("a", CPU)
    host.greet(store)
    said, called = [], []
    for k in range(STEPS):
        now = FIRST + k * LASTS
        said += [(0, BEGIN, k, 8, now), (0, END, k, 8, now + LASTS)]
        for at, lasts in enumerate(EACH_MS if k in (20, 21) else ()):
            called.append((0, at, now, lasts * MS))
            now += lasts * MS
    events = [
        pb.Event(kind=pb.EVENT_KIND_FACT, rank=0, begin_ns=FIRST, end_ns=FIRST, text=fact) for fact in facts
    ]
    kernels = [*KERNELS] if layered else [operator("", kernel.flops or None) for kernel in KERNELS]
    host.put(
        store,
        batch(
            1,
            FIRST - S,
            FIRST + STEPS * LASTS + S,
            ranks=[rank()],
            kernels=kernels,
            calls=calls(called),
            marks=marks(said),
            events=events,
        ),
    )
    return store


def shares(store: Store, steps: Steps = STEADY_STEPS) -> dict[str, tuple[float | None, float | None]]:
    view = store.view("job")
    assert view is not None
    found = breakdown(store, view, Subject("job", steps), "rank")
    return {p.part: (p.value.value, p.share.value) for p in found.parts if p.kind == "layers_by_time"}


def of_step(seconds: float) -> tuple[object, object]:
    return pytest.approx(seconds), pytest.approx(seconds / 0.01)


EXPECTED = {
    "Net/a": of_step(0.003),
    "Net/b": of_step(0.002),
    "(no layer)": of_step(0.002),
    "(nothing ran)": of_step(0.003),
}


@pytest.mark.parametrize("steps", [STEADY_STEPS, Steps(20, 21), Steps(10, 30)])
def test_layers_and_what_is_left_add_up_to_the_traced_steps(tmp_path: Path, steps: Steps) -> None:
    found = shares(store_of(tmp_path), steps)
    assert found == EXPECTED
    assert next(iter(found)) == "Net/a", "the one that took most is first"


def test_other_steps_have_no_layers(tmp_path: Path) -> None:
    assert shares(store_of(tmp_path), Steps(1, 10)) == {}


def test_trace_without_layers_has_none(tmp_path: Path) -> None:
    assert shares(store_of(tmp_path, layered=False)) == {}


def test_rank_that_was_traced_for_a_time_has_the_steps_that_lie_in_it(tmp_path: Path) -> None:
    begin, end = FIRST + 20 * LASTS - 3 * MS, FIRST + 22 * LASTS + MS
    store = store_of(tmp_path, (f"trace.times={begin}-{end}",))
    assert shares(store) == EXPECTED
    view = store.view("job")
    assert view is not None
    notes = breakdown(store, view, Subject("job"), "rank").notes
    assert any("4 traced steps" in note for note in notes), (
        "steps of which a part was traced are left out too"
    )


def test_point_of_a_layer_has_all_its_flops_over_the_time_of_its_calls(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    view = store.view("job")
    assert view is not None
    found = roofline(store, view, Subject("job"), "classic", "layer")
    points = {point.label: point for point in found.points}
    assert set(points) == {"Net/a", "Net/b"}
    assert points["Net/a"].flops_per_second.value == pytest.approx(10**9 / 0.003)
    assert points["Net/b"].flops_per_second.value == pytest.approx(10**8 / 0.002)
    assert points["Net/a"].intensity.value == pytest.approx(1000)
    assert points["Net/b"].incomplete, "of a call the FLOPs are not known"
    assert points["Net/a"].kind == "layer" and points["Net/a"].role == "worker"
    assert any("2 of worker:0" in note for note in found.notes)


def test_job_without_a_trace_says_how_to_get_one(tmp_path: Path) -> None:
    store = store_of(tmp_path, ())
    view = store.view("job")
    assert view is not None
    found = roofline(store, view, Subject("job"), "classic", "layer")
    assert found.points == [] and any("--trace" in note for note in found.notes)


def test_timeline_has_a_row_of_layers(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    view, raw = store.view("job"), store.raw("job")
    assert view is not None and raw is not None
    rows = [
        dict(zip([c.name for c in chunk.columns], row, strict=True))
        for chunk in timeline(view, raw, (), Steps(20, 20), "asynchronous", True)
        for row in zip(*(c.values.tolist() for c in chunk.columns), strict=True)
    ]
    layers = [row for row in rows if row["row"] == "layers"]
    assert [(row["name"], row["end_ns"] - row["begin_ns"]) for row in layers] == [
        ("Net/a", 3 * MS),
        ("Net/b", 2 * MS),
    ]
    assert {row["layer"] for row in rows if row["row"] == "kernels"} == {"Net/a", "Net/b", ""}
