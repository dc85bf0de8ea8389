"""The MKL parser against lines recorded from two releases, each routine called with m, n, k of 7, 8, 9."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.records import KernelShape
from roofline_agent.verbose import mkl

DATA = Path(__file__).parents[2] / "data" / "onednn"
PRODUCT = 2 * 7 * 8 * 9
OPERANDS = 7 * 9 + 9 * 8 + 7 * 8


def shape_of(line: str) -> KernelShape:
    call = mkl.parse(line)
    assert call is not None
    return call.shape


def recorded(release: int) -> dict[str, KernelShape]:
    """The first call of every routine in a recording."""
    shapes: dict[str, KernelShape] = {}
    for line in (DATA / f"mkl_routines_{release}.log").read_text().splitlines():
        call = mkl.parse(line)
        if call is not None:
            shapes.setdefault(call.shape.implementation, call.shape)
    return shapes


@pytest.mark.parametrize("release", [2023, 2026])
@pytest.mark.parametrize(
    ("routine", "precision", "flops", "size"),
    [
        ("SGEMM", "f32", PRODUCT, 4 * OPERANDS),
        ("DGEMM", "f64", PRODUCT, 8 * OPERANDS),
        ("HGEMM", "f16", PRODUCT, 2 * OPERANDS),
        ("CGEMM", "f32", 4 * PRODUCT, 8 * OPERANDS),
        ("CGEMM3M", "f32", 4 * PRODUCT, 8 * OPERANDS),
        ("GEMM_BF16BF16F32", "bf16", PRODUCT, 2 * 7 * 9 + 2 * 9 * 8 + 4 * 7 * 8),
        ("GEMM_S8U8S32", "s8", PRODUCT, 7 * 9 + 9 * 8 + 4 * 7 * 8),
        ("GEMM_S16S16S32", "s16", PRODUCT, 2 * 7 * 9 + 2 * 9 * 8 + 4 * 7 * 8),
        ("SGEMM_COMPUTE", "f32", PRODUCT, 4 * OPERANDS),
        ("SGEMM_BATCH_STRIDED", "f32", 5 * PRODUCT, 5 * 4 * OPERANDS),
        ("SGEMV", "f32", 2 * 7 * 8, 4 * (7 * 8 + 7 + 8)),
    ],
)
def test_recorded_routines(release: int, routine: str, precision: str, flops: int, size: int) -> None:
    shape = recorded(release)[routine]
    assert (shape.precision, shape.flops, shape.bytes) == (precision, flops, size)


@pytest.mark.parametrize("release", [2023, 2026])
def test_every_recorded_call_is_a_call_and_the_header_is_none(release: int) -> None:
    header, *lines = (DATA / f"mkl_routines_{release}.log").read_text().splitlines()
    assert mkl.parse(header) is None
    assert not mkl.looks_executed(header)
    assert all(mkl.parse(line) for line in lines)
    assert all(mkl.looks_executed(line) for line in lines)


@pytest.mark.parametrize("routine", ["SGESV", "SAXPY", "SGEMM_PACK", "MKL_SOMATCOPY"])
def test_other_routines_have_no_count(routine: str) -> None:
    shape = recorded(2026)[routine]
    assert (shape.operation, shape.flops, shape.bytes) == (routine.lower(), None, None)


N = 7 * 8 // 2  # elements of a triangle of 7


@pytest.mark.parametrize(
    ("call", "operation", "flops", "elements"),
    [
        ("SGEMMT(L,N,N,7,9,0x1,0x2,8,0x3,9,0x4,0x5,8)", "gemmt", 7 * 8 * 9, 2 * 7 * 9 + N),
        ("SSYRK(U,N,7,9,0x1,0x2,7,0x3,0x4,7)", "syrk", 7 * 8 * 9, 7 * 9 + N),
        ("SSYR2K(U,N,7,9,0x1,0x2,7,0x3,7,0x4,0x5,7)", "syr2k", 2 * 7 * 8 * 9, 2 * 7 * 9 + N),
        ("SSYMM(L,U,7,9,0x1,0x2,7,0x3,7,0x4,0x5,7)", "symm", 2 * 7 * 7 * 9, N + 2 * 7 * 9),
        ("SSYMM(R,U,9,7,0x1,0x2,7,0x3,9,0x4,0x5,9)", "symm", 2 * 7 * 7 * 9, N + 2 * 7 * 9),
        ("STRSM(L,U,N,N,7,9,0x1,0x2,7,0x3,7)", "trsm", 7 * 7 * 9, N + 2 * 7 * 9),
        ("STRMM(R,U,N,N,9,7,0x1,0x2,7,0x3,9)", "trmm", 7 * 7 * 9, N + 2 * 7 * 9),
        ("cblas_strmm(101,141,121,111,131,7,9,0x1,0x2,7,0x3,9)", "trmm", 7 * 7 * 9, N + 2 * 7 * 9),
        ("CHERK(U,N,7,9,0x1,0x2,7,0x3,0x4,7)", "herk", 4 * 7 * 8 * 9, 2 * (7 * 9 + N)),
    ],
)
def test_products_of_symmetric_and_triangular_matrices(
    call: str, operation: str, flops: int, elements: int
) -> None:
    shape = shape_of(f"MKL_VERBOSE {call} 1us CNR:OFF")
    assert (shape.operation, shape.flops, shape.bytes) == (operation, flops, 4 * elements)


def test_a_product_whose_sizes_are_addresses_has_no_count() -> None:
    shape = shape_of("MKL_VERBOSE DSYRK(U,N,0x1,0x2,0x3) 1us")
    assert (shape.operation, shape.precision, shape.flops, shape.bytes) == ("syrk", "f64", None, None)


def test_sizes_of_a_transform_are_no_addresses() -> None:
    shape = shape_of("MKL_VERBOSE FFT(dcfi30x30x30,tLim:4,desc:0x1c9c140) 452.82us CNR:OFF")
    assert (shape.operation, shape.problem) == ("fft", "dcfi30x30x30,tLim:4,desc:*")


def test_batches_are_counted_where_sizes_are_printed() -> None:
    assert recorded(2026)["SGEMM_BATCH"].flops == 2 * PRODUCT
    assert recorded(2023)["SGEMM_BATCH"].flops is None  # addresses only


def test_batch_of_two_groups() -> None:
    last = (DATA / "mkl_routines_2026.log").read_text().splitlines()[-1]
    shape = shape_of(last)
    assert shape.flops == 2 * (8 * 7 * 9 + 8 * 14 * 9)
    assert shape.bytes == 4 * (2 * 8 * 9 + 9 * (7 + 14) + 8 * (7 + 14))


def test_a_matrix_shared_by_the_batch_is_read_once() -> None:
    shape = shape_of(
        "MKL_VERBOSE SGEMM_BATCH_STRIDED(N,N,8,7,9,0x1,0x2,8,72,0x3,9,0,0x4,0x5,8,56,5) 1us CNR:OFF"
    )
    assert shape.bytes == 4 * (5 * 8 * 9 + 9 * 7 + 5 * 8 * 7)


def test_equal_calls_have_equal_shapes_whatever_their_addresses() -> None:
    line = "MKL_VERBOSE SGEMM(t,n,76,8,76,0x7fc{0},0x7fd{0},76,0x7fe{0},76,0x7c{0},0x8{0},76) 1ms CNR:OFF"
    assert shape_of(line.format("01")) == shape_of(line.format("fe"))


def test_a_line_cut_off_inside_its_arguments_is_still_a_timed_call() -> None:
    call = mkl.parse("MKL_VERBOSE SGEMM_BATCH(N,N,0x7ffcdacca2fc,0x7ffcdacca300,0x7 22.83us CNR:OFF NThr:8")
    assert call is not None
    assert (call.shape.operation, call.shape.flops, call.duration_ns) == ("gemm_batch", None, 22_830)


@pytest.mark.parametrize(
    ("time", "duration_ns"),
    [("734.89us", 734_890), ("1.27ms", 1_270_000), ("2.34s", 2_340_000_000), ("512ns", 512), ("3us", 3000)],
)
def test_units_of_time(time: str, duration_ns: int) -> None:
    call = mkl.parse(f"MKL_VERBOSE DGEMM(N,N,4,4,4,0x1,0x2,4,0x3,4,0x4,0x5,4) {time} CNR:OFF Dyn:1 FastMM:1")
    assert call is not None
    assert (call.start_ns, call.duration_ns) == (None, duration_ns)


def test_names_of_the_c_interface_have_a_layout_first() -> None:
    line = "MKL_VERBOSE cblas_sgemm(101,111,112,7,8,9,0x1,0x2,9,0x3,9,0x4,0x5,8) 1us CNR:OFF"
    assert shape_of(line).flops == PRODUCT


@pytest.mark.parametrize(
    "line",
    [
        "",
        "MKL_VERBOSE ",
        "MKL_VERBOSE oneMKL 2024.0 Update 2 Product build 20240605 for Intel(R) 64, Lnx 2.60GHz lp64",
        "MKL_VERBOSE Intel(R) MKL 2019.0 Update 3 Product build 20190125 for Intel(R) 64 architecture "
        "Intel(R) Advanced Vector Extensions 512 (Intel(R) AVX-512) enabled, Lnx 2.40GHz lp64 intel_thread",
        "SGEMM(N,N,1,1,1) 1us",
    ],
)
def test_other_lines_are_no_calls_and_do_not_claim_to_be(line: str) -> None:
    assert mkl.parse(line) is None
    assert not mkl.looks_executed(line)


def test_a_call_without_its_time_is_claimed_and_not_guessed() -> None:
    line = "MKL_VERBOSE SGEMM(N,N,1,1,1,0x1,0x2"
    assert mkl.parse(line) is None
    assert mkl.looks_executed(line)


def test_a_garbled_size_is_not_a_count_that_cannot_travel() -> None:
    assert shape_of("MKL_VERBOSE SGEMM(N,N,999999999999,999999999999,9) 1us").flops is None


@given(
    st.sampled_from(
        [
            "SGEMM",
            "CHERK",
            "STRSM",
            "SGEMM_BATCH",
            "ZGEMM_BATCH_STRIDED",
            "GEMM_S8U8S32",
            "cblas_dgemv",
            "FFT",
        ]
    ),
    st.text("TN,0123456789{}() *", max_size=60),
)
def test_a_call_of_odd_arguments_is_a_call_with_them(routine: str, arguments: str) -> None:
    """Its time counts, whatever is made of its sizes: all of its work is known, or none."""
    call = mkl.parse(f"MKL_VERBOSE {routine}({arguments}) 1.5us CNR:OFF")
    assert call is not None
    assert (call.duration_ns, call.shape.implementation, call.shape.problem) == (1500, routine, arguments)
    assert (call.shape.flops is None) == (call.shape.bytes is None)
    assert call.shape.flops is None or 0 <= call.shape.flops < 2**63


TORN = st.sampled_from(["", "MKL_VERBOSE ", "MKL_VERBOSE SGEMM(N,N,2,3"])


@given(TORN, st.text(max_size=80), st.sampled_from(["us", "ns", "ms", "s"]), st.integers(0, 10**6))
def test_a_call_is_read_whatever_ran_into_its_line(torn: str, text: str, unit: str, time: int) -> None:
    line = f"MKL_VERBOSE SGEMM(N,N,8,7,9,0x1) {time}{unit} CNR:OFF"
    call = mkl.parse(torn + text + line)
    assert call == mkl.parse(line)
    assert call is not None
    scale = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}[unit]
    assert (call.shape.flops, call.duration_ns) == (2 * 8 * 7 * 9, time * scale)
    assert mkl.parse(torn + text) is None


SYCL = "0x7fffe44a77d0,ColumnMajor,NonTranspose,NonTranspose,7,8,9,1,0x7f,7,0x7f,9,0,0x7f,7,0,0,0"


@pytest.mark.parametrize(
    ("routine", "precision", "flops", "size"),
    [
        ("oneapi::mkl::blas::dgemm", "f64", PRODUCT, 8 * OPERANDS),
        ("oneapi::mkl::blas::cgemm", "f32", 4 * PRODUCT, 8 * OPERANDS),
        ("oneapi::mkl::blas::column_major::gemm[float]", "f32", PRODUCT, 4 * OPERANDS),
        ("oneapi::mkl::blas::gemm[std::complex<double>]", "f64", 4 * PRODUCT, 16 * OPERANDS),
        ("oneapi::mkl::blas::gemm[bfloat16, bfloat16, float]", "", None, None),
        ("oneapi::mkl::blas::dgemm_batch", "", None, None),
        ("oneapi::mkl::lapack::potrf", "", None, None),
    ],
)
def test_calls_in_the_interface_of_sycl_are_on_the_gpu_they_name(
    routine: str, precision: str, flops: int | None, size: int | None
) -> None:
    for arguments in (SYCL, SYCL.replace("ColumnMajor,", "")):
        shape = shape_of(f"MKL_VERBOSE {routine}({arguments}) 1.25ms GPU0")
        assert (shape.precision, shape.flops, shape.bytes) == (precision, flops, size)
        assert (shape.on_gpu, shape.counted) == (True, False)


def test_routine_of_blas_on_a_gpu_is_on_it() -> None:
    line = "MKL_VERBOSE SGEMM(N,N,7,8,9,0x7f,0x7f,7,0x55,9,0x7f,0x55,7) 1.00ms"
    assert (shape_of(f"{line} GPU1").flops, shape_of(f"{line} GPU1").on_gpu) == (PRODUCT, True)
    assert shape_of(f"{line} CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:4").on_gpu is None


@pytest.mark.parametrize(
    ("end", "duration_ns"),
    [
        ("1.25ms GPU0", 1_250_000),
        ("0.00s GPU0", 0),
        ("mode:float_to_bf16 host:nan device:nan GPU0", 0),
        ("host:2.00ms device:1.50ms GPU0", 1_500_000),
    ],
)
def test_time_on_a_gpu(end: str, duration_ns: int) -> None:
    call = mkl.parse(f"MKL_VERBOSE oneapi::mkl::blas::dgemm({SYCL}) {end}")
    assert call is not None
    assert (call.duration_ns, call.shape.on_gpu) == (duration_ns, True)


def test_line_of_a_gpu_without_a_time_is_one_of_a_call() -> None:
    line = f"MKL_VERBOSE oneapi::mkl::blas::dgemm({SYCL}) GPU0"
    assert mkl.parse(line) is None
    assert mkl.looks_executed(line)
    assert not mkl.looks_executed("MKL_VERBOSE Detected GPU0 Intel(R)_Xe-HP Backend:Level_Zero VE:960")
