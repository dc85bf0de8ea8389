from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from roofline.limits import MAX_TIME_NS
from roofline_server.clock_samples import FIRST_SAMPLES, MOST_SAMPLES
from roofline_server.records import RECORDING, ClockSample, Incarnation, Lifetime, NodeKey, Table
from roofline_server.store.catalog import clocks
from roofline_server.store.catalog.catalog import Catalog, sqlite_url
from roofline_server.store.catalog.clocks import ClockRegistry, settled_after
from roofline_server.store.catalog.name_ids import NameIds

from ...builders import MS, UNIX, S, machine


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog(sqlite_url(tmp_path / "catalog.db"))
    yield opened
    opened.close()


def registry_of(catalog: Catalog) -> ClockRegistry:
    return ClockRegistry(catalog, NameIds(catalog))


def offset_of(registry: ClockRegistry, node: int = 1) -> int:
    return int(registry.clocks()[node].to_server(np.zeros(1, np.int64))[0])


def burst(second: int) -> list[ClockSample]:
    return [ClockSample(second * S + i, UNIX, 100 + i) for i in range(4)]


def test_exchange_counts_at_once_and_outlives_the_server(catalog: Catalog) -> None:
    registry = registry_of(catalog)
    assert not registry.clocks()[1].is_measured
    registry.add_sample(1, ClockSample(0, 7, 100))
    assert offset_of(registry) == 7
    assert catalog.clock_samples() == {}
    registry.save()
    assert offset_of(registry_of(catalog)) == 7


def test_clocks_handed_out_do_not_change(catalog: Catalog) -> None:
    registry = registry_of(catalog)
    registry.add_sample(1, ClockSample(0, 7, 100))
    clocks = registry.clocks()
    before = clocks[1]
    registry.add_sample(1, ClockSample(0, 8, 2))
    assert clocks[1] is before
    assert offset_of(registry) == 8


def test_all_first_exchanges_are_kept_and_later_the_best_of_each_stretch(catalog: Catalog) -> None:
    registry = registry_of(catalog)
    for second in range(0, 200, 10):
        for sample in burst(second):
            registry.add_sample(1, sample)
        registry.save()
    kept = catalog.clock_samples()[1]
    assert len(kept) == FIRST_SAMPLES + (20 - FIRST_SAMPLES // 4)
    assert all(sample.rtt_ns == 100 for sample in kept[FIRST_SAMPLES:])


def test_what_is_thinned_out_leaves_the_catalog_too(catalog: Catalog) -> None:
    registry = registry_of(catalog)
    for i in range(MOST_SAMPLES + 1):
        registry.add_sample(1, ClockSample(i * 10 * S, UNIX, 100))
    registry.save()
    kept = catalog.clock_samples()[1]
    assert len(kept) == MOST_SAMPLES + 1 - (MOST_SAMPLES + 1) // 4
    moments = np.array([sample.node_ns for sample in kept], np.int64)
    of_catalog, of_memory = registry_of(catalog).clocks()[1], registry.clocks()[1]
    assert np.array_equal(of_memory.error_at(moments), of_catalog.error_at(moments))


def test_what_could_not_be_saved_is_saved_the_next_time(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = registry_of(catalog)
    registry.add_sample(1, ClockSample(0, 7, 100))
    with monkeypatch.context() as patched:
        patched.setattr(catalog, "put_clocks", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            registry.save()
    registry.save()
    assert offset_of(registry_of(catalog)) == 7


def test_node_without_pongs_is_placed_by_its_quickest_batch(catalog: Catalog) -> None:
    registry = registry_of(catalog)
    for late in (50, 20, 90):
        registry.add_arrival(1, 10 * S, UNIX + 10 * S + late)
        registry.clocks()[1]
    assert offset_of(registry) == UNIX + 20
    registry.save()
    registry.add_arrival(1, 20 * S, UNIX + 20 * S + 10)
    registry.save()
    assert offset_of(registry_of(catalog)) == UNIX + 10


@pytest.mark.parametrize(
    "sample",
    [
        ClockSample(0, MAX_TIME_NS, 1),
        ClockSample(0, -MAX_TIME_NS, 1),
        ClockSample(MAX_TIME_NS, 0, 1),
        ClockSample(0, 0, -1),
    ],
)
def test_exchange_whose_times_cannot_be_is_ignored(catalog: Catalog, sample: ClockSample) -> None:
    registry = registry_of(catalog)
    registry.add_sample(1, sample)
    assert not registry.clocks()[1].is_measured


def test_times_of_a_recording_stand_as_they_are(catalog: Catalog) -> None:
    numbers = NameIds(catalog)
    (node,) = numbers.node_ids({NodeKey("file", RECORDING): machine()}).values()
    registry = ClockRegistry(catalog, numbers)
    registry.add_arrival(node, 5, UNIX)
    assert registry.clocks()[node].to_server(np.array([UNIX])).tolist() == [UNIX]


def windows(*found: tuple[int, int, int]) -> Table:
    """found: (rank, begin_ns, end_ns)."""
    return dict(zip(("rank", "begin_ns", "end_ns"), np.array(found, np.int64).T, strict=True))


def settle(registry: ClockRegistry, steps: Table, anew: bool = False) -> None:
    """Rank 7 is on node 1."""
    before = None if anew else registry.settled("job")
    nodes = np.where(steps["rank"] == 7, 1, -1)
    registry.settle("job", settled_after(before, steps, nodes, registry.clocks()))


def test_what_was_stored_on_a_badly_known_clock_stays_so(catalog: Catalog) -> None:
    registry = registry_of(catalog)
    for at in range(0, 60, 10):
        registry.add_sample(1, ClockSample(at * S, UNIX, 10 * MS))
    settle(registry, windows((7, UNIX + 10 * S, UNIX + 20 * S), (8, UNIX, UNIX + S)))
    assert 5 * MS < registry.settled("job")[1] < 7 * MS
    for at in range(0, 60, 10):
        registry.add_sample(1, ClockSample(at * S, UNIX, 100))
    assert registry.clocks()[1].worst_error(10 * S, 20 * S) < 0.1 * MS
    settle(registry, windows((7, UNIX + 20 * S, UNIX + 30 * S)))
    assert 5 * MS < registry.settled("job")[1] < 7 * MS
    assert registry_of(catalog).settled("job") == registry.settled("job")
    settle(registry, windows((7, UNIX + 10 * S, UNIX + 30 * S)), anew=True)
    assert registry.settled("job")[1] < 0.1 * MS
    assert registry.settled("other") == {}


def test_what_was_stored_before_any_ping_is_known_to_nobody(catalog: Catalog) -> None:
    registry = registry_of(catalog)
    registry.add_arrival(1, 0, UNIX)
    settle(registry, windows((7, UNIX, UNIX + S)))
    assert registry_of(catalog).settled("job") == {1: np.inf}


def test_offset_about_now_is_that_of_the_best_of_the_newest_exchanges(catalog: Catalog) -> None:
    registry = registry_of(catalog)
    assert registry.offset_about(1) is None
    registry.add_arrival(1, 10, 25)
    assert registry.offset_about(1) == 15
    registry.add_sample(1, ClockSample(0, 7, 1))  # too long ago when others have come
    for number in range(8):
        registry.add_sample(1, ClockSample(S + number, 100 + number, 50 if number == 3 else 90))
    assert registry.offset_about(1) == 103
    registry.save()
    assert registry.offset_about(1) == 103
    assert registry_of(catalog).offset_about(1) == 103


def test_batches_do_not_wait_for_the_clock_of_a_job_that_is_over(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, real = registry_of(catalog), catalog.put_job_clock
    registry.add_sample(1, ClockSample(0, 7, 100))

    def put(job: str, node: int, samples: list[list[int]]) -> None:
        other = threading.Thread(target=registry.add_sample, args=(1, ClockSample(S, 8, 100)))
        other.start()
        other.join(20)
        assert not other.is_alive()
        real(job, node, samples)

    monkeypatch.setattr(catalog, "put_job_clock", put)
    who = Incarnation(1, 1, 5, 1, "", 1, "")
    assert registry.of_job("job", {who: Lifetime(1, 2, True)})[1].is_measured
    assert registry.offset_about(1) in (7, 8)


def over(*ends_s: int) -> dict[Incarnation, Lifetime]:
    """A job of processes on node 1 that ended then."""
    return {
        Incarnation(1, 1, pid, pid, "", 1, ""): Lifetime(0, end * S, True)
        for pid, end in enumerate(ends_s, start=5)
    }


def drifted(registry: ClockRegistry, job: dict[Incarnation, Lifetime], at_s: int) -> int:
    """By how much the clock of a job puts a moment of node 1 off UNIX, ns."""
    return int(registry.of_job("job", job)[1].to_server(np.array([at_s * S]))[0]) - UNIX - at_s * S


def test_job_that_goes_on_after_all_its_processes_ended_keeps_the_clock_of_its_end(catalog: Catalog) -> None:
    registry = registry_of(catalog)
    for second in range(0, 110, 10):
        registry.add_sample(1, ClockSample(second * S, UNIX, 100))
    assert drifted(registry, over(100), 100) == 0
    for second in range(110, 1010, 10):  # the clock turns out to be slower
        registry.add_sample(1, ClockSample(second * S, UNIX + (second - 100) * 10_000, 100))
    assert drifted(registry, over(100), 900) < 100_000, "it is over, and nothing of it came since"
    assert drifted(registry, over(100, 1000), 900) == pytest.approx(8 * MS, abs=10_000)
    for second in range(1010, 2010, 10):
        registry.add_sample(1, ClockSample(second * S, UNIX + 9 * MS, 100))
    assert drifted(registry, over(100, 1000), 2000) > 10 * MS
    assert drifted(registry_of(catalog), over(100, 1000), 2000) > 10 * MS


def test_job_that_is_over_keeps_the_exchanges_around_it(catalog: Catalog) -> None:
    registry = registry_of(catalog)
    for second in range(0, 20_000, 10):
        registry.add_sample(1, ClockSample(second * S, UNIX, 100_000))
    who = Incarnation(1, 1, 5, 5, "", 1, "")
    life = {who: Lifetime(8_000 * S, 9_000 * S, True)}
    kept = registry.kept_of_job("job", life)[1]
    assert len(kept) < 150
    assert catalog.job_clocks("job")["job", 1].tolist() == kept.tolist()
    clock, job = registry.clock(1), registry.of_job("job", life)[1]
    assert job.worst_error(8_000 * S, 9_000 * S) == pytest.approx(clock.worst_error(8_000 * S, 9_000 * S))


def test_clocks_of_few_jobs_stay_in_memory(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "MOST_KEPT", 25)
    registry = registry_of(catalog)
    for second in range(0, 100, 10):
        registry.add_sample(1, ClockSample(second * S, UNIX, 100))
    found = {job: registry.kept_of_job(job, over(100))[1].tolist() for job in ("a", "b", "c")}
    assert list(registry._of_job) == ["b", "c"]
    registry.add_sample(1, ClockSample(200 * S, UNIX, 100))
    assert {job: registry.kept_of_job(job, over(100))[1].tolist() for job in found} == found
