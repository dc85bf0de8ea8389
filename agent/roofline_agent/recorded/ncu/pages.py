"""Nsight Compute's CSV pages as launches of printed metrics: wide, long and summary pages alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..collector import Collector
from ..columns import Columns, columns
from ..text import LineBlock, Text
from .csv_rows import CsvRows
from .header import header_of
from .launches import LaunchBlock, PrintedLaunch
from .long_page import LongPage
from .other_lines import OtherLines
from .wide_page import WidePage


def launches(
    text: Text, found: Collector, wanted: Callable[[str], bool], others: OtherLines
) -> Iterator[PrintedLaunch | LaunchBlock]:
    """All launches in the order of the file, many at a time where they are in columns.

    wanted: whether to hand out a metric of a wide page, by its name; asked again every now and then, as it
    may have had enough. others: gets the lines that belong to no table of kernels.
    """
    page: LongPage | WidePage | None = None
    rows = CsvRows(found, others)
    for block in text.blocks():
        if page is not None and isinstance(block, LineBlock) and not rows.is_within_row:
            some = _columns(block, rows.header, page)
            if some is not None:
                yield from page.add_block(some, block.line)
                continue
        for line in text.each(block):
            for row, number in rows.add(line, text.line):
                header = header_of(row)
                if header is not None:
                    if page is not None:
                        yield from page.end()
                    page = LongPage(header, found) if header.is_long else WidePage(header, found, wanted)
                elif page is None or (len(row) == 2 and not row[0].isdigit()):
                    others.row(row)
                else:
                    yield from page.add(row, number)
    for row, number in rows.end():
        if page is not None:
            yield from page.add(row, number)
    if page is not None:
        yield from page.end(at_end=True)


def _columns(block: LineBlock, header: list[str], page: LongPage | WidePage) -> Columns | None:
    """None where a line may be no row of the page: all cells that the profiler prints are quoted, and the
    first is a number, in a header a name."""
    wanted = page.wanted()
    if wanted is None:
        return None
    found = columns(block, len(header), ",", wanted, b'"')
    return found if found is not None and found.begin_with(0, b'0123456789"') else None
