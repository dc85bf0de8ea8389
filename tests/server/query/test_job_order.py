"""In which order jobs are listed."""

from __future__ import annotations

from pathlib import Path

from roofline_server.query.answers import Answers

from ..builders import UNIX, Node, S, open_store, rank, training

A = Node("a", UNIX, "hosta")


def test_job_that_began_last_is_the_newest_though_another_ended_later(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    A.greet(store)
    A.put(store, *training([rank("long", pid=100)], 8, first_ns=100 * S))
    A.put(store, *training([rank("short", pid=101)], 2, first_ns=110 * S, first_sequence=9))
    listed = Answers(store).jobs().jobs
    assert [one.job for one in listed] == ["short", "long"]
    assert listed[0].end_ns < listed[1].end_ns
    store.close()
