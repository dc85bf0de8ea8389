"""Lines with a label, in any width."""

from __future__ import annotations

import pytest
from roofline_client.tables.labelled import Labelled

TEXT = "404 examples/s of two workers"


@pytest.mark.parametrize("width", range(1, 30))
def test_text_fits_into_terminals_of_a_few_columns(width: int) -> None:
    found = Labelled()
    found.add("Throughput", TEXT, aside="steady")
    lines = [line.plain for line in found.lines(width)]
    assert "".join("".join(lines).split()) == "Throughput" + "".join(f"{TEXT} (steady)".split())
    assert max(map(len, lines)) <= max(2, width)


def test_text_goes_on_below_where_it_began() -> None:
    found = Labelled()
    found.add("Throughput", TEXT)
    assert [line.plain for line in found.lines(16)] == [
        "Throughput",
        "    404",
        "    examples/s",
        "    of two",
        "    workers",
    ]
