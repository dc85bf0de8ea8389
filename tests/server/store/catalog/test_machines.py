from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest
from roofline.answers.machines import Ceiling, SourceStatus
from roofline_server.records import RECORDING, Machine, NodeKey
from roofline_server.report.ceilings.nodes import machine_notes
from roofline_server.store.catalog import machines
from roofline_server.store.catalog.catalog import Catalog
from roofline_server.store.store import Store

from ...builders import DRAM, PEAK_F32, UNIX, Node, S, catalog_of, crash, machine, open_store, rank, training
from ..histories import without_sums

HOST = "host-a"


def measured(at_s: float, value: float = 1e12) -> Ceiling:
    return PEAK_F32._replace(value=value, time_ns=UNIX + int(at_s * S))


def told(*ceilings: Ceiling, host: str = HOST, works: bool = True) -> Machine:
    source = SourceStatus("perf", works, "" if works else "no PMU", "")
    return machine(host, ceilings)._replace(sources=(source,))


class Calibrated(Node):
    """A node whose agent says a machine of its own, at a moment of its choice."""

    def __init__(self, agent: str = "a", boot: str = "boot") -> None:
        super().__init__(agent)
        self.boot, self.says, self.sequence = boot, told(), 0

    def number(self, store: Store) -> int:
        return store.hello(NodeKey(self.agent, self.boot), self.says)

    def say(self, store: Store, at_s: float, what: Machine) -> None:
        store.now_ns = lambda: UNIX + int(at_s * S)  # type: ignore[assignment,method-assign]
        self.says = what
        self.greet(store)

    def train(self, store: Store, job: str, first_s: int) -> None:
        """A job of 10 s."""
        sent = training([rank(job)], batches=2, first_ns=first_s * S, first_sequence=self.sequence + 1)
        self.sequence += len(sent)
        self.put(store, *sent)


EARLY, LATE = told(measured(50, 1e12)), told(measured(150, 2e12), works=False)


@pytest.fixture
def recalibrated(store: Store) -> Store:
    """Job `before`, a calibration in the middle of job `during`, job `after`."""
    node = Calibrated()
    node.say(store, 60, EARLY)
    node.train(store, "before", 100)
    node.train(store, "during", 145)
    node.say(store, 151, LATE)
    node.train(store, "after", 200)
    return store


def seen(store: Store, job: str) -> tuple[Machine, list[str]]:
    view = store.view(job)
    assert view
    (node,) = {who.node for who in view.process_lifetimes}
    return view.machines[node], machine_notes(view)


def check(store: Store) -> None:
    assert seen(store, "before") == (EARLY, []), "its ceilings, and its sources"
    assert seen(store, "after") == (LATE, [])
    machine_of, notes = seen(store, "during")
    assert machine_of == EARLY, "what is measured while a job runs is measured on a busy node"
    assert notes == [
        f"ceilings or hardware of {HOST} changed while the job ran: "
        "what held at its begin is used (version 1)"
    ]


def test_job_keeps_the_ceilings_and_sources_of_its_time(recalibrated: Store) -> None:
    check(recalibrated)


def test_versions_survive_a_restart(tmp_path: Path, recalibrated: Store) -> None:
    recalibrated.seal()
    again = open_store(tmp_path / "data")
    check(again)
    assert again.machine_versions() == recalibrated.machine_versions()
    again.close()


def test_versions_with_the_jobs_reported_against_them(recalibrated: Store) -> None:
    new, old = recalibrated.machine_versions()
    assert (new.version, new.machine, new.since_ns, new.until_ns) == (2, LATE, UNIX + 151 * S, 0)
    assert (old.version, old.machine, old.since_ns, old.until_ns) == (1, EARLY, UNIX + 60 * S, new.since_ns)
    assert (new.jobs, old.jobs) == (["after"], ["before", "during"])


def test_first_ceilings_come_after_the_job(store: Store) -> None:
    node = Calibrated()
    node.say(store, 60, told(works=False))
    node.train(store, "job", 100)
    node.say(store, 151, LATE._replace(sources=()))
    found, notes = seen(store, "job")
    assert found == told(*LATE.ceilings, works=False)
    assert notes == [f"ceilings of {HOST} were measured after the job"]
    assert store.machine_versions()[0].jobs == ["job"]


def test_other_boot_goes_on_with_the_versions(store: Store) -> None:
    first, second = Calibrated(), Calibrated(boot="boot 2")
    first.say(store, 60, EARLY)
    second.say(store, 70, EARLY)
    second.say(store, 151, LATE)
    assert [v.version for v in store.machine_versions()] == [2, 1]


def test_source_that_comes_and_goes_does_not_fill_the_catalog(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "MAX_STATES", 4)
    node = Calibrated()
    for number in range(12):
        node.says = EARLY._replace(interval_ns=number)
        node.number(store)
    (version,) = store.machine_versions()
    assert version.machine.interval_ns == 11
    with catalog_of(tmp_path / "data") as catalog:
        assert [s.machine.interval_ns for s in catalog.machine_states()["a"]] == [0, 1, 2, 11]


def test_machine_that_is_another_each_time_does_not_fill_the_catalog(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(machines, "MAX_CHANGES", 2)
    node, other = Calibrated(), Calibrated("other")
    for number in range(8):
        node.says = told(measured(50, 1e12 + number))
        node.number(store)
    other.number(store)
    with catalog_of(tmp_path / "data") as catalog:
        kept = catalog.machine_states()
    assert [s.machine.ceilings[0].value - 1e12 for s in kept["a"]] == [0, 1, 7]
    assert len(kept["other"]) == 1 and "agent a: its machine has changed more than 2 times" in caplog.text


def test_stream_opens_while_what_an_agent_says_is_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop tells of streams: it must not wait for a disk."""
    writing, written, told_of = threading.Event(), threading.Event(), threading.Event()

    def slow(*_: object) -> None:
        writing.set()
        assert written.wait(10)

    def stream() -> None:
        store.machines.stream_opened("b")
        store.machines.stream_closed("b")
        told_of.set()

    node = Calibrated()
    monkeypatch.setattr(Catalog, "add_machine_states", slow)
    writer = threading.Thread(target=node.say, args=(store, 60, EARLY))
    loop = threading.Thread(target=stream)
    writer.start()
    try:
        assert writing.wait(10)
        loop.start()
        assert told_of.wait(10)
    finally:
        written.set()
        writer.join()
        loop.join()


def test_connected_is_whoever_has_a_stream(store: Store) -> None:
    node = Calibrated()
    node.say(store, 60, EARLY)
    node.say(store, 151, LATE)
    assert [v.connected for v in store.machine_versions()] == [False, False]
    store.machines.stream_opened("a")
    store.machines.stream_opened("a")  # the new stream of an agent may open before its old one is seen to end
    store.machines.stream_closed("a")
    assert [v.connected for v in store.machine_versions()] == [True, False], "an old version is not connected"
    store.machines.stream_closed("a")
    assert not any(v.connected for v in store.machine_versions())


def test_agent_that_has_gone_is_replaced_by_the_next_of_its_host(store: Store) -> None:
    Calibrated("a").say(store, 60, EARLY)
    Calibrated("b").say(store, 151, LATE)
    Calibrated("c").say(store, 160, told(host="other"))
    file = NodeKey("file", RECORDING)
    store.hello(file, told(DRAM))
    ends = {v.agent: v.until_ns for v in store.machine_versions()}
    assert ends == {"a": UNIX + 151 * S, "b": 0, "c": 0, "file": 0}
    store.machines.stream_opened("a")
    assert not any(v.until_ns for v in store.machine_versions()), "two agents can be on one host"


def test_imported_file_is_no_machine(store: Store) -> None:
    Calibrated("a").say(store, 60, EARLY)
    for number in range(5):
        store.hello(NodeKey(f"file {number}", RECORDING), told())
    assert [v.agent for v in store.machine_versions()] == ["a"]


def test_host_that_is_known_from_files_alone_is_one(store: Store) -> None:
    for number in range(3):
        file = Calibrated(f"file {number}", RECORDING)
        file.say(store, 60 + number, told(host="elsewhere"))
        file.train(store, f"job {number}", 100)
    (only,) = store.machine_versions()
    assert (only.machine.host, only.since_ns) == ("elsewhere", UNIX + 60 * S)
    assert only.jobs == ["job 0", "job 1", "job 2"]


def as_before(root: Path) -> None:
    """Make the catalog one of a former release, which had no versions."""
    without_sums(root / "catalog.db")
    catalog = sqlite3.connect(root / "catalog.db")
    catalog.execute("drop table machine")
    catalog.execute("drop table tag")
    catalog.execute("delete from state where name = 'format'")
    catalog.commit()
    catalog.close()


def test_old_catalog_is_taken_over(tmp_path: Path, store: Store) -> None:
    first, second = Calibrated(), Calibrated(boot="boot 2")
    first.say(store, 60, EARLY)
    first.train(store, "before", 100)
    second.sequence = first.sequence
    second.say(store, 170, LATE)
    second.train(store, "after", 200)
    Calibrated("b").say(store, 300, told(host="other"))
    store.seal()
    crash(store)
    as_before(tmp_path / "data")
    for _ in range(2):
        again = open_store(tmp_path / "data")
        assert seen(again, "before") == (EARLY, [])
        assert seen(again, "after") == (LATE, [])
        found = {(v.machine.host, v.version): (v.since_ns, v.jobs) for v in again.machine_versions()}
        assert found == {
            (HOST, 1): (0, ["before"]),
            (HOST, 2): (UNIX + 200 * S, ["after"]),
            ("other", 1): (0, []),
        }
        again.close()
