"""likwid-bench: rates as ceilings, where the file tells of which level. The texts are from version 5.2.2."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from roofline_agent.calibrate.compare.files import read_theirs
from roofline_agent.recorded import likwid_bench
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.formats import recognise
from roofline_agent.recorded.likwid import reader as likwid
from roofline_agent.recorded.text import Text

from .reading import read_text, said

STREAM = """\
Allocate: Process running on hwthread 0 (Domain N) - Vector length 41666656/333333248 Offset 0 Alignment 512
Initialization: Each thread in domain initializes its own stream chunks
--------------------------------------------------------------------------------
LIKWID MICRO BENCHMARK
Test: stream_mem_avx_fma
--------------------------------------------------------------------------------
Using 1 work groups
Using 2 threads
--------------------------------------------------------------------------------
Group: 0 Thread 0 Global Thread 0 running on hwthread 0 - Vector length 20833328 Offset 0
--------------------------------------------------------------------------------
Cycles:\t\t\t7763706276
CPU Clock:\t\t2599808907
Cycle Clock:\t\t2599808907
Time:\t\t\t2.986260e+00 sec
Iterations:\t\t128
Iterations per thread:\t64
Inner loop executions:\t1302083
Size (Byte):\t\t999999744
Size per thread:\t499999872
Number of Flops:\t5333331968
MFlops/s:\t\t1785.96
Data volume (Byte):\t63999983616
MByte/s:\t\t21431.48
Cycles per update:\t2.911391
Cycles per cacheline:\t23.291125
Loads per update:\t2
Stores per update:\t1
Load bytes per element:\t16
Store bytes per elem.:\t8
Load/store ratio:\t2.00
Instructions:\t\t2499999377
UOPs:\t\t\t3666665728
--------------------------------------------------------------------------------
"""


def other(test: str, size: int, rate: float, threads: int = 2) -> str:
    """The same run of another test."""
    text = STREAM.replace("stream_mem_avx_fma", test).replace("999999744", str(size))
    text = text.replace("499999872", str(size // threads)).replace(
        "Using 2 threads", f"Using {threads} threads"
    )
    return text.replace("21431.48", str(rate)).replace("1785.96", str(rate))


def read(content: str) -> Collector:
    return read_text(likwid_bench.read, content)


def ceilings(found: Collector) -> dict[str, float]:
    return {one.name: one.value for one in found.ceilings}


def test_format_is_told_by_its_title() -> None:
    assert recognise(Text("x", io.BytesIO(STREAM.encode()))).name == "likwid-bench"
    assert likwid_bench.sniff("STREAM version $Revision: 5.10 $\n") == 0
    assert likwid.sniff(STREAM) == 0


def test_stream_beyond_the_caches_is_the_triad_of_dram() -> None:
    (one,) = read(STREAM).ceilings
    assert (one.name, one.kind, one.level, one.unit) == ("dram.triad", "memory", "dram", "byte/s")
    assert one.value == pytest.approx(21431.48e6)
    # The tool's own figures: bytes over time.
    assert one.value == pytest.approx(63999983616 / 2.986260, rel=1e-4)
    for words in ("stream_mem_avx_fma", "2 threads", "999999744 byte", "non-temporal stores"):
        assert words in one.method


@pytest.mark.parametrize(
    ("test", "name", "stores"),
    [
        ("stream_avx", "dram.triad", "normal stores"),
        ("copy", "dram.copy", "normal stores"),
        ("copy_mem_sse", "dram.copy", "non-temporal stores"),
        ("load_avx512", "dram.read", ""),
        ("sum_sp_avx", "dram.read", ""),
        ("triad_mem_avx_fma", "dram.four_arrays", "non-temporal stores"),
        ("store_mem", "dram.store", "non-temporal stores"),
        ("clload", "dram.clload", "one element of each line"),
    ],
)
def test_tests_have_our_names_where_they_are_alike(test: str, name: str, stores: str) -> None:
    (one,) = read(other(test, 10**9, 5000.0)).ceilings
    assert (one.name, one.value) == (name, 5e9)
    assert ("stores" in one.method) == ("stores" in stores)
    assert stores in one.method


@pytest.mark.parametrize(
    ("test", "name", "precision", "width"),
    [
        ("peakflops_sp_avx512_fma", "peak.f32.512", "f32", 512),
        ("peakflops_avx_fma", "peak.f64.256", "f64", 256),
        ("peakflops_avx", "peak.f64.256.mul_add", "f64", 256),
        ("peakflops_sp_sse", "peak.f32.128.mul_add", "f32", 128),
        ("peakflops", "peak.f64.scalar.mul_add", "f64", 64),
    ],
)
def test_peaks_by_precision_and_width(test: str, name: str, precision: str, width: int) -> None:
    (one,) = read(other(test, 32000, 388600.0)).ceilings
    assert (one.name, one.precision, one.width, one.unit) == (name, precision, width, "FLOP/s")
    assert one.value == pytest.approx(388.6e9)


def test_small_sets_are_the_first_level_and_others_are_no_ceiling() -> None:
    assert ceilings(read(other("copy_avx", 32768, 100.0))) == {"l1.copy": 100e6}
    found = read(other("copy_avx", 4_000_000, 100.0))
    assert found.ceilings == []
    assert said(found, "which level 4000000 byte lie in")
    assert len(list(found.counters)) == 1  # the rate itself is kept


def test_best_of_several_runs_counts_and_other_stores_stand_beside() -> None:
    found = read(
        other("stream_mem_avx", 10**9, 5.0)
        + other("stream_mem_avx", 10**9, 7.0)
        + other("stream", 10**9, 9.0)
    )
    assert [(one.name, one.value) for one in found.ceilings] == [("dram.triad", 7e6), ("dram.triad", 9e6)]


def test_run_that_did_not_end_has_no_ceiling() -> None:
    found = read(STREAM.partition("Cycles:")[0])
    assert found.ceilings == []
    assert said(found, "did not get to its end")


def test_unknown_test_is_named() -> None:
    assert said(read(other("mine_v2", 10**9, 5.0)), "mine_v2: not a test known here")


@pytest.mark.parametrize("cut", range(97, len(STREAM), 97))
def test_any_beginning_is_read_without_a_fault(cut: int) -> None:
    assert all(one.value > 0 for one in read(STREAM[:cut]).ceilings)


def test_recorded_run_is_a_calibrations_rival(tmp_path: Path) -> None:
    path = tmp_path / "likwid.txt"
    path.write_text(STREAM + other("stream_avx", 10**9, 9000.0))
    assert [(one.name, one.stores) for one in read_theirs(str(path))] == [
        ("dram.triad", ""),
        ("dram.triad", "normal"),
    ]
