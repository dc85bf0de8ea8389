"""The Empirical Roofline Toolkit: bandwidths and FLOP rates as ceilings."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.recorded import ert
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.errors import RecordedError

from .reading import numbers_in, read_text, said

METADATA = ["MPI_PROCS      2", "OPENMP_THREADS 8", "ERT_VERSION  1.1.0", "HOSTNAME  ('box', [], ['::1'])",
            "TIMESTAMP_DATA  1000.5"]  # fmt: skip
JSON = json.dumps(
    {
        "empirical": {
            "metadata": {},
            "gflops": {"data": [["FP64 GFLOPs", 100.5], ["FP32 GFLOPs", 200]], "metadata": {"": METADATA}},
            "gbytes": {"data": [["L1", 80.0], ["DRAM", 10]], "metadata": {"FLOPS": 1}},
        },
        "spec": {"gflops": {"data": [["GFLOPs", 999]]}, "gbytes": {"data": [["DRAM", 25.6]]}},
    },
    indent=3,
)
SUM = """\
    11.03 GFLOPs

  1458.88 Weight

   176.44 L1
    18.30 DRAM

META_DATA
ERT_VERSION  1.1.0
HOSTNAME  ('box', [], ['127.0.1.1'])
MPI_PROCS      1
OPENMP_THREADS 4
FLOPS          1
"""
MAX = "".join(
    f"{8 * n} 134217728 3.1 3.2 3.3 5.1 5.2 {5 + n} 0.1 {0.25 * n} {0.3 * n}\n" for n in range(1, 9)
)


def read(content: str) -> Collector:
    return read_text(ert.read, content)


def ceilings(found: Collector) -> dict[str, float]:
    return {one.name: one.value for one in found.ceilings}


def test_levels_and_precisions_are_ceilings() -> None:
    found = read(JSON)
    assert ert.sniff(JSON) == 95
    assert ceilings(found) == {"peak.f64": 100.5e9, "peak.f32": 200e9, "l1.ert": 80e9, "dram.ert": 10e9}
    kinds = {one.name: (one.kind, one.level, one.precision, one.unit) for one in found.ceilings}
    assert kinds["dram.ert"] == ("memory", "dram", "", "byte/s")
    assert kinds["peak.f32"] == ("compute", "", "f32", "FLOP/s")


def test_makers_figures_are_facts_and_no_measurement() -> None:
    assert read(JSON).facts["specified DRAM"] == 25.6e9


def test_settings_stand_in_the_method() -> None:
    found = read(JSON)
    method = next(one.method for one in found.ceilings if one.kind == "compute")
    assert "2 MPI processes, 8 threads in each" in method
    assert (found.version, found.facts["host"], found.started_ns) == ("1.1.0", "box", 1_000_500_000_000)


@pytest.mark.parametrize("time", ["5e-324", "0", "-3", "1e300"])
def test_time_that_no_clock_shows_is_left_out(time: str) -> None:
    assert read(JSON.replace("1000.5", time)).started_ns is None


def test_text_of_a_point_is_read() -> None:
    found = read(SUM)
    assert ert.sniff(SUM) == 85
    assert ceilings(found) == {"peak.f64": 11.03e9, "l1.ert": 176.44e9, "dram.ert": 18.3e9}
    assert "one point" in found.ceilings[0].method


def test_table_of_working_sets_gives_its_best_median_of_flops_as_ert_does() -> None:
    found = read(MAX)
    assert ert.sniff(MAX) == 85
    assert ceilings(found) == {"peak.f64": 2e9}
    assert said(found, "sum")


TRY = "some MPI library's words\n" + "".join(
    f"{64 * size:12} {n:12} {10.0 * n:15.3f} {128 * n:12} {512 * n:12}\n"
    for size in (1, 2)
    for n in (1, 2, 4, 8)
)


def test_one_run_of_the_driver_gives_its_best_flops() -> None:
    found = read(TRY.replace("80.000", "40.000"))
    assert ert.sniff(TRY) == 85
    assert ceilings(found) == {"peak.f64": pytest.approx(8 * 512 / 40e-6)}
    assert said(found, "sum")


def test_other_tables_of_five_numbers_are_not_erts() -> None:
    assert ert.sniff("".join(f"64 {n} {10.0 * n:.3f} {128 * n} 7\n" for n in (1, 2, 4, 8, 16, 32))) == 0


@pytest.mark.parametrize(
    ("name", "ceiling", "of"),
    [
        ("Peak SP Vector GFlops FMA", "peak.f32.vector.fma", "f32"),
        ("FP64 Scalar GFLOPs", "peak.f64.scalar", "f64"),
        ("DP GFLOPs", "peak.f64", "f64"), ("GFLOPs", "peak.f64", "f64"), ("DDR Mem", "dram.ert", "dram"),
        ("STREAM HBM", "hbm.ert", "hbm"), ("MCDRAM", "mcdram.ert", "mcdram"), ("L3", "l3.ert", "l3"),
    ],
)  # fmt: skip
def test_names_of_ceilings_may_say_more(name: str, ceiling: str, of: str) -> None:
    found = read(JSON.replace('"DRAM"', f'"{name}"'))
    (one,) = [one for one in found.ceilings if one.value == 10e9]
    assert (one.name, one.precision or one.level) == (ceiling, of)


def test_broken_json_gives_what_can_be_made_out_but_not_the_makers_figures() -> None:
    found = read(JSON[: JSON.index('"DRAM"')])
    assert ceilings(found) == {"peak.f64": 100.5e9, "peak.f32": 200e9, "l1.ert": 80e9}
    assert said(found, "no valid JSON")
    assert "dram.ert" not in ceilings(
        read(JSON[: JSON.index("25.6")].replace('"DRAM",\n               10', ""))
    )


def test_zero_is_no_ceiling() -> None:
    found = read(JSON.replace("80.0", "0.0"))
    assert "l1.ert" not in ceilings(found)
    assert said(found, "L1 is 0")


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=300)


LEVELS = ["L1", "L2", "L3", "DRAM", "HBM"]
RATES = st.floats(-1e9, 1e9, allow_subnormal=False) | st.just(0.0)


@given(
    st.dictionaries(st.sampled_from(LEVELS), RATES),
    st.lists(TEXT | st.lists(TEXT) | st.integers(), max_size=3),
)
def test_each_rate_is_a_ceiling_or_left_out_by_name(rates: dict[str, float], others: list[Any]) -> None:
    """Whatever else is between the pairs."""
    pairs = [*others, *map(list, rates.items()), *others]
    found = read(json.dumps({"empirical": {"gbytes": {"data": pairs}}}))
    good = {f"{name.lower()}.ert": rate * 1e9 for name, rate in rates.items() if rate > 0}
    assert ceilings(found) == good
    assert all(said(found, f"{name} is {rate:g}: left out") for name, rate in rates.items() if rate <= 0)
    assert bool(good) != said(found, "no bandwidth and no FLOP rate was found")


@given(
    st.sampled_from([JSON, SUM, MAX]),
    st.integers(0, 1500),
    st.integers(0, 1500),
    st.text('0.9e[]{}",:-', max_size=5),
)
def test_of_damaged_output_every_rate_stands_in_it(good: str, start: int, end: int, put: str) -> None:
    damaged = good[:start] + put + good[end:]
    with contextlib.suppress(RecordedError):
        rates = [one.value for one in read(damaged).ceilings]
        assert all(rate > 0 for rate in rates)
        assert set(rates) <= {number * 1e9 for number in numbers_in(damaged)}


def on_gpu(**metadata: Any) -> str:
    """JSON of a run whose metadata are changed so."""
    whole = json.loads(JSON)
    whole["empirical"]["metadata"] = {"MPI_PROCS": 1, "OPENMP_THREADS": 1, **metadata}
    whole["empirical"]["gflops"]["metadata"] = {}
    return json.dumps(whole)


@pytest.mark.parametrize("setting", ["ERT_GPU", "ERT_HIP", "ERT_SYCL", "ERT_OCL"])
def test_rates_of_a_gpu_are_its_ceilings(setting: str) -> None:
    found = read(on_gpu(CONFIG={setting: ["True"]}))
    assert [(one.name, one.level, one.device) for one in found.ceilings] == [
        ("l1.ert", "l1", "gpu 0"),
        ("hbm.ert", "hbm", "gpu 0"),
        ("peak.f64", "", "gpu 0"),
        ("peak.f32", "", "gpu 0"),
    ]
    assert {one.device for one in read(on_gpu(CONFIG={setting: [False]})).ceilings} == {""}


def test_gpu_of_a_single_point_stands_in_its_settings() -> None:
    one = SUM.replace("OPENMP_THREADS 4", "OPENMP_THREADS 1")
    for line in (
        "CONFIG  {'ERT_GPU': ['True'], 'ERT_CC': ['nvcc']}",
        "GPU_BLOCKS     640",
        "GLOBAL_SIZE    0",
    ):
        assert {ceiling.device for ceiling in read(f"{one}{line}\n").ceilings} == {"gpu 0"}
    assert {ceiling.device for ceiling in read(f"{one}CONFIG  {{'ERT_GPU': [False]}}\n").ceilings} == {""}


def test_gpu_is_found_in_json_that_is_cut_off() -> None:
    cut = on_gpu(CONFIG={"ERT_GPU": ["True"]}).split('"spec"')[0]
    assert {one.device for one in read(cut).ceilings} == {"gpu 0"}


def test_several_processes_may_use_several_gpus_which_is_no_ceiling_of_one() -> None:
    found = read(on_gpu(CONFIG={"ERT_GPU": ["True"]}, MPI_PROCS=4))
    assert (found.ceilings, found.facts["DRAM of all GPUs"]) == ([], 10e9)
    assert said(found, "no ceiling of one GPU") and not said(found, "no bandwidth")
