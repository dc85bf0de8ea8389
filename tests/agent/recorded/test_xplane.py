"""XPlane files whose operations span others, made by hand after tsl/profiler/protobuf/xplane.proto."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from roofline_agent.recorded import reader
from roofline_agent.recorded.collector import Collector

from .traces import read

MS = 10**9  # in ps
NAMES = {1: "%while.5", 2: "%fusion.1", 3: "%dot.2", 4: "%copy-start.7 = (f32[8]) copy-start(%p)"}
FLOPS, BYTES = 1, 2
# Of XLA's cost analysis; that of the loop has its body's too.
COUNTS = {1: {FLOPS: 700, BYTES: 70}, 2: {FLOPS: 300, BYTES: 30}, 3: {FLOPS: 400, BYTES: 40}, 4: {BYTES: 32}}


def varint(value: int) -> bytes:
    head, rest = value & 127, value >> 7
    return bytes([head | 128]) + varint(rest) if rest else bytes([head])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def line(name: str, *events: tuple[int, int, int]) -> bytes:
    """Events: operation, begin and duration in ms."""
    made = (field(1, key) + field(2, begin * MS) + field(3, lasts * MS) for key, begin, lasts in events)
    return field(3, field(2, name) + b"".join(field(4, one) for one in made))


def found_in(folder: Path, *lines: bytes) -> Collector:
    """A TPU's plane with these lines."""
    plane = field(2, "/device:TPU:0") + b"".join(lines)
    for key, name in NAMES.items():
        stats = (field(5, field(1, stat) + field(3, value)) for stat, value in COUNTS[key].items())
        plane += field(4, field(1, key) + field(2, field(1, key) + field(2, name) + b"".join(stats)))
    for key, name in {FLOPS: "flops", BYTES: "bytes_accessed"}.items():
        plane += field(5, field(1, key) + field(2, field(1, key) + field(2, name)))
    path = folder / "made.xplane.pb"
    path.write_bytes(field(1, plane))
    return read(str(path))


@pytest.mark.parametrize("loop", [(1, 0, 10), (1, 0, 12)])
def test_loop_has_the_time_outside_its_body_and_none_of_its_flops(
    loop: tuple[int, int, int], tmp_path: Path
) -> None:
    found = found_in(tmp_path, line("XLA Ops", (2, 0, 5), loop, (3, 5, 5), (2, 20, 1)))
    kernels = {one.name: one for one in found.kernels}
    assert kernels["%while.5"].time_s == pytest.approx((loop[2] - 10) * 1e-3)
    assert (kernels["%while.5"].flops, kernels["%while.5"].bytes) == (None, {})
    assert kernels["%fusion.1"].time_s == pytest.approx(6e-3) and kernels["%fusion.1"].flops == 600
    assert kernels["%dot.2"].flops == 400 and kernels["%dot.2"].bytes == {"minimum": 40}


def test_loops_nest_and_lines_do_not(tmp_path: Path) -> None:
    nested = line("XLA Ops", (1, 0, 10), (1, 1, 8), (2, 2, 3), (3, 5, 3))
    found = found_in(tmp_path, nested, line("Sparse Core Ops", (3, 0, 9)))
    times = {one.name: one.time_s for one in found.kernels}
    assert times == pytest.approx({"%while.5": 4e-3, "%fusion.1": 3e-3, "%dot.2": 12e-3})


def test_operations_of_a_device_are_not_the_cpus(tmp_path: Path) -> None:
    found_in(tmp_path, line("XLA Ops", (2, 0, 5)))
    with contextlib.closing(reader.read(str(tmp_path / "made.xplane.pb"), keep_launches=True)) as found:
        assert [(one.on_gpu, one.counted) for one in found.launches or []] == [(True, False)]


def test_transfers_beside_the_operations_are_phases_and_no_kernels(tmp_path: Path) -> None:
    found = found_in(tmp_path, line("XLA Ops", (2, 0, 5)), line("Async XLA Ops", (4, 0, 9), (4, 4, 9)))
    assert [one.name for one in found.kernels] == ["%fusion.1"]
    (phase,) = found.phases
    assert (phase.name, phase.count, phase.bytes) == ("async copy-start", 2, 64)
    assert phase.time_s == pytest.approx(18e-3), "they overlap, and each counts"
