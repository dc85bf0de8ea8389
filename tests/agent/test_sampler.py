"""A source that fails costs its own samples, never the others' and never the agent."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from roofline_agent.records import (
    CounterSet,
    EventKind,
    Metric,
    MetricKind,
    Provenance,
    Rank,
    Sample,
    Samples,
    SourceSettings,
)
from roofline_agent.records import SourceStatus as Status
from roofline_agent.sampler import FAILURES, Sampler
from roofline_agent.sources.example import ExampleSource

from tests.fakes import wait_for

RANK = Rank("j", "worker", 0, 11, 1)


class Made:
    """A source that does what its test says."""

    def __init__(self, name: str, works: bool = True, fails: int = 0, probe_fails: bool = False) -> None:
        self.name, self._works, self._probe_fails = name, works, probe_fails
        self.fills, self.measures = "everything", False
        self.fails = fails
        self.closed = False
        self.counter_set = CounterSet(name, (Metric("m", MetricKind.GAUGE, "1"),))

    def probe(self) -> Status:
        if self._probe_fails:
            raise RuntimeError("broken")
        return Status(self.name, self._works, "" if self._works else "no reason")

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        if self.fails:
            self.fails -= 1
            raise OSError("no such thing")
        return [Sample(rank, 5, (1,)) for rank in ranks]

    def close(self) -> None:
        self.closed = True


def names(samples: Samples) -> list[str]:
    return [counter_set.name for counter_set in samples]


def test_failing_source_is_reported_once_and_comes_back() -> None:
    sampler = Sampler({"bad": Made("bad", fails=2), "good": Made("good")})
    samples, events = sampler.sample([RANK])
    assert names(samples) == ["good"]
    assert [(e.kind, e.text) for e in events] == [(EventKind.SOURCE_FAILED, "bad: no such thing")]
    assert sampler.sample([RANK])[1] == []
    assert names(sampler.sample([RANK])[0]) == ["bad", "good"]


def test_rows_that_do_not_fit_their_metrics_cost_their_own_source_only() -> None:
    class Wide(Made):
        def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
            return [Sample(rank, 5, (1, 2)) for rank in ranks]

    samples, events = Sampler({"wide": Wide("wide"), "good": Made("good")}).sample([RANK])
    assert names(samples) == ["good"]
    assert [event.kind for event in events] == [EventKind.SOURCE_FAILED]


def test_source_that_is_off_is_named_and_never_asked() -> None:
    sampler = Sampler({"off": Made("off", works=False, fails=9), "bad": Made("bad", probe_fails=True)})
    assert sampler.sample([RANK]) == ({}, [])
    assert [(s.name, s.works, s.reason) for s in sampler.statuses] == [
        ("off", False, "no reason"),
        ("bad", False, "its own check failed: broken"),
    ]


def test_without_rows_a_counter_set_is_left_out() -> None:
    assert Sampler({"good": Made("good")}).sample([]) == ({}, [])


class Hanging(Made):
    """A source that does not come back from `sample` until it is let go."""

    def __init__(self, name: str, measures: bool, probing: bool = False) -> None:
        super().__init__(name)
        self.measures, self._probing = measures, probing
        self.go, self.entered = threading.Event(), threading.Event()

    def _hang(self) -> None:
        self.entered.set()
        self.go.wait(30)

    def probe(self) -> Status:
        if self._probing:
            self._hang()
        return super().probe()

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        self._hang()
        return super().sample(ranks)


@contextmanager
def hanging(name: str, measures: bool) -> Iterator[Hanging]:
    source = Hanging(name, measures)
    try:
        yield source
    finally:
        source.go.set()


def test_source_that_hangs_is_dropped_with_its_reason_and_the_others_go_on() -> None:
    with hanging("stuck", measures=False) as stuck:
        sampler = Sampler({"stuck": stuck, "good": Made("good")}, hangs_ns=50_000_000)
        sampler.ask([RANK])
        assert stuck.entered.wait(10)
        samples, events = wait_for(lambda: (taken := sampler.sample([RANK]))[0] and taken)
        assert names(samples) == ["good"]
        assert [e.kind for e in events] == [EventKind.SOURCE_FAILED]
        status = sampler.statuses[0]
        assert (status.name, status.works) == ("stuck", False)
        assert "did not answer for 0.05 s" in status.reason
        assert sampler.changed
        stuck.go.set()
        assert names(sampler.sample([RANK])[0]) == ["good"], "what it says afterwards comes too late"


def test_source_behind_one_that_hung_is_asked_by_one_thread() -> None:
    """When the call comes back, its thread leaves the sources behind to the one that took its place."""
    threads: list[threading.Thread] = []

    class Noted(Made):
        def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
            threads.append(threading.current_thread())
            return super().sample(ranks)

    with hanging("stuck", measures=False) as stuck:
        others = set(threading.enumerate())
        sampler = Sampler({"stuck": stuck, "good": Noted("good")}, hangs_ns=50_000_000)
        (before,) = [
            one for one in threading.enumerate() if one not in others and one.name == "sampler-files"
        ]
        sampler.ask([RANK])
        assert stuck.entered.wait(10)
        wait_for(lambda: sampler.sample([RANK])[0])
        stuck.go.set()
        before.join(0.3)
        assert sampler.sample([RANK])[0]
    assert before not in threads
    assert before.is_alive(), "the kernel would end the programs that it has started"


def test_source_asked_before_the_whole_agent_stood_still_is_not_dropped() -> None:
    with hanging("slow", measures=False) as slow:
        sampler = Sampler({"slow": slow}, hangs_ns=50_000_000)
        sampler.ask([RANK])
        assert slow.entered.wait(10)
        time.sleep(0.1)  # as long as a stop: nobody looks meanwhile
        sampler.ask([RANK])
        slow.go.set()
        sampler.wait(5)
        rows, events = sampler.take()
        assert (len(rows), events) == (1, [])
        assert [one.works for one in sampler.statuses] == [True]
        sampler.close()


def test_measuring_source_that_hangs_does_not_keep_files_waiting() -> None:
    with hanging("driver", measures=True) as driver:
        sampler = Sampler({"driver": driver, "file": Made("file")})
        sampler.ask([RANK])
        assert driver.entered.wait(10)
        assert names(wait_for(lambda: sampler.take()[0])) == ["file"]
        sampler.ask([RANK])
        assert names(wait_for(lambda: sampler.take()[0])) == ["file"]


def test_source_that_keeps_failing_is_dropped_and_closed() -> None:
    bad, good = Made("bad", fails=FAILURES), Made("good")
    sampler = Sampler({"bad": bad, "good": good})
    for _ in range(FAILURES):
        assert names(sampler.sample([RANK])[0]) == ["good"]
    assert names(sampler.sample([RANK])[0]) == ["good"], "it would work now, but it is off"
    assert not sampler.statuses[0].works
    assert f"failed {FAILURES} times in a row" in sampler.statuses[0].reason
    sampler.close()
    assert bad.closed
    assert good.closed


def test_source_that_hangs_just_after_it_was_dropped_for_failures_costs_itself_only() -> None:
    class Failing(Hanging):
        def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
            if self.fails:
                return Made.sample(self, ranks)
            return super().sample(ranks)

    bad = Failing("bad", measures=False)
    bad.fails = FAILURES
    sampler = Sampler({"bad": bad, "good": Made("good")}, hangs_ns=50_000_000)
    try:
        for _ in range(FAILURES):
            sampler.wait(10)
            sampler.ask([RANK])
        sampler.wait(10)
        sampler.ask([RANK])
        assert bad.entered.wait(10)
        assert len(sampler.take()[1]) == 2, "its first failure, and that it was dropped"
        assert names(wait_for(lambda: sampler.sample([RANK])[0])) == ["good"]
        assert "did not answer" in sampler.statuses[0].reason
        sampler.close()
        assert not bad.closed
    finally:
        bad.go.set()


def test_failures_with_rows_between_them_drop_nothing() -> None:
    bad = Made("bad")
    sampler = Sampler({"bad": bad})
    for _ in range(FAILURES):
        bad.fails = 1
        sampler.sample([RANK])
        sampler.sample([RANK])
    assert sampler.statuses[0].works


def tried_until(sampler: Sampler, expected: list[str]) -> None:
    wait_for(lambda: sorted(names(sampler.sample([RANK])[0])) == expected, f"rows of {expected}")


def test_source_that_comes_later_is_put_back_and_the_status_changes() -> None:
    late, failing, good = Made("late", works=False), Made("failing", probe_fails=True), Made("good")
    sampler = Sampler({"late": late, "failing": failing, "good": good}, again_ns=1)
    for _ in range(3):
        assert names(sampler.sample([RANK])[0]) == ["good"]
    assert not sampler.changed
    assert [status.reason for status in sampler.statuses[:2]] == ["no reason", "its own check failed: broken"]
    late._works = True
    wait_for(lambda: sampler.sample([RANK]) and sampler.changed)
    tried_until(sampler, ["good", "late"])
    assert [status.works for status in sampler.statuses] == [True, False, True]
    assert sampler.statuses[0].fills == "everything"
    sampler.close()
    assert late.closed


def test_second_of_two_checks_that_overlap_changes_nothing() -> None:
    late = Made("late", works=False)
    sampler = Sampler({"late": late})
    for _ in range(2):
        sampler._take_status(late, Status("late", True, ""))
    assert [status.fills for status in sampler.statuses] == ["everything"]
    tried_until(sampler, ["late"])
    sampler.close()


@pytest.mark.parametrize("alone", [True, False])
def test_source_that_was_dropped_after_failures_is_put_back_and_may_fail_anew(alone: bool) -> None:
    bad = Made("bad", fails=FAILURES)
    sampler = Sampler({"bad": bad} if alone else {"bad": bad, "good": Made("good")}, again_ns=200_000_000)
    others = [] if alone else ["good"]
    for _ in range(2):
        bad.fails = FAILURES
        reported = [sampler.sample([RANK])[1] for _ in range(FAILURES)]
        assert sum(map(len, reported)) == 2, "the first failure, and the last"
        assert not sampler.statuses[0].works
        assert "tried again every 0.00333 min" in sampler.statuses[0].advice
        wait_for(lambda: sampler.sample([RANK]) and sampler.statuses[0].works)
        tried_until(sampler, sorted(["bad", *others]))
    sampler.close()
    assert bad.closed


def test_source_that_is_to_be_checked_once_stays_off() -> None:
    costly, late = Made("costly", works=False), Made("late", works=False)
    sampler = Sampler({"costly": costly, "late": late}, once=("costly",), again_ns=1)
    costly._works = late._works = True
    tried_until(sampler, ["late"])
    assert [status.works for status in sampler.statuses] == [False, True]


def test_check_that_hangs_is_left_and_the_others_are_checked() -> None:
    stuck, late = Hanging("stuck", measures=True), Made("late", works=False)
    stuck._works = False
    sampler = Sampler({"stuck": stuck, "late": late, "good": Made("good")}, again_ns=1)
    stuck._probing = stuck._works = True
    try:
        sampler.sample([RANK])
        assert stuck.entered.wait(10)
        late._works = True
        tried_until(sampler, ["good", "late"])
        assert not sampler.statuses[0].works
    finally:
        stuck.go.set()
    assert names(sampler.sample([RANK])[0]) == ["good", "late"], "what it says afterwards comes too late"


def test_without_anything_off_nothing_is_checked() -> None:
    checks = []

    class Counted(Made):
        def probe(self) -> Status:
            checks.append(self.name)
            return super().probe()

    sampler = Sampler({"good": Counted("good")}, again_ns=1)
    for _ in range(5):
        sampler.sample([RANK])
    assert checks == ["good"]


def test_what_a_source_fills_stands_in_its_status() -> None:
    sampler = Sampler({"off": Made("off", works=False)})
    assert sampler.statuses[0].fills == "everything"


def test_close_closes_all() -> None:
    sources = {"a": Made("a"), "b": Made("b")}
    Sampler(sources).close()
    assert all(source.closed for source in sources.values())


def test_source_that_fails_to_close_harms_no_other() -> None:
    class Stubborn(Made):
        def close(self) -> None:
            raise OSError

    good = Made("good")
    Sampler({"bad": Stubborn("bad"), "good": good}).close()
    assert good.closed


def test_example_to_copy_works() -> None:
    source = ExampleSource(SourceSettings())
    sampler = Sampler({"example": source})
    sampler.sample([RANK])
    samples, events = sampler.sample([RANK])
    assert events == []
    assert [row.values for row in samples[source.counter_set]] == [(2,)]
    sampler.close()


def test_rounds_between_two_takes_keep_the_rows_of_a_counter_set_in_order() -> None:
    source = ExampleSource(SourceSettings())
    sampler = Sampler({"example": source, "good": Made("good")})
    for _ in range(3):
        sampler.ask([RANK])
        sampler.wait(10)
    samples, _ = sampler.take()
    assert {counter_set.name: len(rows) for counter_set, rows in samples.items()} == {"example": 3, "good": 3}
    assert [row.values for row in next(iter(samples.values()))] == [(1,), (2,), (3,)]
    assert sampler.take() == ({}, [])
    sampler.close()


def test_values_that_were_found_off_are_marked_as_estimated_and_their_source_says_why() -> None:
    sampler = Sampler(
        {"bad": Made("bad"), "good": Made("good")}, caveats={("bad", "m"): "m was 20 % too low"}
    )

    def provenances() -> dict[str, Provenance]:
        return {one.name: one.metrics[0].provenance for one in sampler.sample([RANK])[0]}

    assert provenances() == {"bad": Provenance.ESTIMATED, "good": Provenance.MEASURED}
    assert [(s.name, s.works, s.caveat) for s in sampler.statuses] == [
        ("bad", True, "m was 20 % too low"),
        ("good", True, ""),
    ]
    assert not sampler.changed
    sampler.mark({})
    assert sampler.changed, "the server must be told"
    assert set(provenances().values()) == {Provenance.MEASURED}
    assert [s.caveat for s in sampler.statuses] == ["", ""]
