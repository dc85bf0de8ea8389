"""What holds for any recorded file, on ours of every tool: cut, damaged, packed, encoded otherwise."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.errors import RecordedError
from roofline_agent.recorded.formats import FORMATS as READERS
from roofline_agent.recorded.text import HEAD_BYTES

from tests.recordings import FORMATS, ours

from .golden import NOTHING
from .reading import numbers_in
from .traces import found_in, read

BINARY = (".sqlite", ".pb")
RECORDINGS = [path for path in ours() if path not in NOTHING and path.suffix not in BINARY]
READ = {one.name: one.read for one in READERS}
CUTS = 8  # places where each file is cut, in addition to those near its end
every_file = pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}/{path.name}")


@cache
def content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def as_its_format(path: Path, data: bytes) -> Collector:
    """What the reader of its own format finds, however little of it is left to tell that by."""
    return found_in(data, READ[FORMATS[path.parent.name]])


def values(found: Collector) -> list[Any]:
    """All that was found, in an order of its own."""
    return [
        sorted(map(repr, kept))
        for kept in (found.kernels, found.phases, found.ceilings, found.steps, found.counters)
    ] + [found.throughput, found.run]


def places(size: int) -> Iterator[int]:
    """From the first byte to the last but one, evenly, and each of the last: there a number is cut in two."""
    yield from range(1, size, max(1, size // CUTS))
    yield from range(max(1, size - 8), size)


@every_file
def test_cut_anywhere_it_holds_nothing_that_the_whole_does_not(path: Path) -> None:
    data = content(path)
    whole = as_its_format(path, data)
    launches = {one.name: one.launches for one in whole.kernels}
    counts = {one.name: one.count for one in whole.phases}
    large = len(data) > HEAD_BYTES
    for size in list(places(len(data)))[:: 8 if large else 1]:
        with contextlib.suppress(RecordedError):
            cut = as_its_format(path, data[:size])
            if FORMATS[path.parent.name] != "ncu":  # there what a time or FLOPs are made of is no counter
                assert len(cut.counters) <= len(whole.counters) + 1  # a row cut in two may read as another
            assert len(cut.steps) <= len(whole.steps)
            assert len(cut.ceilings) <= len(whole.ceilings)
            for kernel in cut.kernels:
                assert 0 < kernel.launches <= launches.get(kernel.name, kernel.launches)
                assert kernel.time_s is None or kernel.time_s >= 0
            assert all(one.count <= counts.get(one.name, one.count) for one in cut.phases)
            if not large:
                stands = numbers_in(data[:size].decode("utf-8", "replace"))
                assert {abs(one.printed) for one in cut.counters if one.printed is not None} <= stands


@pytest.mark.parametrize(
    "path", [one for one in RECORDINGS if one.parent.name != "ncu"], ids=lambda path: path.name
)
def test_cut_behind_a_line_its_counters_are_the_first_of_the_whole(path: Path) -> None:
    lines = content(path).splitlines(keepends=True)
    whole = [(one.event, one.printed) for one in as_its_format(path, content(path)).counters]
    for count in range(1, len(lines), max(1, len(lines) // CUTS)):
        with contextlib.suppress(RecordedError):
            cut = as_its_format(path, b"".join(lines[:count]))
            found = [(one.event, one.printed) for one in cut.counters]
            assert found == whole[: len(found)]


@every_file
def test_packed_it_is_the_same_recording(path: Path, tmp_path: Path) -> None:
    packed = tmp_path / path.name
    packed.write_bytes(gzip.compress(content(path), 1))
    one, other = read(str(path)), read(str(packed))
    assert values(one) == values(other)
    assert (one.digest, one.warnings) == (other.digest, other.warnings)


@every_file
def test_in_another_encoding_it_is_the_same_recording(path: Path, tmp_path: Path) -> None:
    text = content(path).decode("utf-8-sig")
    if len(text) > HEAD_BYTES:
        text = text[:HEAD_BYTES]
    found = []
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        encoded = tmp_path / encoding
        encoded.write_bytes(text.encode(encoding))
        found.append(values(read(str(encoded))))
    assert found == [found[0]] * 4


@every_file
def test_line_ends_do_not_matter(path: Path) -> None:
    data = content(path)
    if b"\r" in data and b"\r\n" not in data:
        return  # lines that are written over: there a carriage return is more than an end
    unix = data.replace(b"\r\n", b"\n")
    assert values(as_its_format(path, unix)) == values(as_its_format(path, unix.replace(b"\n", b"\r\n")))


@pytest.mark.parametrize(
    "path",
    [one for one in RECORDINGS if FORMATS[one.parent.name] != "ert"],  # a JSON text ends at its last brace
    ids=lambda path: path.name,
)
def test_zeros_that_a_crash_left_at_the_end_are_no_data(path: Path) -> None:
    data = content(path)
    assert values(as_its_format(path, data.rstrip(b"\n") + b"\n")) == values(
        as_its_format(path, data.rstrip(b"\n") + b"\n" + bytes(100))
    )


DAMAGE = st.tuples(
    st.floats(0, 1), st.integers(0, 60), st.binary(max_size=6) | st.text('"|,-+\n 0#nan{}[]:', max_size=6)
)


@every_file
@settings(max_examples=settings().max_examples // 8, suppress_health_check=[HealthCheck.too_slow])
@given(DAMAGE)
@example((0.5, 0, b"\xff\xfe\x80"))  # bytes that are no text
@example((0.5, 0, b"\x1b[31m"))
@example((0.689453125, 1, b""))  # a size of 0
def test_damage_costs_what_it_hits_and_makes_up_no_number(
    path: Path, damage: tuple[float, int, bytes | str]
) -> None:
    data = content(path)[:HEAD_BYTES]
    where, length, put = damage
    at = int(where * len(data))
    junk = put.encode() if isinstance(put, str) else put
    damaged = data[:at] + junk + data[at + length :]
    with contextlib.suppress(RecordedError):
        found = as_its_format(path, damaged)
        assert all(one.launches >= 0 and (one.time_s is None or one.time_s >= 0) for one in found.kernels)
        assert all(one.value > 0 for one in found.ceilings)
        assert all(one.count > 0 and one.time_s >= 0 for one in found.phases)
        text = damaged.decode("utf-8", "replace")
        stands = numbers_in(text) | numbers_in(text.replace("\ufffd", ""))  # Latin-1 blanks group digits
        assert {abs(one.printed) for one in found.counters if one.printed is not None} <= stands


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf", bytes(64)], ids=range(4))
def test_empty_file_is_no_recording(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_bytes(data)
    with pytest.raises(RecordedError):
        read(str(path))
