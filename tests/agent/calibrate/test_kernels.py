"""The kernels compute what they claim, on every instruction set that this CPU has."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import closing

import pytest
from roofline_agent.calibrate import kernels
from roofline_agent.calibrate.assembler import Form
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.machine import this_machine
from roofline_agent.calibrate.memory import Executable, Memory

WIDTHS = {"sse2": (128,), "avx": (128, 256), "fma": (128, 256), "avx512f": (512,)}


def forms(precision: str, *, scalars: bool) -> list[Form]:
    """Every form there is, also those that a better one hides on a modern CPU."""
    scalar = 32 if precision == "f32" else 64
    return [
        Form(instructions, width, precision)
        for instructions, widths in WIDTHS.items()
        for width in ((scalar,) if scalars and instructions != "avx512f" else ()) + widths
    ]


def name(form: Form) -> str:
    return f"{form.instructions}-{form.precision}-{form.width}"


def require(form: Form) -> None:
    try:
        flags = this_machine().flags
    except CalibrationError as error:
        pytest.skip(str(error))
    missing = kernels.needed_flags(form) - flags
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(sorted(missing))}")


def pack(form: Form, numbers: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(numbers)}{'f' if form.precision == 'f32' else 'd'}", *numbers)


def unpack(form: Form, content: bytes) -> list[float]:
    count = len(content) // form.element_bytes
    return list(struct.unpack(f"<{count}{'f' if form.precision == 'f32' else 'd'}", content))


PEAK_FORMS = forms("f32", scalars=True) + forms("f64", scalars=True)
STREAM_FORMS = forms("f64", scalars=False)


@pytest.mark.parametrize("iterations", [0, 1, 7])
@pytest.mark.parametrize("form", PEAK_FORMS, ids=name)
def test_peak_kernel_adds_the_product_to_every_lane_of_every_chain(form: Form, iterations: int) -> None:
    require(form)
    kernel = kernels.peak_kernel(form)
    x = [1.0 + lane for lane in range(form.lanes)]
    y = [0.5 * (lane + 3) for lane in range(form.lanes)]
    before = [float(k) for k in range(kernel.chains * form.lanes)]
    content = pack(form, x) + pack(form, y) + pack(form, before) + pack(form, [-1.0])
    with closing(Executable(kernel.code)) as run, closing(Memory(len(content))) as memory:
        memory.write(content)
        run(iterations, memory.address, memory.address + 2 * form.bytes)
        after = unpack(form, memory.read(len(content))[2 * form.bytes :])
    updates = iterations * kernel.updates_per_iteration
    products = [updates * a * b for a, b in zip(x, y, strict=True)] * kernel.chains
    # Small halves are exact in f32, so nothing is rounded; the -1 behind the sums is not to be touched.
    assert after == [b + p for b, p in zip(before, products, strict=True)] + [-1.0]


@pytest.mark.parametrize("form", PEAK_FORMS, ids=name)
def test_peak_kernel_states_two_flops_for_each_update_of_each_lane(form: Form) -> None:
    kernel = kernels.peak_kernel(form)
    assert kernel.flops_per_iteration == 2 * form.lanes * kernel.chains * kernel.updates_per_iteration
    assert kernel.chains >= 12


@pytest.mark.parametrize("elements", [0, 1, 3, 31, 32, 33, 255, 1000, 1027])
@pytest.mark.parametrize("form", STREAM_FORMS, ids=name)
def test_triad_is_right_whatever_the_length(form: Form, elements: int) -> None:
    require(form)
    kernel = kernels.triad_kernel(form)
    b = [0.25 * i for i in range(elements)]
    c = [1.0 + i for i in range(elements)]
    room = 8 * (elements + 64)
    with (
        closing(Executable(kernel.code)) as run,
        closing(Memory(room)) as a_memory,
        closing(Memory(room)) as b_memory,
        closing(Memory(room)) as c_memory,
        closing(Memory(form.bytes)) as scale,
    ):
        a_memory.fill(0x3F)
        b_memory.write(pack(form, b))
        c_memory.write(pack(form, c))
        scale.write(pack(form, [3.0] * form.lanes))
        blocks, tail = divmod(elements, kernel.block_elements)
        run(blocks, tail, a_memory.address, b_memory.address, c_memory.address, scale.address)
        result = unpack(form, a_memory.read(room))
    assert result[:elements] == [p + 3.0 * q for p, q in zip(b, c, strict=True)]
    assert set(result[elements:]) == set(unpack(form, b"\x3f" * 8))  # nothing written behind the end


@pytest.mark.parametrize("elements", [0, 1, 3, 63, 64, 65, 1000, 1027])
@pytest.mark.parametrize("form", STREAM_FORMS, ids=name)
def test_read_kernel_sums_every_element_once(form: Form, elements: int) -> None:
    require(form)
    kernel = kernels.read_kernel(form)
    numbers = [1.0 + i * i for i in range(elements)]
    sums_bytes = kernel.chains * form.bytes + 8
    with (
        closing(Executable(kernel.code)) as run,
        closing(Memory(8 * (elements + 64))) as source,
        closing(Memory(sums_bytes + 8)) as sums,
    ):
        source.fill(0x3F)  # what lies behind the end is not to be counted
        source.write(pack(form, numbers))
        blocks, tail = divmod(elements, kernel.block_elements)
        run(blocks, tail, source.address, sums.address)
        result = unpack(form, sums.read(sums_bytes + 8))
    assert sum(result[:-1]) == sum(numbers)
    assert result[-1] == 0.0


@pytest.mark.parametrize("form", STREAM_FORMS, ids=name)
def test_stream_kernels_state_their_traffic(form: Form) -> None:
    assert kernels.triad_kernel(form).bytes_per_element == 24
    assert kernels.read_kernel(form).bytes_per_element == 8


@pytest.mark.parametrize("form", PEAK_FORMS, ids=name)
def test_peak_loop_body_starts_on_a_cache_line(form: Form) -> None:
    code = kernels.peak_kernel(form).code
    head = code.index(bytes.fromhex("48 85 ff 0f 84"))  # test rdi,rdi; jz
    assert (head + 9) % 64 == 0


@pytest.mark.parametrize("form", PEAK_FORMS + STREAM_FORMS, ids=name)
def test_only_code_with_avx_cleans_the_upper_halves_before_it_returns(form: Form) -> None:
    cleans = kernels.peak_kernel(form).code.endswith(bytes.fromhex("c5 f8 77 c3"))
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
    ],
)
def test_only_instructions_whose_flags_are_all_there_are_used(
    flags: frozenset[str], expected: list[tuple[str, int]]
) -> None:
    assert [(form.instructions, form.width) for form in kernels.usable_forms(flags, "f32")] == expected
