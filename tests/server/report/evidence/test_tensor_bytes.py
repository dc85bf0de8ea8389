"""Intensity over tensor bytes is one number, whoever is asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_server.report.job.build import build
from roofline_server.report.questions import ALL_STEPS, Steps, Subject
from roofline_server.report.roofline.rooflines import needed, roofline
from roofline_server.report.steps.steps import NEEDED, steps_table
from roofline_server.report.time_roofline.time_rooflines import TimeRooflineQuery, time_roofline
from roofline_server.sentences.origins import tensor_bytes_of_idle
from roofline_server.store.store import Store
from roofline_server.store.view import JobView

from ...builders import MS
from ..work import Call, kernel, store_of

GEMM = Call(kernel("matmul", 10**9, 10**9), 1, 10 * MS)
UNSIZED = Call(kernel("sparse", 9 * 10**9, None), 1, 10 * MS)
REORDER = Call(kernel("reorder", 0, 10**9), 2, 10 * MS)
ELTWISE = Call(kernel("eltwise", None, 10**9), 1, 10 * MS)


def viewed(store: Store, points: str = "rank") -> JobView:
    view = store.view("job", {**needed("classic", points), **NEEDED})
    assert view is not None
    return view


def intensities(store: Store) -> dict[str, list[float | None]]:
    """By everything that tells it."""
    subject = Subject("job", ALL_STEPS, ())
    found: dict[str, list[float | None]] = {}
    for points in ("rank", "role", "step", "phase"):
        made = roofline(store, viewed(store, points), subject, "classic", points).points
        found[points] = [p.intensity.value for p in made]
    (rank,) = build(viewed(store)).ranks
    found["report"] = [rank.summary.values["intensity.minimum"].value]
    (panel,) = time_roofline(store, TimeRooflineQuery(subject, "", (), "", "step")).panels
    found["time"] = [(p.flops.value or 0.0) / (p.bytes.value or 1.0) for p in panel.points]
    (chunk,) = steps_table(viewed(store), (), Steps(3, 3), "synchronous")
    found["table"] = [c.values[0] for c in chunk.columns if c.name == "intensity.minimum"]
    return found


@pytest.mark.parametrize(
    "calls, expected",
    [
        ([GEMM], 1),
        ([GEMM, UNSIZED], 1),
        ([GEMM, REORDER], 1 / 3),
        ([GEMM, ELTWISE], 0.5),
        ([GEMM, UNSIZED, REORDER, ELTWISE], 0.25),
    ],
)
def test_intensity_is_the_same_wherever_it_is_told(
    tmp_path: Path, calls: list[Call], expected: float
) -> None:
    for asked, found in intensities(store_of(tmp_path, *calls)).items():
        assert found and found == pytest.approx([expected] * len(found)), asked


def test_what_the_counts_of_a_step_lack_is_said_at_the_step_and_at_the_rank(tmp_path: Path) -> None:
    store = store_of(tmp_path, GEMM, UNSIZED, ELTWISE)
    for points, calls in (("step", "2 kernel calls are"), ("rank", "20 kernel calls are")):
        made = roofline(store, viewed(store, points), Subject("job", ALL_STEPS, ()), "classic", points).points
        assert made
        for point in made:
            assert point.incomplete == (
                f"{calls} not modelled (pooling, normalisation, element-wise); "
                "no bytes are known for kernels with 90% of the FLOPs: the intensity is that of the others"
            )


def test_bytes_of_reorders_are_told_where_they_are_many(tmp_path: Path) -> None:
    (rank,) = build(viewed(store_of(tmp_path, GEMM, REORDER))).ranks
    said = rank.summary.values["bytes_per_step.minimum"]
    assert said.value == 3 * 10**9
    assert said.reason == (tensor_bytes_of_idle(2 / 3))


def test_few_bytes_without_flops_are_not_told(tmp_path: Path) -> None:
    little = Call(kernel("reorder", 0, 10**7), 2, 10 * MS)
    (rank,) = build(viewed(store_of(tmp_path, GEMM, little))).ranks
    assert "reorders" not in rank.summary.values["bytes_per_step.minimum"].reason
