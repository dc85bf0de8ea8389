"""Sustained peaks of Nsight Compute x the clock it measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from roofline_agent.ncu import diagnosis
from roofline_agent.ncu.session import Unusable
from roofline_agent.ncu.sustained import DRAM_CLOCK, L2_CLOCK, SM_CLOCK, ask, asked, read

from .fake_ncu import install

FFMA = "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained"
TENSOR = "sm__inst_executed_pipe_tensor.sum.peak_sustained"
BF16 = "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum.peak_sustained"
F16 = "sm__ops_path_tensor_src_fp16_dst_fp32_sparsity_off.sum.peak_sustained"


def table(folder: Path, cc: str, *metrics: tuple[str, str, str]) -> Path:
    """ncu's raw page of one launch."""
    names = ["ID", "Kernel Name", "Device", "CC", *(name for name, _, _ in metrics)]
    units = ["", "", "", "", *(unit for _, unit, _ in metrics)]
    row = ["0", "roofline_trial", "0", cc, *(value for _, _, value in metrics)]
    log = folder / "log"
    lines = (",".join(f'"{cell}"' for cell in cells) for cells in (names, units, row))
    log.write_text("==PROF== Connected to process 7\n" + "\n".join(lines) + "\n")
    return log


def values(log: Path) -> dict[str, float]:
    return {one.name: one.value for one in read(log)}


def test_v100_of_the_paper(tmp_path: Path) -> None:
    """80 SMs x 64 lanes x 2 x 1.48 GHz, 1024 bytes x 0.877 GHz, and 2 tensor instructions an SM and clock."""
    log = table(
        tmp_path,
        "7.0",
        (FFMA, "inst/cycle", "5120"),
        (TENSOR, "inst/cycle", "160"),
        ("dram__bytes.sum.peak_sustained", "byte/cycle", "1024"),
        (SM_CLOCK, "cycle/second", "1312000000"),
        (DRAM_CLOCK, "cycle/nsecond", "0.877"),
    )
    found = values(log)
    assert found["peak.f16"] == pytest.approx(107.479e12, rel=1e-5)
    assert found["peak.f32"] == pytest.approx(5120 * 2 * 1.312e9)
    assert found["hbm.sustained"] == pytest.approx(898e9, rel=1e-3)
    assert set(found) == {"peak.f16", "peak.f32", "hbm.sustained"}


def test_tensor_instructions_have_a_size_on_v100_alone(tmp_path: Path) -> None:
    clock = (SM_CLOCK, "hz", "1e9")
    assert values(table(tmp_path, "8.0", (TENSOR, "", "160"), clock)) == {}
    assert values(table(tmp_path, "9.0", (F16, "", "540672"), clock)) == {"peak.f16": 540672e9}


def test_the_higher_of_plain_and_tensor_cores_counts(tmp_path: Path) -> None:
    log = table(
        tmp_path,
        "9.0",
        ("sm__sass_thread_inst_executed_op_dfma_pred_on.sum.peak_sustained", "inst", "8448"),
        ("sm__ops_path_tensor_src_fp64.sum.peak_sustained", "", "33792"),
        (SM_CLOCK, "Ghz", "1.5"),
    )
    (one,) = read(log)
    assert (one.name, one.value, one.clock_hz) == ("peak.f64", 33792 * 1.5e9, 1.5e9)
    assert "x 1.500 GHz" in one.how


@pytest.mark.parametrize(("peak", "clock"), [("n/a", "1e9"), ("5120", "n/a"), ("0", "1e9")])
def test_without_peak_or_clock_there_is_no_ceiling(tmp_path: Path, peak: str, clock: str) -> None:
    assert values(table(tmp_path, "8.0", (FFMA, "inst", peak), (SM_CLOCK, "hz", clock))) == {}


def test_only_what_is_offered_is_asked_for() -> None:
    offered = ["dram__bytes", "dram__cycles_elapsed", FFMA.partition(".")[0], "lts__t_bytes"]
    assert asked(offered) == (
        "gpu__time_duration.sum",
        FFMA,
        "dram__bytes.sum.peak_sustained",
        "lts__t_bytes.sum.peak_sustained",
        DRAM_CLOCK,
    )
    assert L2_CLOCK in asked(["lts__cycles_elapsed"])


def test_profiler_is_asked_and_read(tmp_path: Path) -> None:
    """The made-up ncu says 100 of everything, and 1 GHz."""
    environ = {"ROOFLINE_NCU": str(install(tmp_path)), "PATH": "/usr/bin:/bin"}
    found = ask(environ)
    assert [(one.name, one.how) for one in found] == [
        ("peak.f32", f"{FFMA} of 100 x 2 x 1.000 GHz"),
        ("peak.bf16", f"{BF16} of 100 x 1 x 1.000 GHz"),
        ("hbm.sustained", "dram__bytes.sum.peak_sustained of 100 x 1 x 1.000 GHz"),
    ]
    assert [one.value for one in found] == pytest.approx([200e9, 100e9, 100e9])


def test_reason_why_it_cannot_be_asked(tmp_path: Path) -> None:
    ncu = {"ROOFLINE_NCU": str(install(tmp_path)), "PATH": "/usr/bin:/bin", "FAKE_NCU": "denied"}
    with pytest.raises(Unusable, match="ERR_NVGPUCTRPERM"):
        ask(ncu)
    with pytest.raises(Unusable, match=re.escape(diagnosis.MISSING)):
        ask({"ROOFLINE_NCU": "/nowhere/ncu", "PATH": "/usr/bin:/bin"})
