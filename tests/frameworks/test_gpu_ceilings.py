"""GPU ceilings with a real PyTorch on its CPU device, and the dispatch overhead of real frameworks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from roofline_agent.calibrate import gpu
from roofline_agent.calibrate.gpu import measure_gpus

from ..fakes import clean_environ

pytestmark = pytest.mark.framework
PROGRAM = Path(__file__).with_name("gpu_libraries.py")
STREAMS = {"hbm.read", "hbm.copy", "hbm.triad"}
PEAKS = {f"peak.{precision}" for precision in ("f64", "f32", "tf32", "f16", "bf16", "f8_e4m3")}
EVENT_S = 10e-3  # the made-up event's


def said(python: str, kind: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Ceilings by name, and notes."""
    command = [python, "-W", "error", str(PROGRAM), str(gpu.BENCH), kind]
    done = subprocess.run(command, env=clean_environ(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    ceilings = [line["ceiling"] for line in lines if "ceiling" in line]
    return {one["name"]: one for one in ceilings}, [line["note"] for line in lines if "note" in line]


def test_every_product_stream_and_launch_runs(torch_python: str) -> None:
    found, notes = said(torch_python, "cpu")
    assert set(found) == STREAMS | PEAKS | {"launch"}
    assert notes == []
    assert all(one["value"] > 0 for one in found.values())


def test_cuda_path_asks_pytorch_for_what_it_has(torch_python: str) -> None:
    """Shapes and types checked by PyTorch's own kernels for tensors without memory."""
    found, notes = said(torch_python, "meta")
    assert set(found) == STREAMS | PEAKS | {"launch"}
    assert notes == []
    size, array = 128, 1 << 20
    for name in PEAKS:
        assert found[name]["value"] == pytest.approx(2 * size**3 / EVENT_S), name
        assert (found[name]["operation"], found[name]["clock_hz"]) == ("gemm", 1e9)
    arrays = {"hbm.read": 2, "hbm.copy": 2, "hbm.triad": 3}
    for name, count in arrays.items():
        assert found[name]["value"] == pytest.approx(count * array / EVENT_S), name
        assert "1 x the L2" in found[name]["method"]


@pytest.mark.parametrize("variable", ["torch_python", "tensorflow_python"])
def test_dispatch_overhead_on_the_cpu(variable: str, request: pytest.FixtureRequest) -> None:
    python = request.getfixturevalue(variable)
    ceilings, _ = measure_gpus(lambda ceiling: None, python, quick=True)
    (launch,) = [one for one in ceilings if one.device == ""]
    assert (launch.name, launch.kind, launch.unit, launch.threads) == ("launch", "overhead", "s", 1)
    assert 1e-7 < launch.value < 1e-3
    assert launch.median is not None and launch.value <= launch.median
    assert f"by {variable.partition('_')[0]} " in launch.method
