"""STREAM and its relatives: rates as ceilings of memory bandwidth."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.recorded import stream, upload
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.errors import RecordedError
from roofline_agent.records import Provenance

from .reading import numbers_in, read_text, said

STREAM = """\
STREAM version $Revision: 5.10 $
This system uses 8 bytes per array element.
Array size = 1000000 (elements), Offset = 0 (elements)
Each kernel will be executed 10 times.
Number of Threads requested = 8
Number of Threads counted = 4
   (= 17339 clock ticks)
Function    Best Rate MB/s  Avg time     Min time     Max time
Copy:           16000.0     0.002000     0.001000     0.003000
Scale:           8000.0     0.002000     0.002000     0.003000
Add:            12000.0     0.002000     0.002000     0.003000
Triad:          24000.0     0.002000     0.001000     0.003000
-------------------------------------------------------------
Solution Validates: avg error less than 1.000000e-13 on all three arrays
"""
BABEL = """\
BabelStream
Version: 5.0
Implementation: CUDA
Running kernels 100 times
Precision: double
Array size: 268.4 MB (=0.3 GB)
Total size: 805.3 MB (=0.8 GB)
Using CUDA device Some GPU
Function    MBytes/sec  Min (sec)   Max         Average

Copy        1709360.800 0.00031     0.00032     0.00032
Mul         1676181.608 0.00032     0.00033     0.00033
Add         1715845.543 0.00047     0.00048     0.00047
Triad       1724827.354 0.00047     0.00047     0.00047
Dot         1586905.948 0.00034     0.00036     0.00035
"""
SWEEP = """\
Buffer size(bytes): 4096
Device 0: "A"  152 SMs(10.0)  Memory: 4000MHz x 8192-bit = 100 GB/s PEAK   ECC is ON
STREAM_COPY_double_gpu_0_buffer_4096_block_128    80.00 80.00
STREAM_COPY_double_gpu_0_buffer_4096_block_256    90.00 90.00
STREAM_COPY_double_gpu_0_buffer_4096_block_512    70.00 70.00
"""


def read(content: str) -> Collector:
    return read_text(stream.read, content)


def ceilings(found: Collector) -> dict[str, float]:
    return {one.name: one.value for one in found.ceilings}


def test_megabytes_are_powers_of_ten() -> None:
    found = read(STREAM)
    assert ceilings(found) == {"dram.copy": 16e9, "dram.scale": 8e9, "dram.add": 12e9, "dram.triad": 24e9}
    assert not found.warnings
    first = found.ceilings[0]
    assert (first.kind, first.level, first.unit) == ("memory", "dram", "byte/s")
    assert "1000000 elements" in first.method
    assert "4 threads" in first.method
    assert "write-allocate" in first.method


def test_mul_of_babelstream_is_scale() -> None:
    found = read(BABEL)
    assert ceilings(found)["hbm.scale"] == pytest.approx(1676181.608e6)
    assert "hbm.dot" in ceilings(found)
    assert "Some GPU" in found.ceilings[0].method


def devices(found: Collector) -> set[tuple[str, str]]:
    return {(one.level, one.device) for one in found.ceilings}


@pytest.mark.parametrize("line", ["Using CUDA device Some GPU", "Using HIP device: Some GPU"])
def test_babelstream_on_a_gpu_is_no_ceiling_of_the_cpus(line: str) -> None:
    found = read(BABEL.replace("Using CUDA device Some GPU", line))
    assert devices(found) == {("hbm", "gpu 0")}
    assert {(one.metric, one.scope) for one in found.counters} >= {("hbm.triad", "gpu 0")}
    assert found.facts["device"] == "Some GPU"


def test_sweeps_over_gpus_are_ceilings_of_each() -> None:
    found = read(SWEEP + SWEEP.replace("gpu_0", "gpu_1").replace("90.00 90.00", "95.00 95.00"))
    assert {one.device: one.value for one in found.ceilings} == {"gpu 0": 90e9, "gpu 1": 95e9}
    assert {one.name for one in found.ceilings} == {"hbm.copy"}


@pytest.mark.parametrize(
    ("device", "of"),
    [
        ("Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", {("dram", "")}),
        ("AMD EPYC 7742 64-Core Processor", {("dram", "")}),
        ("Intel(R) Data Center GPU Max 1550", set()),
        ("gfx90a", set()),
    ],
)
@pytest.mark.parametrize("model", ["OpenCL", "SYCL"])
def test_babelstream_of_a_model_for_any_device_is_a_ceiling_only_where_that_is_surely_a_cpu(
    model: str, device: str, of: set[tuple[str, str]]
) -> None:
    found = read(BABEL.replace("CUDA device Some GPU", f"{model} device {device}").replace("CUDA", model))
    assert devices(found) == of
    assert said(found, "is not known: its rates are no ceiling") == (not of)
    assert len(found.counters) == 5


@pytest.mark.parametrize(
    ("implementation", "of"),
    [("OpenMP", set()), ("STD C++ ranges", set()), ("STD (data-oriented)", set()), ("TBB", {("dram", "")})],
)
def test_babelstream_that_names_no_device_is_a_ceiling_only_if_it_has_no_gpu_version(
    implementation: str, of: set[tuple[str, str]]
) -> None:
    found = read(BABEL.replace("Using CUDA device Some GPU\n", "").replace("CUDA", implementation))
    assert devices(found) == of
    assert said(found, "is not known: its rates are no ceiling") == (not of)


@pytest.mark.parametrize(
    ("backend", "of"),
    [("HIP", {("hbm", "gpu 0")}), ("TBB", {("dram", "")}), ("undefined", set())],
)
def test_thrust_runs_where_its_backend_does(backend: str, of: set[tuple[str, str]]) -> None:
    """It prints "CUDA device" also where there is none."""
    lines = f"Using CUDA device: (device name unavailable)\nThrust backend: {backend}"
    head = BABEL.replace("Implementation: CUDA", "Implementation: Thrust")
    assert devices(read(head.replace("Using CUDA device Some GPU", lines))) == of


def test_table_of_babelstream_without_its_head_is_no_ceiling() -> None:
    assert devices(read(BABEL[BABEL.index("Function") :])) == set()
    assert devices(read(STREAM + BABEL[BABEL.index("Function") :])) == {("dram", "")}


def test_run_on_the_cpus_behind_one_on_a_gpu_is_theirs() -> None:
    assert devices(read(BABEL + STREAM)) == {("hbm", "gpu 0"), ("dram", "")}


@pytest.mark.parametrize(
    ("unit", "factor"),
    [("Best Rate MB/s", 1e6), ("Rate (MB/s)", 1e6), ("GBytes/sec", 1e9), ("MiBytes/sec", 2**20)],
)
def test_unit_of_the_header_is_applied(unit: str, factor: float) -> None:
    found = read(f"Implementation: TBB\nFunction    {unit}  Avg time\nTriad:  1000.0  0.1\n")
    assert ceilings(found) == {"dram.triad": 1000 * factor}


def test_best_of_a_sweep_is_the_ceiling() -> None:
    found = read(SWEEP)
    assert ceilings(found) == {"hbm.copy": 90e9}
    assert "block 256" in found.ceilings[0].method
    assert [c.value for c in found.counters] == [80e9, 90e9, 70e9]


def test_share_of_the_peak_that_does_not_fit_is_said() -> None:
    assert said(read(SWEEP.replace("90.00 90.00", "90.00 45.00")), "do not agree")


@pytest.mark.parametrize("peak", ["0", "0.0", "." + 330 * "0" + "1"])
def test_peak_of_nothing_is_no_peak(peak: str) -> None:
    found = read(re.sub(r"[\d.]+ GB/s PEAK", f"{peak} GB/s PEAK", SWEEP))
    assert ceilings(found) == {"hbm.copy": 90e9}
    assert not said(found, "do not agree")


@pytest.mark.parametrize(
    "words", ["Failed Validation on array a[], AvgRelAbsErr > epsilon", "Validation failed on sum. Error 3"]
)
def test_failed_check_is_said(words: str) -> None:
    assert said(read(STREAM + words + "\n"), "check failed")


def test_rate_that_does_not_follow_from_size_and_time_is_said() -> None:
    assert said(read(STREAM.replace("16000.0", "1600.0")), "does not follow")


def test_few_clock_ticks_are_said() -> None:
    assert said(read(STREAM.replace("17339 clock", "3 clock")), "clock ticks")


@pytest.mark.parametrize("rate", ["inf", "0.0", "nan"])
def test_rate_without_a_time_is_no_ceiling(rate: str) -> None:
    found = read(STREAM.replace("16000.0", rate))
    assert "dram.copy" not in ceilings(found)
    assert said(found, "no rate")


BABEL_CSV = (
    "phase,n_elements,sizeof,max_mbytes_per_sec,runtime\nInit,1000000,8,10.5,0.1\n"
    "function,num_times,n_elements,sizeof,max_mbytes_per_sec,min_runtime,max_runtime,avg_runtime\n"
    "Copy,100,1000000,8,160000,0.0001,0.0002,0.00015\nMul,100,1000000,8,80000,0.0002,0.0003,0.00025\n"
)


def test_csv_of_babelstream_is_read() -> None:
    found = read("Using CUDA device Some GPU\n" + BABEL_CSV)
    assert stream.sniff(BABEL_CSV) == 88
    assert ceilings(found) == {"hbm.copy": 160e9, "hbm.scale": 80e9}
    assert not found.warnings  # rates follow from size and time
    assert {found.facts[one] for one in ("runs", "array_elements", "bytes_per_element")} == {100, 10**6, 8}
    gigas = BABEL_CSV.replace("mbytes_per_sec", "GiB_per_sec").replace(",160000", ",149.01")
    assert ceilings(read("Using CUDA device Some GPU\n" + gigas))["hbm.copy"] == pytest.approx(149.01 * 2**30)


def test_csv_that_names_no_device_is_no_ceiling() -> None:
    found = read(BABEL_CSV)
    assert not found.ceilings
    assert [one.value for one in found.counters] == [160e9, 80e9]
    assert said(found, "whether it ran on the CPUs or on a GPU")


def test_geometric_mean_is_no_kernel() -> None:
    found = read(BABEL + "GEOMEAN     265847.929\n")
    assert "hbm.geomean" not in ceilings(found)
    assert len(found.counters) == len(read(BABEL).counters)


def test_page_that_names_babelstream_is_no_result() -> None:
    assert stream.sniff("How to build\n\nBabelStream\n===========\ncmake -B build\n") == 0
    assert stream.sniff("BabelStream\nVersion: 5.0\nImplementation: CUDA\n") == 50


def test_benchmark_that_was_cut_short_says_so() -> None:
    head = STREAM[: STREAM.index("Function")]
    assert stream.sniff(head) == 50
    assert said(read(head), "did not get to its end")


def test_best_of_several_tables_is_the_ceiling() -> None:
    found = read(STREAM + STREAM.replace("24000.0", "25000.0"))
    assert ceilings(found)["dram.triad"] == 25e9
    assert said(found, "2 tables")


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=300)
GOOD = STREAM + BABEL + SWEEP + BABEL_CSV


UNITS = {"MB/s": 1e6, "GB/s": 1e9, "MiB/s": 2.0**20}


@given(
    st.sampled_from([*UNITS]),
    st.lists(
        st.tuples(st.sampled_from(["Copy", "Scale", "Add", "Triad"]), st.integers(1, 10**9)), min_size=1
    ),
    TEXT.filter(str.isprintable),  # many control characters make a file no text
)
def test_rates_of_a_table_are_counters_and_the_best_are_ceilings(
    unit: str, rows: list[tuple[str, int]], other: str
) -> None:
    table = "".join(f"{kernel}: {rate / 1000} \n" for kernel, rate in rows)
    found = read(f"# {other}\nFunction    Best Rate {unit}  Avg time\n{table}# {other}\nTriad: 1e12\n")
    rates = [(f"dram.{kernel.lower()}", rate / 1000 * UNITS[unit]) for kernel, rate in rows]
    assert [(one.metric, one.value) for one in found.counters] == rates
    assert ceilings(found) == {name: max(rate for one, rate in rates if one == name) for name, _ in rates}


@given(st.integers(0, len(GOOD)), st.integers(0, len(GOOD)), st.text("0.9e+-:\n inf", max_size=5))
def test_of_damaged_output_every_rate_stands_in_it(start: int, end: int, put: str) -> None:
    damaged = GOOD[:start] + put + GOOD[end:]
    with contextlib.suppress(RecordedError):
        found = read(damaged)
        assert all(one.value > 0 for one in found.ceilings)
        assert {one.printed for one in found.counters} <= numbers_in(damaged)


def test_rates_go_to_the_server_as_reported_not_as_measured_by_us() -> None:
    sent = {one.name: one for one in upload.ceilings(read(STREAM))}
    assert {one.provenance for one in sent.values()} == {int(Provenance.REPORTED)}
    assert (sent["dram.triad"].operation, sent["dram.copy"].operation) == ("triad", "copy")
    assert sent["dram.scale"].operation == ""


def of_ranks(ranks: int) -> str:
    lines = f"Data are distributed across {ranks} MPI ranks\n   Array size per MPI rank = 250000 (elements)\n"
    return STREAM.replace("Array size = 1000000", " Total Aggregate Array size = 1000000").replace(
        "Each kernel", f" {lines}Each kernel"
    )


@pytest.mark.parametrize("verb", ["is", "are"])
def test_rate_of_several_mpi_ranks_is_no_ceiling_of_a_node(verb: str) -> None:
    found = read(of_ranks(64).replace("are", verb))
    assert (found.ceilings, found.facts["ranks"]) == ([], 64)
    assert said(found, "64 MPI ranks: STREAM does not print on how many nodes")
    assert [one.value for one in found.counters if one.metric == "memory.copy"] == [16e9]


def test_one_mpi_rank_and_a_run_without_mpi_are_ceilings() -> None:
    assert len(read(of_ranks(1)).ceilings) == 4
    both = read(of_ranks(64) + STREAM.replace("16000.0", "15000.0").replace("0.001000", "0.001067"))
    assert {one.name: one.value for one in both.ceilings}["dram.copy"] == 15e9
