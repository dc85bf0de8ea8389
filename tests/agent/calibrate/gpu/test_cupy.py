"""CuPy's part, with numpy in its place: the same calls, on arrays of the host. Times are made up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from roofline_agent.calibrate.gpu.bench import gpus, output
from roofline_agent.calibrate.gpu.bench.cupy_gpu import CupyGpu
from roofline_agent.calibrate.gpu.bench.libraries import Work, timed_by_host
from roofline_agent.calibrate.gpu.bench.timing import QUICK, Plan

from .made_up import cupy
from .made_up.cupy import EVENT_S

SIZE, ARRAY = 32, 1 << 20
PLAN = QUICK._replace(sizes=(SIZE,), array_bytes=(ARRAY, ARRAY), launches=3)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(output, "write", lines.append)
    return lines


def test_rates_are_the_work_over_the_time_of_the_events(written: list[dict[str, Any]]) -> None:
    gpus.measure(1, CupyGpu(cupy, 0, lambda: 1.4e9), PLAN)
    found = {line["ceiling"]["name"]: line["ceiling"] for line in written if "ceiling" in line}
    values = {name: one["value"] * EVENT_S for name, one in found.items() if name != "launch"}
    assert values == pytest.approx(
        {
            "hbm.read": ARRAY,
            "hbm.copy": 2 * ARRAY,
            "hbm.triad": 3 * ARRAY,
            **{f"peak.{precision}": 2 * SIZE**3 for precision in ("f64", "f32", "f16")},
        }
    )
    assert {one["device"] for one in found.values()} == {"gpu 1"}
    assert found["hbm.triad"]["clock_hz"] == 1.4e9 and "2 x the L2" in found["hbm.triad"]["method"]
    notes = [line["note"] for line in written if "note" in line]
    assert sum("a Python with torch measures it" in note for note in notes) == 3, "tf32, bf16, f8"


def test_matrices_have_the_precision_and_streams_compute() -> None:
    gpu = CupyGpu(cupy, 0)
    product: Work = next(gpu.works("peak.f16", PLAN))
    assert np.asarray(product.run()).dtype == np.float16
    assert next(gpu.works("hbm.triad", PLAN)).run() is None


def test_what_fails_costs_only_its_own(
    monkeypatch: pytest.MonkeyPatch, written: list[dict[str, Any]]
) -> None:
    monkeypatch.setattr(cupy, "matmul", lambda a, b, out: 1 / 0)
    gpus.measure(0, CupyGpu(cupy, 0), PLAN)
    names = {line["ceiling"]["name"] for line in written if "ceiling" in line}
    assert names == {"hbm.read", "hbm.copy", "hbm.triad", "launch"}
    assert any("ZeroDivisionError" in line.get("note", "") for line in written)


class TwoWays:
    """A library with a slow way to `hbm.read`, a fast one, and one for which memory does not suffice."""

    def works(self, name: str, plan: Plan) -> Iterator[Work]:
        if name == "hbm.read":
            yield Work(lambda: None, 1e6, "slow", "read", lambda units: (EVENT_S * units, None))
            yield Work(lambda: None, 1e6, "fast", "read", lambda units: (EVENT_S * units / 2, None))
            raise MemoryError
        if name == "launch":
            yield Work(lambda: None, 1, "nothing", "launch", lambda units: timed_by_host(lambda: None, units))

    def wait(self) -> None:
        pass

    def release(self) -> None:
        pass


def test_best_way_of_a_library_counts(written: list[dict[str, Any]]) -> None:
    gpus.measure(0, TwoWays(), PLAN)
    found = {line["ceiling"]["name"]: line["ceiling"]["value"] for line in written if "ceiling" in line}
    assert set(found) == {"hbm.read", "launch"}
    assert found["hbm.read"] == pytest.approx(1e6 / (EVENT_S / 2))
