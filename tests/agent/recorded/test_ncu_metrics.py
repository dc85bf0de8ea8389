"""Nsight Compute's metrics: units, missing values, time and bytes, FLOPs of CUDA cores and tensor cores."""

from __future__ import annotations

import pytest
from roofline_agent.recorded.ncu.flops import (
    MAYBE_MOVES,
    PACKED_NOT_COUNTED,
    SMALLEST_DMMA,
    architecture,
)
from roofline_agent.recorded.recording import Kernel

from .gpu_pages import HEADER, OPS, kernel_of, ops, read_text

# Units


def test_unit_of_each_row_is_applied() -> None:
    one = kernel_of(
        ("dram__bytes_read.sum", "Mbyte", "3.35"),
        ("dram__bytes_write.sum", "byte", "50"),
        ("gpu__time_duration.sum", "us", "23.42"),
    )
    assert one.bytes["dram"] == pytest.approx(3_350_050)
    assert one.time_s == pytest.approx(23.42e-6)


def test_unit_of_each_column_is_applied() -> None:
    wide = (
        '"ID","Process ID","Kernel Name","Device","CC","dram__bytes.sum","gpu__time_duration.sum",'
        '"lts__t_bytes.sum"\n'
        '"","","","","","Gbyte","msecond","Kbyte"\n'
        '"0","7","k","0","8.0","2.5","4","1,000"\n'
        '"1","7","k","0","8.0","0.5","1","1,000"\n'
    )
    [one] = read_text(wide).kernels
    assert (one.launches, one.time_s) == (2, pytest.approx(5e-3))
    assert one.bytes == {"dram": pytest.approx(3e9), "l2": pytest.approx(2e6)}


def test_a_wide_page_without_units_gives_no_bytes_and_no_time() -> None:
    wide = (
        '"ID","Process ID","Kernel Name","dram__bytes.sum","gpu__time_duration.sum"\n"0","7","k","2.5","4"\n'
    )
    found = read_text(wide)
    [one] = found.kernels
    assert (one.time_s, dict(one.bytes)) == (None, {})
    assert "2: no row of units" in found.warnings


def test_units_may_stand_in_the_header_of_a_column() -> None:
    wide = '"ID","Process ID","Kernel Name","dram__bytes.sum [Mbyte]"\n"0","7","k","2.5"\n'
    [one] = read_text(wide).kernels
    assert one.bytes == {"dram": pytest.approx(2.5e6)}


def test_decimal_commas_are_read_as_such_or_not_at_all() -> None:
    one = kernel_of(
        ("dram__bytes.sum", "Mbyte", "3,35"),
        ("lts__t_bytes.sum", "byte", "1.234.567"),
        ("gpu__time_duration.sum", "us", "23,420"),
    )
    assert one.bytes == {"dram": pytest.approx(3.35e6), "l2": 1_234_567.0}
    assert one.time_s == pytest.approx(23.42e-6)


# Missing values


@pytest.mark.parametrize("missing", ["n/a", "", "no data", "(!) nan"])
def test_missing_values_are_never_zero(missing: str) -> None:
    one = kernel_of(
        *[(OPS.format(op), "inst", missing) for op in ("fadd", "fmul", "ffma")],
        ("dram__bytes.sum", "byte", missing),
        ("gpu__time_duration.sum", "ns", missing),
    )
    assert (one.flops, one.time_s, dict(one.bytes)) == (None, None, {})


def test_one_direction_of_the_traffic_is_not_the_traffic() -> None:
    assert kernel_of(("dram__bytes_read.sum", "byte", "5")).bytes == {}


def test_flops_nobody_counted_are_unknown() -> None:
    assert kernel_of(("gpu__time_duration.sum", "ns", "5")).flops is None


def test_zero_tensor_instructions_alone_say_nothing_about_flops() -> None:
    assert kernel_of(("sm__inst_executed_pipe_tensor.sum", "inst", "0")).flops is None


def test_measured_zero_is_zero() -> None:
    assert kernel_of(*ops(fadd="0")).flops == 0.0


def test_a_kind_of_instruction_that_is_missing_makes_a_lower_bound() -> None:
    one = kernel_of((OPS.format("ffma"), "inst", "10"))
    assert one.flops == 20.0
    assert "lower bound" in one.note


# Time and bytes


def test_time_is_cycles_over_rate_where_there_is_no_duration() -> None:
    one = kernel_of(
        ("smsp__cycles_elapsed.avg", "cycle", "5,000"),
        ("smsp__cycles_elapsed.avg.per_second", "cycle/nsecond", "1.25"),
    )
    assert one.time_s == pytest.approx(4e-6)


def test_labels_of_the_details_page_are_known() -> None:
    one = kernel_of(
        ("Memory Throughput", "%", "21.70"),
        ("Memory Throughput", "Gbyte/second", "100.00"),
        ("Duration", "usecond", "50.00"),
    )
    assert one.time_s == pytest.approx(50e-6)
    assert one.bytes == {"dram": pytest.approx(5e6)}
    assert "dram bytes: rate x time" in one.note


def test_cycles_of_the_details_page_give_the_time_with_a_note() -> None:
    one = kernel_of(("Elapsed Cycles", "cycle", "2,000"), ("SM Frequency", "Mhz", "1,000.00"))
    assert one.time_s == pytest.approx(2e-6)
    assert "elapsed cycles" in one.note


def test_rates_alone_give_no_bytes() -> None:
    assert kernel_of(("Memory Throughput", "Gbyte/s", "100.00")).bytes == {}


def test_sectors_are_32_bytes() -> None:
    one = kernel_of(("dram__sectors_read.sum", "sector", "10"), ("dram__sectors_write.sum", "sector", "6"))
    assert one.bytes == {"dram": 512.0}


def test_counts_per_cycle_need_the_cycles() -> None:
    rate = [(OPS.format(op) + ".per_cycle_elapsed", "inst/cycle", "2") for op in ("fadd", "fmul", "ffma")]
    known = kernel_of(
        *rate,
        ("gpu__time_duration.sum", "us", "1"),
        ("smsp__cycles_elapsed.avg.per_second", "Ghz", "1"),
    )
    assert known.flops == pytest.approx(8000)
    assert kernel_of(*rate).flops is None


# FLOPs and the tensor cores


def test_sm_and_smsp_counts_are_one_count() -> None:
    one = kernel_of(*ops(ffma="10"), *[(n.replace("sm__", "smsp__"), u, v) for n, u, v in ops(ffma="10")])
    assert one.flops == 20.0


def test_precision_is_that_of_most_flops() -> None:
    assert kernel_of(*ops(fadd="5", dfma="10")).precision == "f64"


@pytest.mark.parametrize(
    ("cc", "metric", "factor"),
    [
        ("7.0", "sm__inst_executed_pipe_tensor.sum", 512),
        ("7.5", "sm__inst_executed_pipe_tensor.sum", 2048),
        ("8.0", "sm__inst_executed_pipe_tensor.sum", 4096),
        ("8.0", "smsp__inst_executed_pipe_tensor.sum", 4096),
        ("8.6", "sm__inst_executed_pipe_tensor_op_hmma.sum", 4096),
        ("8.0", "sm__inst_executed_pipe_tensor_op_imma.sum", 8192),
        ("8.0", "sm__inst_executed_pipe_tensor_op_dmma.sum", 512),
        ("12.0", "sm__inst_executed_pipe_tensor.sum", 4096),
    ],
)
def test_tensor_instructions_count_by_architecture(cc: str, metric: str, factor: int) -> None:
    assert kernel_of((metric, "inst", "10"), cc=cc).flops == 10 * factor


def test_integers_of_tensor_cores_have_the_precision_that_ceilings_have() -> None:
    assert kernel_of(("sm__inst_executed_pipe_tensor_op_imma.sum", "inst", "10"), cc="8.0").precision == "s8"
    counted = ("sm__ops_path_tensor_src_int8.sum", "", "1,000")
    assert kernel_of(counted, cc="9.0").precision == "s8"


def test_tensor_instructions_of_hopper_say_nothing() -> None:
    one = kernel_of(*ops(ffma="1"), ("sm__inst_executed_pipe_tensor.sum", "inst", "10"), cc="9.0")
    assert one.flops is None
    assert "sm__ops_path_tensor_src" in one.note


@pytest.mark.parametrize(
    ("shape", "cc", "flops"),
    [
        ("16, 8, 8", "8.0", 4096),
        ("16, 8, 16", "8.0", 4096),
        ("16, 16, 4", "7.0", 512),
        ("16, 8, 8", "7.5", 2048),
    ],
)
def test_tensor_factor_is_by_architecture_and_a_smaller_one_in_the_name_is_noted(
    shape: str, cc: str, flops: int
) -> None:
    name = f"void Kernel<cutlass::arch::Mma<cutlass::gemm::GemmShape<{shape}>, (int)32>>"
    one = kernel_of(("sm__inst_executed_pipe_tensor.sum", "inst", "10"), *ops(ffma="1"), kernel=name, cc=cc)
    assert one.flops == 10 * flops + 2
    assert ("times the true count" in one.note) == (shape == "16, 8, 8" and cc == "8.0")


@pytest.mark.parametrize(
    "name",
    [
        "ampere_sgemm_128x64_tf32_nn",
        "cutlass_80_tensorop_s1688gemm_256x128_16x3_nn_align4",
        "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_stage3_warpsize2x2x1_tensor16x8x8_kernel",
    ],
)
@pytest.mark.parametrize("pipe", ["tensor", "tensor_op_hmma"])
def test_tf32_has_the_operations_of_its_only_instruction(name: str, pipe: str) -> None:
    one = kernel_of((f"sm__inst_executed_pipe_{pipe}.sum", "inst", "10"), *ops(ffma="1"), kernel=name)
    assert (one.flops, one.precision, one.note) == (10 * 2048 + 2, "tf32", "")


def test_half_precision_of_the_same_shape_is_no_tf32() -> None:
    hmma = ("sm__inst_executed_pipe_tensor_op_hmma.sum", "inst", "10")
    half = kernel_of(hmma, *ops(ffma="1"), kernel="ampere_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn")
    assert (half.precision, "2 times the true count" in half.note) == ("f16", True)
    tile = kernel_of(hmma, *ops(ffma="1"), kernel="sm75_xmma_gemm_f16f16_f16f32_f32_tn_n_tensor16x8x8_kernel")
    assert (tile.precision, "2 times the true count" in tile.note) == ("f16", True)
    assert kernel_of(hmma, kernel="ampere_bf16_s16816gemm_bf16_64x64_nn").precision == "bf16"


def test_flops_of_tensor_cores_alone_are_a_lower_bound() -> None:
    one = kernel_of(("sm__inst_executed_pipe_tensor.sum", "inst", "10"), kernel="ampere_s16816gemm_fp16_nn")
    assert one.note == "only operations of the tensor cores were counted: a lower bound"


def test_newest_of_the_names_tells_the_gpu() -> None:
    assert architecture("volta_sgemm_128x64_nn\ncudnn_ampere_scudnn_128x64_relu\nturing_h1688") == "8.0"


def test_old_pages_without_architecture_take_it_from_names() -> None:
    header = HEADER.replace('"Block Size","Grid Size","Device","CC",', "")

    def old(kernel: str) -> Kernel:
        metric = '"sm__inst_executed_pipe_tensor.sum","inst","10"'
        line = f'"0","1","app","127.0.0.1","{kernel}","1","7","Metrics",{metric}'
        return read_text(f"{header}\n{line}\n").kernels[0]

    assert old("volta_fp16_s884gemm_fp16_128x128_nn").flops == 5120.0
    assert old("ampere_fp16_s16816gemm_fp16_128x128_nn").flops == 40960.0
    unknown = old("my_kernel")
    assert unknown.flops == 5120.0
    assert "lower bound" in unknown.note


def test_hopper_operations_are_counted_once() -> None:
    path = "sm__ops_path_tensor_{}.sum"
    one = kernel_of(
        (path.format("src_bf16_dst_fp32"), "", "1,000"),
        (path.format("op_hgmma_src_bf16_dst_fp32"), "", "1,000"),
        (path.format("src_bf16_dst_fp32_sparsity_off"), "", "1,000"),
        (path.format("src_fp8"), "", "300"),
        (path.format("src_fp8_dst_fp32"), "", "300"),
        (path.format("src_int8"), "", "n/a"),
        ("sm__inst_executed_pipe_tensor.sum", "inst", "10"),
        cc="9.0",
    )
    assert one.flops == 1300.0
    assert one.precision == "bf16"


def test_variants_alone_add_up() -> None:
    path = "sm__ops_path_tensor_op_{}_src_fp16_dst_fp32{}.sum"
    one = kernel_of(
        (path.format("hmma", ""), "", "10"),
        (path.format("hgmma", "_sparsity_off"), "", "20"),
        (path.format("hgmma", "_sparsity_on"), "", "5"),
    )
    assert one.flops == 35.0


def test_register_moves_of_ampere_are_no_flops() -> None:
    """HFMA2.MMA moves constants: as many hfma as 32 threads of each tensor instruction, and no other FP16."""
    one = kernel_of(*ops(ffma="1000", hfma="640"), ("smsp__inst_executed_pipe_tensor.sum", "inst", "20"))
    assert (one.flops, one.precision) == (2000.0, "f32")
    assert "register moves" in one.note


def test_real_half_precision_is_counted() -> None:
    tensor = ("sm__inst_executed_pipe_tensor.sum", "inst", "20")
    with_add = kernel_of(*ops(ffma="1000", hfma="640", hadd="8"), tensor)
    assert with_add.flops == 2000 + 1280 + 8 + 20 * 4096
    no_moves_on_volta = kernel_of(*ops(ffma="1000", hfma="640"), tensor, cc="7.0")
    assert no_moves_on_volta.flops == 2000 + 1280 + 20 * 512
    matrix = kernel_of(*ops(ffma="1000", hfma="32"), tensor)
    assert matrix.flops == 2000 + 64 + 20 * 4096


def test_a_tensor_kernel_whose_tensor_work_nobody_counted_says_so() -> None:
    assert "not counted" in kernel_of(*ops(ffma="10"), kernel="ampere_fp16_s16816gemm_fp16_nn").note


@pytest.mark.parametrize("part", ["sm", "smsp"])
def test_operations_of_tensor_cores_may_be_printed_as_a_rate(part: str) -> None:
    one = kernel_of(
        ("gpu__time_duration.sum", "us", "2"),
        (f"{part}__ops_path_tensor_src_fp16_dst_fp32.sum.per_second", "inst/ns", "3"),
        ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_second", "inst/us", "5"),
        ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_second", "inst/us", "0"),
        ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_second", "inst/us", "1"),
    )
    assert one.flops == pytest.approx(2e-6 * (3e9 + 11e6))
    assert (one.precision, one.note) == ("f16", "")


def test_operations_of_tensor_cores_of_both_names_count_once() -> None:
    same = ("__ops_path_tensor_src_bf16_dst_fp32.sum", "", "1,024")
    one = kernel_of(*((part + same[0], *same[1:]) for part in ("sm", "smsp")), *ops(ffma="0"))
    assert (one.flops, one.precision) == (1024.0, "bf16")


@pytest.mark.parametrize(
    ("kernel", "note"),
    [("arange(int)", MAYBE_MOVES), ("ampere_fp16_s16816gemm_fp16_64x64_nn", "")],
)
def test_moves_of_few_threads_cannot_be_told_from_matrix_operations_which_is_said(
    kernel: str, note: str
) -> None:
    tensor = ("sm__inst_executed_pipe_tensor.sum", "inst", "10")
    one = kernel_of(tensor, *ops(hfma="30", ffma="1"), kernel=kernel)
    assert (one.flops, one.note) == (40960 + 62, note)


def test_packed_fp32_of_blackwell_is_two_operations_an_instruction() -> None:
    plain, packed = ops(fadd="10", fmul="5", ffma="20"), ops(fadd2="3", fmul2="4", ffma2="9000")
    for cc in ("10.0", "10.3", "12.0"):
        one = kernel_of(*plain, *packed[3:], cc=cc)
        assert (one.flops, one.precision, one.note) == (55 + 6 + 8 + 4 * 9000, "f32", "")


def test_packed_fp32_that_nobody_counted_makes_a_lower_bound_where_the_gpu_has_it() -> None:
    plain = ops(fadd="10", fmul="5", ffma="20")
    one = kernel_of(*plain, cc="10.0")
    assert (one.flops, one.note) == (55.0, PACKED_NOT_COUNTED)
    assert kernel_of(*plain, (OPS.format("ffma2"), "inst", "1"), cc="10.0").note == PACKED_NOT_COUNTED
    assert kernel_of(*plain, cc="9.0").note == ""
    assert kernel_of(*ops(dfma="1"), cc="10.0").note == "", "FP32 was not asked for"
    assert kernel_of(*ops(ffma="0"), cc="10.0").flops is None, "zero of the plain ones is not zero"


@pytest.mark.parametrize(
    ("name", "cc", "factor", "note"),
    [
        ("sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize64x64x32_tensor16x8x16_kernel", "9.0", 4096, ""),
        ("void Kernel<cutlass::arch::Mma<cutlass::gemm::GemmShape<16, 8, 8>, 32, double>>", "9.0", 2048, ""),
        ("cutlass_90_tensorop_d1684gemm_128x128_16x3_nn_align1", "9.0", 1024, ""),
        ("cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1", "9.0", 512, ""),
        ("mine(double*)", "9.0", 512, SMALLEST_DMMA),
        ("sm80_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize64x64x32_tensor16x8x16_kernel", "10.0", 512, ""),
        ("mine(double*)", "8.0", 512, ""),
    ],
)
def test_fp64_instructions_of_hopper_have_the_size_in_the_name(
    name: str, cc: str, factor: int, note: str
) -> None:
    dmma = ("sm__inst_executed_pipe_tensor_op_dmma.sum", "inst", "10")
    one = kernel_of(*ops(dfma="1"), dmma, kernel=name, cc=cc)
    assert (one.flops, one.precision, one.note) == (10 * factor + 2, "f64", note)
