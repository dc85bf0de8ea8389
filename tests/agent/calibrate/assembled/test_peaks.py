"""The kernels of the peaks compute what they claim, on every instruction set that this CPU has."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import closing

import pytest
from roofline_agent.calibrate.assembled import peaks
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import this_hardware
from roofline_agent.calibrate.kernels import Form
from roofline_agent.calibrate.memory import Buffer, Executable

PEAK_FORMS = [
    *(
        Form(instructions, width, precision)
        for precision, scalar in (("f32", 32), ("f64", 64))
        for instructions, widths in (
            ("sse2", (scalar, 128)),
            ("avx", (scalar, 128, 256)),
            ("fma", (scalar, 128, 256)),
            ("avx512f", (512,)),
        )
        for width in widths
    ),
    *(Form("avx512_fp16", width, "f16") for width in (16, 128, 256, 512)),
]
DOT_FORMS = [Form("avx512_bf16", width, "bf16") for width in (128, 256, 512)]
CODES = {"f16": "e", "f32": "f", "f64": "d"}


def name(form: Form) -> str:
    return f"{form.instructions}-{form.precision}-{form.width}"


def require(form: Form) -> None:
    try:
        flags = this_hardware().flags
    except CalibrationError as error:
        pytest.skip(str(error))
    missing = peaks.needed_flags(form) - flags
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(sorted(missing))}")


def pack(form: Form, numbers: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(numbers)}{CODES[form.precision]}", *numbers)


def unpack(form: Form, content: bytes) -> list[float]:
    count = len(content) // form.element_bytes
    return list(struct.unpack(f"<{count}{CODES[form.precision]}", content))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("iterations", [0, 1, 7])
@pytest.mark.parametrize("form", PEAK_FORMS, ids=name)
def test_peak_kernel_adds_the_product_to_every_lane_of_every_chain(
    form: Form, iterations: int, fused: bool
) -> None:
    require(form)
    kernel = peaks.peak_kernel(form, fused)
    x = [1.0 + lane % 4 for lane in range(form.lanes)]
    y = [0.5 * (lane % 3 + 1) for lane in range(form.lanes)]
    before = [float(k % 64) for k in range(kernel.chains * form.lanes)]
    content = pack(form, x) + pack(form, y) + pack(form, before) + pack(form, [-1.0])
    with closing(Executable(kernel.code)) as run, closing(Buffer(len(content))) as memory:
        memory.write(content)
        run(iterations, memory.address, memory.address + 2 * form.bytes)
        after = unpack(form, memory.read(len(content))[2 * form.bytes :])
    updates = iterations * kernel.updates_per_iteration
    products = [updates * a * b for a, b in zip(x, y, strict=True)] * kernel.chains
    # Small halves are exact even in f16, so nothing is rounded; the -1 behind the sums is not to be touched.
    assert after == [b + p for b, p in zip(before, products, strict=True)] + [-1.0]


@pytest.mark.parametrize("form", PEAK_FORMS, ids=name)
def test_peak_kernel_states_two_flops_for_each_update_of_each_lane(form: Form) -> None:
    kernel = peaks.peak_kernel(form)
    assert kernel.flops_per_iteration == 2 * form.lanes * kernel.chains * kernel.updates_per_iteration
    assert kernel.chains >= 12


@pytest.mark.parametrize("form", DOT_FORMS, ids=name)
def test_dot_product_adds_both_products_of_a_pair_to_its_f32(form: Form) -> None:
    require(form)
    kernel = peaks.peak_kernel(form)
    lanes = form.bytes // 4
    x, y = [1.0, 2.0] * lanes, [3.0, 0.5] * lanes
    content = b"".join(struct.pack("<f", number)[2:] for number in x + y)
    content += struct.pack(f"<{kernel.chains * lanes}f", *range(kernel.chains * lanes))
    with closing(Executable(kernel.code)) as run, closing(Buffer(len(content))) as memory:
        memory.write(content)
        run(5, memory.address, memory.address + 2 * form.bytes)
        after = struct.unpack(f"<{kernel.chains * lanes}f", memory.read(len(content))[2 * form.bytes :])
    added = 5 * kernel.updates_per_iteration * (1.0 * 3.0 + 2.0 * 0.5)
    assert list(after) == [k + added for k in range(kernel.chains * lanes)]
    assert kernel.flops_per_iteration == 4 * lanes * kernel.chains * kernel.updates_per_iteration


@pytest.mark.parametrize(
    ("form", "fused", "operation"),
    [
        (Form("fma", 256, "f32"), True, "fma"),
        (Form("fma", 256, "f32"), False, "mul_add"),
        (Form("avx", 256, "f32"), True, "mul_add"),
        (Form("avx512f", 512, "f64"), False, "mul_add"),
        (DOT_FORMS[0], True, "dot"),
    ],
)
def test_operation_is_what_runs(form: Form, fused: bool, operation: str) -> None:
    assert peaks.peak_kernel(form, fused).operation == operation


@pytest.mark.parametrize("form", PEAK_FORMS, ids=name)
def test_peak_loop_body_starts_on_a_cache_line(form: Form) -> None:
    code = peaks.peak_kernel(form).code
    head = code.index(bytes.fromhex("48 85 ff 0f 84"))  # test rdi,rdi; jz
    assert (head + 9) % 64 == 0


@pytest.mark.parametrize("form", PEAK_FORMS + DOT_FORMS, ids=name)
def test_only_code_with_avx_cleans_the_upper_halves_before_it_returns(form: Form) -> None:
    cleans = peaks.peak_kernel(form).code.endswith(bytes.fromhex("c5 f8 77 c3"))
    assert cleans == (form.instructions != "sse2")


SSE2 = frozenset({"sse2"})


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (frozenset(), []),
        (SSE2, [("sse2", 32), ("sse2", 128)]),
        (SSE2 | {"avx"}, [("avx", 32), ("avx", 128), ("avx", 256)]),
        (SSE2 | {"avx", "avx2", "fma"}, [("fma", 32), ("fma", 128), ("fma", 256)]),
        (SSE2 | {"avx", "fma", "avx512f"}, [("fma", 32), ("fma", 128), ("fma", 256), ("avx512f", 512)]),
        (SSE2 | {"avx", "avx512f"}, [("avx", 32), ("avx", 128), ("avx", 256)]),
        (SSE2 | {"fma", "avx512f"}, [("sse2", 32), ("sse2", 128)]),
        (SSE2 | {"avx512f", "avx512_fp16"}, [("sse2", 32), ("sse2", 128)]),
    ],
)
def test_only_instructions_whose_flags_are_all_there_are_used(
    flags: frozenset[str], expected: list[tuple[str, int]]
) -> None:
    assert [(form.instructions, form.width) for form in peaks.usable_forms(flags, "f32")] == expected


HALF_FLAGS = frozenset({"avx512f", "avx512vl", "avx", "fma"})


@pytest.mark.parametrize(
    ("flags", "precision", "widths"),
    [
        (HALF_FLAGS, "f16", []),
        (HALF_FLAGS | {"avx512_fp16"}, "f16", [16, 128, 256, 512]),
        (HALF_FLAGS | {"avx512_bf16"}, "bf16", [128, 256, 512]),
        (HALF_FLAGS - {"avx512vl"} | {"avx512_bf16"}, "bf16", []),
    ],
)
def test_half_precision_needs_its_own_flags(flags: frozenset[str], precision: str, widths: list[int]) -> None:
    assert [form.width for form in peaks.usable_forms(flags, precision)] == widths
