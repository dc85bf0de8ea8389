from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from roofline_server.clock_samples import FIRST_KNOTS, MOST_KNOTS
from roofline_server.ingest.columns import MAX_TIME_NS
from roofline_server.records import RECORDING, Knot, NodeKey, Table
from roofline_server.store.catalog.catalog import Catalog, sqlite_url
from roofline_server.store.catalog.clocks import ClockBook
from roofline_server.store.catalog.name_ids import Numbers

from ..builders import MS, UNIX, S, machine


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog(sqlite_url(tmp_path / "catalog.db"))
    yield opened
    opened.close()


def book_of(catalog: Catalog) -> ClockBook:
    return ClockBook(catalog, Numbers(catalog))


def offset_of(book: ClockBook, node: int = 1) -> int:
    return int(book.clocks()[node].to_server(np.zeros(1, np.int64))[0])


def burst(second: int) -> list[Knot]:
    return [Knot(second * S + i, UNIX, 100 + i) for i in range(4)]


def test_exchange_counts_at_once_and_outlives_the_server(catalog: Catalog) -> None:
    book = book_of(catalog)
    assert not book.clocks()[1].is_measured
    book.add_knot(1, Knot(0, 7, 100))
    assert offset_of(book) == 7
    assert catalog.knots() == {}
    book.save()
    assert offset_of(book_of(catalog)) == 7


def test_clocks_handed_out_do_not_change(catalog: Catalog) -> None:
    book = book_of(catalog)
    book.add_knot(1, Knot(0, 7, 100))
    clocks = book.clocks()
    before = clocks[1]
    book.add_knot(1, Knot(0, 8, 2))
    assert clocks[1] is before
    assert offset_of(book) == 8


def test_all_first_exchanges_are_kept_and_later_the_best_of_each_stretch(catalog: Catalog) -> None:
    book = book_of(catalog)
    for second in range(0, 200, 10):
        for knot in burst(second):
            book.add_knot(1, knot)
        book.save()
    kept = catalog.knots()[1]
    assert len(kept) == FIRST_KNOTS + (20 - FIRST_KNOTS // 4)
    assert all(knot.rtt_ns == 100 for knot in kept[FIRST_KNOTS:])


def test_what_is_thinned_out_leaves_the_catalog_too(catalog: Catalog) -> None:
    book = book_of(catalog)
    for i in range(MOST_KNOTS + 1):
        book.add_knot(1, Knot(i * 10 * S, UNIX, 100))
    book.save()
    kept = catalog.knots()[1]
    assert len(kept) == MOST_KNOTS + 1 - (MOST_KNOTS + 1) // 4
    assert np.array_equal(np.array(kept), book._kept[1])


def test_what_could_not_be_saved_is_saved_the_next_time(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = book_of(catalog)
    book.add_knot(1, Knot(0, 7, 100))
    with monkeypatch.context() as patched:
        patched.setattr(catalog, "put_clocks", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            book.save()
    book.save()
    assert offset_of(book_of(catalog)) == 7


def test_node_without_pongs_is_placed_by_its_quickest_batch(catalog: Catalog) -> None:
    book = book_of(catalog)
    for late in (50, 20, 90):
        book.arrived(1, 10 * S, UNIX + 10 * S + late)
        book.clocks()[1]
    assert offset_of(book) == UNIX + 20
    book.save()
    book.arrived(1, 20 * S, UNIX + 20 * S + 10)
    book.save()
    assert offset_of(book_of(catalog)) == UNIX + 10


@pytest.mark.parametrize(
    "knot", [Knot(0, MAX_TIME_NS, 1), Knot(0, -MAX_TIME_NS, 1), Knot(MAX_TIME_NS, 0, 1), Knot(0, 0, -1)]
)
def test_exchange_whose_times_cannot_be_is_ignored(catalog: Catalog, knot: Knot) -> None:
    book = book_of(catalog)
    book.add_knot(1, knot)
    assert not book.clocks()[1].is_measured


def test_times_of_a_recording_stand_as_they_are(catalog: Catalog) -> None:
    numbers = Numbers(catalog)
    node = numbers.node(NodeKey("file", RECORDING), machine())
    book = ClockBook(catalog, numbers)
    book.arrived(node, 5, UNIX)
    assert book.clocks()[node].to_server(np.array([UNIX])).tolist() == [UNIX]


def windows(*found: tuple[int, int, int]) -> Table:
    """found: (rank, begin_ns, end_ns)."""
    return dict(zip(("rank", "begin_ns", "end_ns"), np.array(found, np.int64).T, strict=True))


def test_what_was_stored_on_a_badly_known_clock_stays_so(catalog: Catalog) -> None:
    book = book_of(catalog)
    for at in range(0, 60, 10):
        book.add_knot(1, Knot(at * S, UNIX, 10 * MS))
    book.settle("job", windows((7, UNIX + 10 * S, UNIX + 20 * S), (8, UNIX, UNIX + S)), {7: 1}, anew=False)
    assert 5 * MS < book.settled("job")[1] < 7 * MS
    for at in range(0, 60, 10):
        book.add_knot(1, Knot(at * S, UNIX, 100))
    assert book.clocks()[1].worst_error(10 * S, 20 * S) < 0.1 * MS
    book.settle("job", windows((7, UNIX + 20 * S, UNIX + 30 * S)), {7: 1}, anew=False)
    assert 5 * MS < book.settled("job")[1] < 7 * MS
    assert book_of(catalog).settled("job") == book.settled("job")
    book.settle("job", windows((7, UNIX + 10 * S, UNIX + 30 * S)), {7: 1}, anew=True)
    assert book.settled("job")[1] < 0.1 * MS
    assert book.settled("other") == {}


def test_what_was_stored_before_any_ping_is_known_to_nobody(catalog: Catalog) -> None:
    book = book_of(catalog)
    book.arrived(1, 0, UNIX)
    book.settle("job", windows((7, UNIX, UNIX + S)), {7: 1}, anew=False)
    assert book_of(catalog).settled("job") == {1: np.inf}
