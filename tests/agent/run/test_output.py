"""What becomes of a rank's output where ours cannot be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from roofline_agent.run.output import OutputStream

Opened = Callable[[int], OutputStream]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def opened(said: list[str]) -> Iterator[Opened]:
    """Makes a stream that goes to this descriptor."""
    made: list[int] = []

    def stream(descriptor: int) -> OutputStream:
        output = OutputStream(descriptor, None, None, said.append)
        made.extend((descriptor, output.source, output.child_end))
        return output

    yield stream
    for descriptor in made:
        try:
            os.close(descriptor)
        except OSError as error:
            assert error.errno == errno.EBADF


def printed(output: OutputStream, text: bytes) -> None:
    os.write(output.child_end, text)
    output.take()


def test_what_a_full_disk_cannot_take_is_lost_and_what_comes_later_is_not(
    opened: Opened, said: list[str], tmp_path: Path
) -> None:
    output = opened(os.open("/dev/full", os.O_WRONLY))
    printed(output, b"one\n")
    printed(output, b"two\n")
    with (tmp_path / "out").open("wb") as file:  # there is room again
        os.dup2(file.fileno(), output._to)
    printed(output, b"three\n")
    assert (tmp_path / "out").read_bytes() == b"three\n"
    assert output.lost_bytes == 8 and not output.ended
    assert len(said) == 1 and said[0].endswith("No space left on device")


def test_reader_that_has_gone_ends_it(opened: Opened, said: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    output = opened(writer)
    printed(output, b"one\n")
    assert output.ended and not said
    with pytest.raises(BrokenPipeError):  # what the rank gets when it writes the next time
        os.write(output.child_end, b"two\n")


@pytest.mark.parametrize("number", [errno.EIO, errno.EDQUOT, errno.EFBIG])
def test_error_that_says_nothing_of_a_reader_ends_nothing(
    opened: Opened, said: list[str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    output, write = opened(os.open(os.devnull, os.O_WRONLY)), os.write

    def failing(descriptor: int, data: bytes) -> int:
        if descriptor == output._to:
            raise OSError(number, os.strerror(number))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", failing)
    printed(output, b"one\n")
    assert not output.ended and output.lost_bytes == 4
    assert os.strerror(number) in said[0]
