"""The kernels that run through memory move what they claim, on every instruction set that this CPU has."""

from __future__ import annotations

import struct
from contextlib import closing

import pytest
from roofline_agent.calibrate.assembled import peaks, streams
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import this_hardware
from roofline_agent.calibrate.kernels import (
    CONSTANTS_BYTES,
    OPERATIONS,
    Form,
    StreamKernel,
)
from roofline_agent.calibrate.kernels import (
    constants as packed_constants,
)
from roofline_agent.calibrate.memory import Buffer, Executable

FORMS = [
    Form(instructions, width, "f64")
    for instructions, widths in {"sse2": (128,), "avx": (128, 256), "fma": (256,), "avx512f": (512,)}.items()
    for width in widths
]


def name(form: Form) -> str:
    return f"{form.instructions}-{form.width}"


def require(form: Form) -> None:
    try:
        missing = peaks.needed_flags(form) - this_hardware().flags
    except CalibrationError as error:
        pytest.skip(str(error))
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(sorted(missing))}")


def run(kernel: StreamKernel, passes: int, blocks: int, *arrays: list[float]) -> tuple[list[float], bytes]:
    """The first array and the constants as the kernel left them; behind each array stand more numbers."""
    with (
        closing(Executable(kernel.code)) as call,
        closing(Buffer(4096)) as constants,
        closing(Buffer(8 * 8192)) as memory,
    ):
        memory.fill(0x3F)
        starts = [memory.address + k * 8 * 2048 for k in range(3)]
        content = bytearray(memory.read(memory.size))
        for k, numbers in enumerate(arrays):
            struct.pack_into(f"<{len(numbers)}d", content, k * 8 * 2048, *numbers)
        memory.write(bytes(content))
        constants.write(packed_constants(kernel, 3.0, blocks))
        call(passes, blocks, *starts, constants.address)
        first = list(struct.unpack_from("<2048d", memory.read(memory.size)))
        return first, constants.read(CONSTANTS_BYTES)


def elements(kernel: StreamKernel, blocks: int) -> int:
    return blocks * kernel.block_bytes // 8


@pytest.mark.parametrize("blocks", [0, 1, 5])
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("form", FORMS, ids=name)
def test_triad_is_right_and_writes_nothing_behind_the_end(form: Form, streaming: bool, blocks: int) -> None:
    require(form)
    kernel = streams.stream_kernel(form, "triad", streaming)
    count = elements(kernel, blocks)
    b, c = [0.25 * i for i in range(count)], [1.0 + i for i in range(count)]
    result, _ = run(kernel, 3, blocks, [-1.0] * count, b, c)
    assert result[:count] == [p + 3.0 * q for p, q in zip(b, c, strict=True)]
    assert set(result[count:]) == set(struct.unpack("<d", b"\x3f" * 8))


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("form", FORMS, ids=name)
def test_copy_is_right_and_writes_nothing_behind_the_end(form: Form, streaming: bool) -> None:
    require(form)
    kernel = streams.stream_kernel(form, "copy", streaming)
    count = elements(kernel, 4)
    b = [0.5 + i for i in range(count)]
    result, _ = run(kernel, 2, 4, [-1.0] * count, b)
    assert result[:count] == b
    assert set(result[count:]) == set(struct.unpack("<d", b"\x3f" * 8))


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize(("passes", "blocks"), [(0, 3), (1, 0), (1, 1), (4, 7)])
@pytest.mark.parametrize("form", FORMS, ids=name)
def test_read_sums_every_element_once_a_pass(form: Form, passes: int, blocks: int, prefetch: bool) -> None:
    require(form)
    kernel = streams.stream_kernel(form, "read", prefetch=prefetch)
    numbers = [1.0 + i * i for i in range(elements(kernel, blocks))]
    _, constants = run(kernel, passes, blocks, numbers)
    assert sum(streams.sums(form, constants)) == passes * sum(numbers)


@pytest.mark.parametrize("form", FORMS, ids=name)
def test_traffic_is_counted_as_stream_does(form: Form) -> None:
    counted = {what: streams.stream_kernel(form, what) for what in OPERATIONS}
    assert {what: kernel.bytes_per_element for what, kernel in counted.items()} == {
        "read": 8,
        "copy": 16,
        "triad": 24,
    }
    assert {what: kernel.arrays for what, kernel in counted.items()} == {"read": 1, "copy": 2, "triad": 3}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("form", FORMS, ids=name)
def test_inner_loop_starts_on_a_cache_line(form: Form, operation: str) -> None:
    code = streams.stream_kernel(form, operation).code
    assert (code.index(bytes.fromhex("4d 85 db 0f 84")) + 9) % 64 == 0  # test r11,r11; jz
