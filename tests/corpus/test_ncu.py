"""Nsight Compute's CSV: the numbers of the corpus."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from roofline_agent.ncu.kernels import shape
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.ncu import reader as ncu
from roofline_agent.recorded.recording import Kernel, Launch
from roofline_agent.recorded.text import Text, open_binary

from tests.agent.recorded.gpu_pages import Found, read_file
from tests.recordings import Oracle, corpus, corpus_files, meets, oracles

pytestmark = pytest.mark.corpus


ANALYTIC_FLOPS = {"gemm": 2.0 * 2048**3}  # of the files whose metrics hold no FLOPs: 2 N^3


def value_of(oracle: Oracle, found: Found, nth: int) -> float | None:
    """The number that `oracle` asks for. Raises LookupError for a quantity that is not known here."""
    quantity = oracle.quantity
    if quantity == "app stdout TFLOP/s":
        return float(found.facts["application_flops_per_s"]) / 1e12
    kernels = found.kernels
    for name in ("launches of", "time", "GFLOP/s (2^30)", "GFLOP/s (1e9)", "AI HBM", "AI L2", "AI L1"):
        if quantity.startswith(name + " ") and "gemm_long" in oracle.file:
            kernel = next(k for k in kernels if k.name.startswith(quantity.removeprefix(name + " ")))
            return of_kernel(name, kernel)
    for name in ("FP32 FLOP", "time", "GFLOP/s", "AI DRAM"):
        if quantity.startswith(name + " void "):
            return of_launch(name, matching(found, quantity.removeprefix(name + " "))[nth])
    [kernel] = kernels
    dram = kernel.bytes.get("dram")
    analytic = kernel.flops if kernel.flops is not None else ANALYTIC_FLOPS["gemm"]
    time = kernel.time_s
    assert time is not None
    known = {
        "DRAM bytes": lambda: dram,
        "DRAM GB/s": lambda: dram / time / 1e9 if dram is not None else None,
        "GFLOP/s": lambda: analytic / time / 1e9,
        "AI DRAM": lambda: analytic / dram if dram else None,
        "gpu__time_duration.sum [us]": lambda: time * 1e6,
        "TFLOP/s (tensor bf16)": lambda: kernel.flops_per_s / 1e12 if kernel.flops_per_s else None,
    }
    return known[quantity]()


def matching(found: Found, beginning: str) -> list[Launch]:
    return [launch for launch in found.launches if launch.name.startswith(beginning)]


def of_kernel(quantity: str, kernel: Kernel) -> float | None:
    levels = {"AI HBM": "dram", "AI L2": "l2", "AI L1": "l1"}
    if quantity in levels:
        return kernel.intensity.get(levels[quantity])
    rate = kernel.flops_per_s
    known = {"launches of": kernel.launches, "time": kernel.time_s}
    if rate is not None:
        known |= {"GFLOP/s (2^30)": rate / 2**30, "GFLOP/s (1e9)": rate / 1e9}
    return known[quantity]


def of_launch(quantity: str, launch: Launch) -> float | None:
    assert launch.flops is not None and launch.time_s is not None
    return {
        "FP32 FLOP": launch.flops,
        "time": launch.time_s,
        "GFLOP/s": launch.flops / launch.time_s / 1e9,
        "AI DRAM": launch.flops / launch.bytes["dram"],
    }[quantity]


def test_levels_of_recorded_launches_reach_the_calls_that_are_sent() -> None:
    """NERSC's three metrics, one file's 11 launches; intensity grows from L1 to DRAM."""
    path = corpus("ncu/a100_gemm_long.csv")
    with closing(Collector(keep_launches=True)) as found:
        with open_binary(str(path)) as stream:
            ncu.read(Text(str(path), stream), found)
        launches = list(found.launches or ())
    calls = [shape(launch) for launch in launches]
    assert len(calls) == 11
    for launch, call in zip(launches, calls, strict=True):
        levels = {"l1": call.l1_bytes, "l2": call.l2_bytes, "dram": call.dram_bytes}
        assert levels == {level: round(count) for level, count in launch.bytes.items()}
        assert all(levels.values())
    gemm = max(calls, key=lambda call: call.flops or 0)
    assert (gemm.l1_bytes or 0) > (gemm.dram_bytes or 0) > 0


def numbered(found: list[Oracle]) -> list[tuple[Oracle, int]]:
    """Oracles of one name in one file speak of one launch after the other."""
    seen: dict[tuple[str, str], int] = {}
    listed = []
    for one in found:
        nth = seen.get((one.file, one.quantity), 0)
        seen[one.file, one.quantity] = nth + 1
        listed.append((one, nth))
    return listed


@pytest.mark.parametrize(("oracle", "nth"), numbered(oracles("ncu")), ids=str)
def test_recorded_files_give_the_published_numbers(oracle: Oracle, nth: int) -> None:
    value = value_of(oracle, read_file(corpus(oracle.file)), nth)
    assert meets(oracle, value)


def test_kernel_of_small_tensor_instructions_says_by_how_much_it_may_be_too_high() -> None:
    """16x8x8 on an A100: the count by architecture is twice the 2 M N K of its GEMM."""
    kernels = read_file(corpus("ncu/a100_gemm_long.csv")).kernels
    gemm = next(one for one in kernels if one.name.startswith("void cutlass::Kernel<cutlass::gemm"))
    assert gemm.flops == pytest.approx(gemm.launches * 2 * 2.0 * 20480**3, rel=3e-4)
    assert "may be 2 times the true count" in gemm.note


@pytest.mark.parametrize("path", corpus_files("ncu"), ids=lambda path: path.name)
def test_every_file_is_read_and_says_something(path: Path) -> None:
    found = read_file(str(path))
    assert found.kernels or found.warnings
