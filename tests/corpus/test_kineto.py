"""Traces of PyTorch's profiler: the numbers of the corpus."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest
from roofline_agent.recorded.collector import Collector

from tests.agent.recorded.traces import read, read_once
from tests.recordings import Oracle, corpus, corpus_files, meets, oracles

pytestmark = pytest.mark.corpus


def value(quantity: str, got: Collector) -> float | None:
    """An oracle's quantity, in its unit; fails on one that nobody mapped."""
    nccl = [one for one in got.kernels if "nccl" in one.name.lower()]
    summed = [one for one in got.phases if one.name.startswith("nccl ")]
    assert sum(one.count for one in summed) == sum(one.launches for one in nccl)
    if quantity == "NCCL kernels":
        return sum(one.launches for one in nccl)
    if quantity == "Σ NCCL kernel":
        return sum(one.time_s or 0 for one in nccl) * 1e6
    raise KeyError(quantity)


@pytest.mark.parametrize("oracle", oracles("kineto"), ids=str)
def test_file_gives_its_number(oracle: Oracle) -> None:
    assert meets(oracle, value(oracle.quantity, read_once(corpus(oracle.file))))


@pytest.mark.slow
@pytest.mark.parametrize("path", corpus_files("kineto"), ids=lambda path: path.name)
def test_every_file_gives_its_kernels(path: Path) -> None:
    """Against a plain reading of the whole file, which is small here."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    on_gpu = [e for e in events if e.get("cat") == "kernel" and e["ph"] == "X"]
    got = read(str(path))
    assert got.tool == "pytorch profiler"
    assert got.facts["events"] == len(events)
    assert got.facts.get("gpu_kernels", 0) == len(on_gpu)
    if on_gpu:
        # Operators whose kernels the trace does not show stand next to them, without a time.
        assert sum(one.launches for one in got.kernels if one.time_s is not None) == len(on_gpu)
        assert sum(one.time_s or 0 for one in got.kernels) == pytest.approx(
            sum(e["dur"] for e in on_gpu) / 1e6
        )
    steps = [e for e in events if e.get("cat") == "user_annotation" and "ProfilerStep#" in e["name"]]
    assert len(got.steps) == len(steps)


_PRODUCTS = {"aten::mm": (0, 1), "aten::addmm": (1, 2), "aten::bmm": (0, 1)}


@pytest.mark.parametrize(
    "name", ["hta_mi250_rocm62", "hta_rank_not_found", "hta_world128_rank0", "hta_world128_rank1"]
)
def test_trace_with_shapes_gives_roofline_points(name: str) -> None:
    """All products of the trace, counted apart, are the FLOPs of its kernels; nothing else there has any."""
    path = Path(corpus(f"kineto/{name}.json.gz"))
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    expected = 0
    for event in events:
        shapes = event.get("args", {}).get("Input Dims")
        if event.get("cat") == "cpu_op" and event["name"] in _PRODUCTS and shapes:
            a, b = (shapes[at] for at in _PRODUCTS[event["name"]])
            expected += 2 * math.prod(a) * b[-1]
    got = read_once(str(path))
    with_flops = [one for one in got.kernels if one.flops is not None]
    points = [one for one in with_flops if one.time_s and one.bytes.get("minimum")]
    partly = sum("splitKreduce" in one.text or "epilogue" in one.text for one in got.warnings)
    assert sum(one.flops or 0 for one in with_flops) == pytest.approx(expected, rel=1e-9)
    assert points and not partly
    assert sum(one.flops or 0 for one in points) > 0.98 * expected, "the trace lacks kernels of a few"
