"""Other tools next to our kernels: real ones where they are here, and what is said where they are not."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest
from roofline_agent.calibrate.compare import contenders, tools
from roofline_agent.calibrate.compare.contenders import Contender, likwid_tests
from roofline_agent.calibrate.compare.ours import serve
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import Hardware, this_hardware

pytestmark = pytest.mark.slow

MIB = 1 << 20


@pytest.fixture(scope="module")
def machine() -> Hardware:
    try:
        return this_hardware()
    except CalibrationError as error:
        pytest.skip(str(error))


def test_our_own_kernels_answer_every_test(machine: Hardware) -> None:
    rates = list(serve(32 * MIB, ["non-temporal\n", "normal\n", "read\n", "f32\n", "f64\n"]))
    assert len(rates) == 5
    assert min(rates) > 0


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_compiled_stream_answers_for_both_kinds_of_stores(tmp_path: Path) -> None:
    title, tests, command = contenders.compiled_stream(tmp_path, 32 * MIB)
    assert set(tests) == {"normal", "non-temporal"}
    with contenders.server(title, tests, command) as stream:
        # A rate above zero also says that the arrays came out right.
        assert all(1e6 < stream.measure(test) < 1e14 for test in tests)


@pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="no numpy")
def test_products_of_numpy_answer_for_both_precisions() -> None:
    with contenders.server(*contenders.numpy_gemm(sys.executable)) as gemm:
        assert set(gemm.tests) == {"f32", "f64"}
        assert 1e6 < gemm.measure("f32") < 1e16


@pytest.mark.skipif(not shutil.which("likwid-bench"), reason="no likwid-bench")
def test_likwid_answers(machine: Hardware) -> None:
    rival = contenders.likwid(64 * MIB, len(machine.cpus), machine.flags)
    assert rival.measure("non-temporal") > 1e6
    assert rival.measure("f32") > 1e6


def test_tests_of_likwid_are_those_that_the_cpu_has() -> None:
    assert likwid_tests(frozenset({"sse2"}))["normal"] == "stream_sse"
    assert likwid_tests(frozenset({"avx", "fma"}))["non-temporal"] == "stream_mem_avx_fma"
    assert likwid_tests(frozenset({"avx", "fma", "avx512f"}))["f32"] == "peakflops_sp_avx512_fma"


def test_what_is_not_here_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CalibrationError, match="no C compiler"):
        contenders.compiled_stream(tmp_path, MIB)
    with pytest.raises(CalibrationError, match="likwid-bench: it is not installed"):
        contenders.likwid(MIB, 2, frozenset())
    with pytest.raises(CalibrationError, match="have no numpy; give --python"):
        contenders.numpy_gemm(str(tmp_path / "python"))


def test_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'no libgomp' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    with pytest.raises(CalibrationError, match="failed: no libgomp"):
        contenders.compiled_stream(tmp_path, MIB)


def test_child_that_dies_is_told_and_left_out() -> None:
    command = [sys.executable, "-c", "pass"]
    with (
        contenders.server("STREAM", {"normal": "x"}, command) as dead,
        pytest.raises(CalibrationError, match="STREAM gave no result for normal"),
    ):
        dead.measure("normal")


def test_best_of_all_rounds_counts_and_a_tool_that_fails_is_asked_no_more() -> None:
    ours = iter([5.0, 7.0, 6.0])
    asked = []

    def fail(test: str) -> float:
        asked.append(test)
        raise CalibrationError("broken tool")

    us = Contender("us", {"f32": ""}, lambda test: next(ours))
    good = Contender("good", {"f32": "a good tool"}, lambda test: 3.0)
    bad = Contender("bad", {"f32": "a bad tool"}, fail)
    notes: list[str] = []
    best = tools.run_rounds([us, good, bad], 3, notes, lambda text: None)
    assert best == {("us", "f32"): 7.0, ("good", "f32"): 3.0}
    assert (notes, asked) == (["broken tool"], ["f32"])
    (row,) = tools.rows(us, [good, bad], best)
    assert (row.name, row.ours, row.theirs, row.what) == ("peak.f32 (FMA)", 7.0, 3.0, "a good tool")


def test_tests_that_nobody_else_runs_are_not_run() -> None:
    def never(test: str) -> float:
        raise AssertionError(test)

    assert tools.run_rounds([Contender("us", {"f32": ""}, never)], 2, [], lambda text: None) == {}
