from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from unittest.mock import Mock

import numpy as np
import pytest
import sqlalchemy.event
import sqlalchemy.exc
from roofline_server.errors import BadBatch
from roofline_server.records import (
    ABSENT,
    ClockSample,
    Frame,
    Incarnation,
    KernelKind,
    Lifetime,
    Metric,
    NodeKey,
    RankKey,
)
from roofline_server.store.catalog import name_ids
from roofline_server.store.catalog.allowances import DAY_S
from roofline_server.store.catalog.catalog import Catalog, Progress, Sealing, sqlite_url
from roofline_server.store.catalog.name_ids import NameIds
from roofline_server.store.segments.files import Segment

from ...builders import catalog_of, connections, machine, metric

WHO = Incarnation(1, 1, 100, 5, "", 2, "tf_config")
FIRST = Segment("job", "marks", "segments/1", 3, 100, 10, 20)
SECOND = Segment("job", "steps", "segments/2", 3, 100, 5, 20)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog(sqlite_url(tmp_path / "catalog.db"))
    yield opened
    opened.close()


def sampled(job: str, *metrics: Metric) -> Frame:
    """A row of samples; each value is the position of its metric."""
    values = np.arange(len(metrics), dtype=np.int64).reshape(-1, 1)
    return Frame(job, f"samples_{metrics[0].counter_set}", {"time_ns": np.array([1])}, metrics, values)


def sealing(*segments: Segment, through: int = 7, replaced: tuple[str, ...] = ()) -> Sealing:
    return Sealing(
        list(segments), list(replaced), {"job": Progress(20, 15)}, {WHO: Lifetime(1, 2, False)}, through
    )


def test_new_catalog_is_empty(catalog: Catalog) -> None:
    assert catalog.segments("job") == []
    assert catalog.progress("job") == Progress()
    assert catalog.sealed_through() == 0
    assert catalog.process_lifetimes() == {}


def test_sealing_is_seen_whole_also_after_reopening(tmp_path: Path, catalog: Catalog) -> None:
    catalog.seal(sealing(FIRST, SECOND))
    other = Catalog(sqlite_url(tmp_path / "catalog.db"))
    assert other.segments("job") == [FIRST, SECOND]  # as they were sealed, whatever their times
    assert other.paths() == {"segments/1", "segments/2"}
    assert other.progress("job") == Progress(20, 15)
    assert other.process_lifetimes() == {WHO: Lifetime(1, 2, False)}
    assert other.sealed_through() == 7
    other.close()


def test_sealing_that_fails_changes_nothing(catalog: Catalog) -> None:
    catalog.seal(sealing(FIRST))
    with pytest.raises(sqlalchemy.exc.IntegrityError):
        catalog.seal(sealing(SECOND, FIRST, through=9, replaced=("segments/0",)))
    assert catalog.segments("job") == [FIRST]
    assert catalog.sealed_through() == 7


def test_replaced_segments_go_with_the_sealing(catalog: Catalog) -> None:
    catalog.seal(sealing(FIRST))
    catalog.seal(sealing(SECOND, replaced=(FIRST.path,)))
    assert catalog.segments("job") == [SECOND]


def test_life_is_brought_up_to_date(catalog: Catalog) -> None:
    catalog.seal(sealing(FIRST))
    catalog.seal(sealing(SECOND)._replace(process_lifetimes={WHO: Lifetime(1, 9, True)}))
    assert catalog.process_lifetimes() == {WHO: Lifetime(1, 9, True)}


def test_process_told_of_in_two_ways_is_kept_as_it_was_last(catalog: Catalog) -> None:
    known = WHO._replace(framework="known since")
    catalog.seal(
        sealing(FIRST)._replace(process_lifetimes={known: Lifetime(1, 9, False), WHO: Lifetime(1, 2, False)})
    )
    assert catalog.process_lifetimes() == {known: Lifetime(1, 9, False)}


def test_machine_comes_back_with_ceilings_and_sources(catalog: Catalog) -> None:
    key = NodeKey("a", "b")
    number = catalog.add_nodes({key: machine()})[key]
    assert catalog.machines() == {number: machine()}
    assert catalog.add_nodes({key: machine("renamed")}) == {key: number}
    assert catalog.machines() == {number: machine("renamed")}


def test_other_boot_of_an_agent_is_another_node(catalog: Catalog) -> None:
    found = catalog.add_nodes({NodeKey("a", "1"): machine(), NodeKey("a", "2"): machine()})
    assert len(set(found.values())) == 2


def test_clock_samples_come_back_in_order_of_time(catalog: Catalog) -> None:
    for sample in (ClockSample(20, 5, 10), ClockSample(10, 6, 11), ClockSample(20, 7, 9)):
        catalog.put_clocks([(1, sample)])
    assert catalog.clock_samples() == {1: [ClockSample(10, 6, 11), ClockSample(20, 7, 9)]}


def test_names_keep_their_numbers_after_reopening(tmp_path: Path, catalog: Catalog) -> None:
    numbers = NameIds(catalog)
    rank, kind = RankKey("job", "worker", 3), KernelKind("onednn", "conv", "", "f32", "jit", "1x1", "")
    given = (
        *numbers.rank_ids([rank]),
        *numbers.kernel_ids([kind]),
        *numbers.node_ids({NodeKey("a", "b"): machine()}).values(),
    )
    numbers.fit(sampled("job", metric("cpu_ns")), 1)
    numbers.save()
    other = Catalog(sqlite_url(tmp_path / "catalog.db"))
    again = NameIds(other)
    assert (
        *again.rank_ids([rank]),
        *again.kernel_ids([kind]),
        *again.node_ids({NodeKey("a", "b"): machine()}).values(),
    ) == given
    assert again.metrics_by_set() == {"process": [metric("cpu_ns")]}
    assert again.ranks_of("job") == {given[0]: rank}
    assert again.jobs() == {"job"}
    other.close()


def test_threads_get_one_number_per_key(catalog: Catalog) -> None:
    numbers = NameIds(catalog)
    keys = [RankKey("job", "worker", i) for i in range(20)]
    together = Barrier(8)

    def ask(_: int) -> list[int]:
        together.wait(10)
        return [rank for key in keys for rank in numbers.rank_ids([key])]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert all(answer == answers[0] for answer in answers)
    assert len(set(answers[0])) == 20
    numbers.save()
    assert catalog.name_ids()[1] == dict(zip(keys, answers[0], strict=True))


def test_thousands_of_new_names_are_one_commit(catalog: Catalog) -> None:
    """Each would wait for the disk, and all agents with it."""
    numbers, commits = NameIds(catalog), []
    sqlalchemy.event.listen(catalog._engine, "commit", lambda _: commits.append(1))
    kinds = [KernelKind("onednn", f"conv{number % 2000}", "", "f32", "jit", "", "") for number in range(4000)]
    keys = [RankKey("job", "worker", number) for number in range(500)]
    ids, ranks = numbers.kernel_ids(kinds), numbers.rank_ids(keys)
    assert ids[:2000] == ids[2000:] and len(set(ids)) == 2000
    assert commits == [], "they have numbers before they are written"
    numbers.save()
    assert len(commits) == 1
    assert catalog.name_ids()[1:3] == (
        dict(zip(keys, ranks, strict=True)),
        dict(zip(kinds[:2000], ids[:2000], strict=True)),
    )
    assert numbers.kernel_ids(kinds) == ids
    numbers.save()
    assert len(commits) == 1, "known names cost nothing"
    assert NameIds(catalog).rank_ids([RankKey("job", "ps", 0)]) == [max(ranks) + 1]


def test_names_that_could_not_be_written_are_written_later(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = NameIds(catalog)
    first = numbers.rank_ids([RankKey("job", "worker", 0)])
    with monkeypatch.context() as patch:
        patch.setattr(catalog, "add_names", Mock(side_effect=OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            numbers.save()
    second = numbers.rank_ids([RankKey("job", "worker", 1)])
    numbers.save()
    assert sorted(catalog.name_ids()[1].values()) == first + second


def test_nodes_are_known_again_and_new_ones_come_together(catalog: Catalog) -> None:
    keys = [NodeKey(f"agent-{number}", "boot") for number in range(1200)]
    first = catalog.add_nodes({key: machine() for key in keys[:700]})
    again = catalog.add_nodes({key: machine(memory_bytes=7) for key in keys})
    assert {key: again[key] for key in first} == first
    assert len(set(again.values())) == 1200
    assert catalog.add_nodes({NodeKey("agent-0", "later"): machine()})[NodeKey("agent-0", "later")] == 1201
    assert {one.memory_bytes for one in catalog.machines().values()} == {7, machine().memory_bytes}


def test_first_description_of_a_metric_stays_in_its_job_alone(tmp_path: Path, catalog: Catalog) -> None:
    numbers, right, wrong = NameIds(catalog), metric("a"), metric("a")._replace(unit="other")
    assert numbers.fit(sampled("spoiled", wrong), 1).metrics == (wrong,)
    assert numbers.fit(sampled("42", right), 1).metrics == (right,)
    found = numbers.fit(sampled("42", wrong, metric("b")), 2)
    assert found.metrics == (right, metric("b"))
    assert found.values is not None and found.values[:, 0].tolist() == [ABSENT, 1], "it cannot be compared"
    assert numbers.fit(sampled("42", right), 1).values is not None
    numbers.save()
    again = NameIds(catalog)
    for one in (numbers, again):
        assert one.metrics_by_set("42")["process"] == [right, metric("b")]
        assert one.metrics_by_set("spoiled")["process"] == [wrong, metric("b")]


def test_description_of_a_job_that_is_stored_holds_after_a_restart(catalog: Catalog) -> None:
    right, wrong = metric("a"), metric("a")._replace(kind=9)
    numbers = NameIds(catalog)
    assert numbers.rank_ids([RankKey("42", "worker", 0)]) == [WHO.rank]
    numbers.fit(sampled("42", right), 1)
    numbers.save()
    catalog.seal(sealing(Segment("42", "samples_process", "segments/9", 3, 100, 10, 20)))
    again = NameIds(catalog)
    assert again.fit(sampled("42", wrong), 1).metrics == (right,)
    assert again.fit(sampled("new", wrong), 1).metrics == (wrong,)


def test_scope_and_provenance_may_differ_between_nodes(catalog: Catalog) -> None:
    numbers, one = NameIds(catalog), metric("a")
    numbers.fit(sampled("42", one), 1)
    other = numbers.fit(sampled("42", one._replace(coverage_of="b")), 2)
    assert other.metrics == (one,) and other.values is not None and other.values.tolist() == [[0]]


def test_node_names_so_many_things_and_no_more(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_ids, "MAX_BROUGHT", {"ranks": 3, "kernels": 3, "metrics": 3})
    now = [0.0]
    numbers = NameIds(catalog, clock=lambda: now[0])
    keys = [RankKey("job", "worker", number) for number in range(5)]
    numbers.rank_ids(keys[:3], 1)
    with pytest.raises(BadBatch, match="too many ranks: at most 3 new ones a day, 1 more"):
        numbers.rank_ids(keys[:4], 1)
    assert len(numbers.rank_ids(keys[:3], 1)) == 3, "those that are known it may go on with"
    assert len(numbers.rank_ids(keys, 2)) == 5, "others it costs nothing"
    with pytest.raises(BadBatch, match="metrics"):
        numbers.fit(sampled("job", *map(metric, "abcd")), 1)
    assert numbers.fit(sampled("job", *map(metric, "abc")), 1)
    now[0] = DAY_S / 3
    assert len(numbers.rank_ids([RankKey("other", "worker", 0)], 1)) == 1, "a third of a day gives a third"
    with pytest.raises(BadBatch):
        numbers.rank_ids([RankKey("other", "worker", 1)], 1)


def test_node_that_boots_again_may_bring_no_more(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_ids, "MAX_BROUGHT", {"boots": 2, "ranks": 3})
    now = [0.0]
    numbers = NameIds(catalog, clock=lambda: now[0])
    boots = [NodeKey("a", f"boot {number}") for number in range(3)]
    first, second = (numbers.node_ids({boot: machine()})[boot] for boot in boots[:2])
    assert numbers.node_ids({boots[2]: machine()}) == {}
    keys = [RankKey("job", "worker", number) for number in range(4)]
    numbers.rank_ids(keys[:3], first)
    with pytest.raises(BadBatch, match="too many ranks"):
        numbers.rank_ids(keys, second)
    other = NodeKey("b", "boot")
    assert set(numbers.node_ids({boots[0]: machine(), boots[2]: machine(), other: machine()})) == {
        boots[0],
        other,
    }, "known boots and other nodes go on"
    assert set(catalog.name_ids()[0]) == {*boots[:2], other}
    now[0] = DAY_S / 2
    assert boots[2] in numbers.node_ids({boots[2]: machine()}), "half of a day gives a half"


def test_processes_of_a_node_are_bounded(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_ids, "MAX_BROUGHT", {"boots": 2, "processes": 3})
    now = [0.0]
    numbers = NameIds(catalog, clock=lambda: now[0])
    numbers.count_processes(1, ["a", "b", "c"])
    with pytest.raises(BadBatch, match="too many processes: at most 3 new ones a day, 1 more"):
        numbers.count_processes(1, ["c", "d"])
    numbers.count_processes(1, ["a", "c"])
    numbers.count_processes(2, ["a", "d"])
    now[0] = DAY_S / 3
    numbers.count_processes(1, ["d"])


def test_catalog_survives_a_power_cut(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = connections(monkeypatch)
    with catalog_of(tmp_path) as again:
        again.paths()
        assert opened["catalog.db"].execute("pragma synchronous").fetchone() == (2,)
    other = sqlite3.connect(tmp_path / "catalog.db")
    assert other.execute("pragma journal_mode").fetchone() == ("wal",)
    other.close()
