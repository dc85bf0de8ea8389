"""What header lines of every generation tell, and what a line is that reports no execution."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.verbose import header

AVX512 = "Intel AVX-512 with AVX512BW, AVX512VL, and AVX512DQ extensions"


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        (
            "mkldnn_verbose,info,Intel(R) MKL-DNN v0.20.3 (Git Hash 0a9d),Intel(R) AVX2 (Intel(R) AVX2), x",
            {"version": "0.20.3", "commit": "0a9d", "cpu_isa": "Intel(R) AVX2 (Intel(R) AVX2), x"},
        ),
        ("dnnl_verbose,info,DNNL v1.3.0 (commit d0fc)", {"version": "1.3.0", "commit": "d0fc"}),
        ("onednn_verbose,info,oneDNN v2.7.3 (commit N/A)", {"version": "2.7.3", "commit": "N/A"}),
        ("onednn_verbose,v1,info,oneDNN v3.13.0 (commit 1c)", {"version": "3.13.0", "commit": "1c"}),
        ("onednn_verbose,v1,179.5,info,oneDNN v3.8.0 (commit 1c)", {"version": "3.8.0", "commit": "1c"}),
        ("onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:96", {"cpu_runtime": "OpenMP", "threads": 96}),
        ("dnnl_verbose,info,cpu,runtime:OpenMP", {"cpu_runtime": "OpenMP"}),
        (f"dnnl_verbose,info,cpu,isa:{AVX512}", {"cpu_isa": AVX512}),
        ("dnnl_verbose,info,gpu,runtime:none", {"gpu_runtime": "none"}),
        (
            "onednn_verbose,info,gpu,engine,1,backend:Level Zero,name:Intel(R) Data Center GPU Flex 170 "
            "[0x56c0],driver_version:1.3.25018,binary_kernels:enabled",
            {"gpu_1": "Intel(R) Data Center GPU Flex 170 [0x56c0]"},
        ),
        ("onednn_verbose,info,gpu,engine,0,name:Intel(R) Arc,driver_version:1", {"gpu_0": "Intel(R) Arc"}),
        ("onednn_verbose,v1,info,gpu,engine,opencl device count:0 - no devices available.", {}),
        ("onednn_verbose,v1,info,experimental features are enabled", {}),
        ("onednn_verbose,v1,primitive,exec,cpu,x", {}),
        ("info,oneDNN v1", {}),
    ],
)
def test_facts_of_onednn(line: str, facts: header.Facts) -> None:
    assert header.onednn_info(line) == facts


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        (
            "MKL_VERBOSE oneMKL 2024.0 Update 2 Product build 20240605 for Intel(R) 64 architecture Intel(R) "
            "Advanced Vector Extensions 512 (Intel(R) AVX-512) with BF16, Lnx 2.60GHz lp64 gnu_thread",
            {
                "mkl_version": "2024.0 Update 2",
                "mkl_isa": "Intel(R) Advanced Vector Extensions 512 (Intel(R) AVX-512) with BF16",
                "mkl_threading": "gnu_thread",
            },
        ),
        (
            "MKL_VERBOSE Intel(R) MKL 2018.0 Update 1 Product build 20171007 for Intel(R) 64 architecture "
            "Intel(R) AVX2 enabled processors, Lnx 2.40GHz lp64 intel_thread NMICDev:0",
            {
                "mkl_version": "2018.0 Update 1",
                "mkl_isa": "Intel(R) AVX2",
                "mkl_threading": "intel_thread",
            },
        ),
        ("MKL_VERBOSE SGEMM(N,N,1,1,1) 1us", {}),
    ],
)
def test_facts_of_mkl(line: str, facts: header.Facts) -> None:
    assert header.mkl_info(line) == facts


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("mkldnn_verbose,create,reorder,x", ("", "create", "")),
        ("dnnl_verbose,create:cache_hit,cpu,x", ("", "create", "cache_hit")),
        ("onednn_verbose,v1,primitive,create:dispatch,matmul,x", ("primitive", "create", "dispatch")),
        ("onednn_verbose,v1,1795202852749.4,primitive,exec:external,x", ("primitive", "exec", "external")),
        ("onednn_verbose,graph,exec,cpu,1", ("graph", "exec", "")),
        ("  onednn_verbose,common,error,filter", ("common", "error", "")),
        ("verbose", ("", "", "")),
    ],
)
def test_kinds_of_lines(line: str, kind: tuple[str, str, str]) -> None:
    assert header.kind_of(line) == kind


def test_a_lines_end_is_its_time() -> None:
    assert header.seconds_of("create,a,b,2x3,0.25") == 0.00025
    assert header.seconds_of("create,a,b,2x3, 1e+03 ") == 1.0
    assert header.seconds_of("create,a,b,2x3") is None
    assert header.seconds_of("create,1e300") is None


WORD = st.from_regex(r"[a-z]+(_[a-z]+)?", fullmatch=True)
TEXT = st.text(st.characters(exclude_characters="_"), max_size=40)  # which begins no line of theirs


@given(
    TEXT, st.from_regex(r"[0-9][0-9a-z.+-]{0,9}", fullmatch=True), st.from_regex("[0-9a-f]+", fullmatch=True)
)
def test_a_version_is_told_whatever_ran_into_its_line(before: str, version: str, commit: str) -> None:
    line = f"onednn_verbose,v1,info,oneDNN v{version} (commit {commit})"
    assert header.onednn_info(before + line) == {"version": version, "commit": commit}
    assert header.mkl_info(f"{before}MKL_VERBOSE oneMKL {version[0]}.0, ") == {
        "mkl_version": f"{version[0]}.0"
    }


@given(TEXT, WORD, WORD, WORD, TEXT)
def test_a_kind_is_told_whatever_stands_around(
    before: str, component: str, operation: str, kind: str, after: str
) -> None:
    known = "primitive" if len(component) % 2 else "graph"
    line = f"{before}dnnl_verbose,v1,{known},{operation}:{kind},{after}"
    assert header.kind_of(line) == (known, operation, kind)
    assert header.kind_of(line.replace(f":{kind}", "", 1)) == (known, operation, "")


@given(TEXT, st.floats(0, 1e9))
def test_a_time_at_the_end_is_the_one_that_was_printed(before: str, milliseconds: float) -> None:
    assert header.seconds_of(f"{before},{milliseconds}") == milliseconds / 1e3


@given(TEXT)
def test_other_text_tells_nothing(text: str) -> None:
    assert header.onednn_info(text) == header.mkl_info(text) == {}
    assert header.kind_of(text) == ("", "", "")
