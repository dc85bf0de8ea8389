"""Our recorded files of every tool: each is told by its content and gives the numbers of its README."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from roofline_agent.recorded import reader
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.errors import NotRecognised
from roofline_agent.recorded.formats import FORMATS as READERS

from tests.recordings import DATA, FORMATS, OURS, ours

from .golden import ANSWERS, NOTHING, Answer, quantity
from .traces import claimed, read


@cache
def found_in(path: Path) -> Collector:
    """Read once for all of its answers."""
    return read(str(path))


@pytest.mark.parametrize("answer", [one for one in ANSWERS if one.path not in NOTHING], ids=str)
def test_file_gives_its_number(answer: Answer) -> None:
    assert answer.is_given_by(quantity(found_in(answer.path), answer.quantity))


@pytest.mark.parametrize("path", sorted(NOTHING), ids=lambda path: path.name)
def test_output_of_a_program_is_no_recording(path: Path) -> None:
    with pytest.raises(NotRecognised):
        read(str(path))


@pytest.mark.parametrize(
    "path", [*ours(), *(DATA / "onednn").glob("*.log")], ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_file_is_claimed_by_its_own_format_alone(path: Path) -> None:
    own = set() if path in NOTHING else {FORMATS[path.parent.name]}
    assert claimed(path) == own


def test_every_file_has_an_answer_and_every_reader_a_file() -> None:
    assert {one.path for one in ANSWERS} == set(ours())
    assert {path.parent for path in ours()} == {OURS / folder for folder in FORMATS}
    assert set(FORMATS.values()) == {one.name for one in READERS}


def test_rows_of_a_time_line_have_the_names_of_the_header_beside_them() -> None:
    """LIKWID writes the header to standard output and the rows to standard error."""
    folder = OURS / "likwid"
    header = (folder / "timeline_5.0_split.out").read_text()
    found = reader.read(str(folder / "timeline_5.0_split.err"), (header,))
    try:
        assert found.run is not None
        assert (found.run.bytes, found.run.time_s) == ({"dram": 2.25e9}, 1.5)
        assert found.warnings == []
    finally:
        found.close()
