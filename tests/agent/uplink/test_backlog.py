"""What waited while the server was away, and what is new next to it, over a real stream."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_agent.records import Batch
from roofline_agent.uplink.encoding import encode
from roofline_agent.uplink.order import FIRST_OLD
from roofline_agent.uplink.spool import Spool

from tests.fakes import wait_for

from .lines import Line, Script, ack_alone, nothing, reject


def exact(answer: Callable[[Any], list[Any]]) -> Script:
    return Script(answer, lineages=True, exact_acks=True)


def test_new_batches_go_before_the_backlog_and_all_are_sent_once(line: Line) -> None:
    script = line.up(exact(nothing))
    line.fill(200)
    line.start()
    wait_for(lambda: len(script.batches) == FIRST_OLD)
    line.fill(2)
    wait_for(lambda: len(script.batches) == FIRST_OLD + 2)
    assert script.batches == [*range(1, FIRST_OLD + 1), 201, 202]
    script.answer = ack_alone
    script.say(pb.ServerMessage(ack=pb.Ack(kept=script.batches)))
    wait_for(lambda: line.spool.bytes_waiting == 0)
    assert sorted(script.batches) == list(range(1, 203))


def test_server_learns_what_is_missing_and_when_it_is_not_any_more(line: Line) -> None:
    script = line.up(exact(nothing))
    line.fill(3)
    line.start()
    wait_for(lambda: script.batches == [1])
    line.fill(1)
    wait_for(lambda: script.batches == [1, 4])
    assert [one.backlog for one in script.others] == [pb.Backlog(begin_ns=10, end_ns=40)]
    script.answer = ack_alone
    script.say(pb.ServerMessage(ack=pb.Ack(kept=[1, 4])))
    wait_for(lambda: len(script.others) == 2)
    assert script.others[1].backlog == pb.Backlog()
    assert line.spool.bytes_waiting == 0


def test_only_what_is_acknowledged_leaves_the_spool(line: Line) -> None:
    script = line.up(exact(nothing))
    line.fill(4)
    line.start()
    wait_for(lambda: script.batches == [1])
    line.fill(1)
    wait_for(lambda: script.batches == [1, 5])
    script.say(pb.ServerMessage(ack=pb.Ack(kept=[5, 99])))
    wait_for(lambda: len(line.spool.pending(0, 9)) == 4)
    line.down()
    again = line.up(exact(ack_alone))
    wait_for(lambda: line.spool.bytes_waiting == 0)
    assert again.batches == [1, 2, 3, 4]


def test_backlog_of_an_earlier_process_goes_first(line: Line, tmp_path: Path) -> None:
    line.fill(40)
    line.spool.close()
    line.spool = Spool(tmp_path / "spool.db")
    script = line.up(exact(nothing))
    line.start()
    wait_for(lambda: len(script.batches) == FIRST_OLD)
    line.fill(1)
    script.answer = ack_alone
    script.say(pb.ServerMessage(ack=pb.Ack(kept=script.batches)))
    wait_for(lambda: line.spool.bytes_waiting == 0)
    assert script.batches == list(range(1, 42))


@pytest.mark.parametrize("damaged", [(1, 2, 9), (5,), (20,), tuple(range(1, 21))])
def test_unreadable_batches_of_the_backlog_hold_up_nothing(
    line: Line, tmp_path: Path, damaged: tuple[int, ...]
) -> None:
    line.fill(20)
    line.spool.close()
    with closing(sqlite3.connect(tmp_path / "spool.db", isolation_level=None)) as db:
        other = encode(Batch(1, 2), 99)
        for sequence in damaged:
            data = other if sequence == 9 else b"\xff" * 50
            db.execute("update batch set data = ? where sequence = ?", (data, sequence))
    line.spool = Spool(tmp_path / "spool.db")
    script = line.up(exact(ack_alone))
    line.start()
    wait_for(lambda: script.hellos and line.exporter.connected)
    line.fill(2)
    wait_for(lambda: line.spool.bytes_waiting == 0)
    assert sorted(script.batches) == [one for one in range(1, 23) if one not in damaged]
    assert len(script.hellos) == 1, "in one stream"
    assert (line.spool.damaged, line.spool.dropped) == (len(damaged), 0)


def test_refused_batch_of_the_backlog_holds_up_nothing(line: Line) -> None:
    script = line.up(exact(lambda batch: reject(batch) if batch.sequence % 7 == 0 else ack_alone(batch)))
    line.fill(100)
    line.start()
    wait_for(lambda: line.spool.bytes_waiting == 0)
    assert sorted(script.batches) == list(range(1, 101))
    assert line.spool.refused == 14
    wait_for(lambda: script.others[-1].backlog == pb.Backlog())
