"""CuPy's part, with numpy in its place: the same calls, on arrays of the host. Times are made up."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace as Struct
from typing import Any, ClassVar

import numpy as np
import pytest
from roofline_agent.calibrate.gpu.bench import gpus, output
from roofline_agent.calibrate.gpu.bench.cupy_gpu import CupyGpu
from roofline_agent.calibrate.gpu.bench.libraries import Work
from roofline_agent.calibrate.gpu.bench.timing import QUICK

SIZE, ARRAY = 32, 1 << 20
PLAN = QUICK._replace(sizes=(SIZE,), array_bytes=(ARRAY, ARRAY), launches=3)
EVENT_S = 10e-3


class Device:
    attributes: ClassVar = {"L2CacheSize": 1 << 19}
    mem_info = (1 << 30, 1 << 30)

    def __init__(self, at: int) -> None:
        self.at = at

    def use(self) -> None:
        pass

    def synchronize(self) -> None:
        pass


def elementwise(inputs: str, outputs: str, code: str, name: str) -> Callable[..., None]:
    """An ElementwiseKernel of the one line that it may be here."""
    assert (inputs, outputs, code) == ("float32 a, float32 b", "float32 c", "c = a + 3.0f * b")

    def run(a: Any, b: Any, c: Any) -> None:
        c[...] = a + 3 * b

    return run


@pytest.fixture
def cupy() -> Struct:
    numpy_like = {
        name: getattr(np, name) for name in ("zeros", "empty_like", "matmul", "add", "sum", "copyto")
    }
    random = np.random.default_rng(1)
    event = Struct(record=lambda: None, synchronize=lambda: None)
    return Struct(
        __version__="13.0",
        **numpy_like,
        random=Struct(standard_normal=lambda shape, dtype: random.standard_normal(shape, dtype)),
        ElementwiseKernel=elementwise,
        cuda=Struct(Device=Device, Event=lambda: event, get_elapsed_time=lambda begin, end: 1e3 * EVENT_S),
        get_default_memory_pool=lambda: Struct(free_all_blocks=lambda: None),
    )


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(output, "say", lines.append)
    return lines


def test_rates_are_the_work_over_the_time_of_the_events(cupy: Struct, said: list[dict[str, Any]]) -> None:
    gpus.measure(1, [CupyGpu(cupy, 0, lambda: 1.4e9)], PLAN)
    found = {line["ceiling"]["name"]: line["ceiling"] for line in said if "ceiling" in line}
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
    notes = [line["note"] for line in said if "note" in line]
    assert sum("a Python with torch measures it" in note for note in notes) == 3, "tf32, bf16, f8"


def test_matrices_have_the_precision_and_streams_compute(cupy: Struct) -> None:
    gpu = CupyGpu(cupy, 0)
    product: Work = next(gpu.works("peak.f16", PLAN))
    assert np.asarray(product.run()).dtype == np.float16
    assert next(gpu.works("hbm.triad", PLAN)).run() is None


def test_one_library_that_fails_costs_only_its_own(cupy: Struct, said: list[dict[str, Any]]) -> None:
    broken = CupyGpu(cupy, 0)
    cupy.matmul = lambda a, b, out: 1 / 0
    gpus.measure(0, [broken], PLAN)
    names = {line["ceiling"]["name"] for line in said if "ceiling" in line}
    assert names == {"hbm.read", "hbm.copy", "hbm.triad", "launch"}
    assert any("ZeroDivisionError" in line.get("note", "") for line in said)


def test_best_of_two_libraries_counts(cupy: Struct, said: list[dict[str, Any]]) -> None:
    slow, fast = CupyGpu(cupy, 0), CupyGpu(cupy, 0)
    fast._timed = lambda run, units: (EVENT_S / 2, None)  # type: ignore[method-assign]
    gpus.measure(0, [slow, fast], PLAN)
    found = {line["ceiling"]["name"]: line["ceiling"]["value"] for line in said if "ceiling" in line}
    assert found["hbm.read"] == pytest.approx(ARRAY / (EVENT_S / 2))
