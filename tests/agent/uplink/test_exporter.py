"""The stream to a real server that follows a script."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_agent.uplink.encoding import Greeting, encode_hello
from roofline_agent.uplink.order import WINDOW

from tests.fakes import wait_for

from .lines import Line, Script, ack, nothing, reject, serve


def test_hello_describes_the_agent_and_its_machine(line: Line) -> None:
    script = line.up(Script(ack))
    line.start()
    (hello,) = wait_for(lambda: script.hellos)
    assert (hello.protocol, hello.agent, hello.instance, hello.boot) == (2, "agent", "instance", "boot")
    assert (hello.version, hello.interval_ns) == ("1.2", 5)
    assert (hello.machine.host, hello.machine.cpus, hello.machine.memory_bytes) == ("h", 4, 8)
    assert [(s.name, s.works, s.reason, s.advice) for s in hello.sources] == [
        ("process", True, "", ""),
        ("perf", False, "why", "do"),
    ]
    (ceiling,) = hello.machine.ceilings
    assert (ceiling.name, ceiling.value, ceiling.unit, ceiling.spread) == ("dram.triad", 1e9, "byte/s", 0.01)


def test_acked_batches_leave_the_spool(line: Line) -> None:
    script = line.up(Script(ack))
    line.start()
    line.fill(200)
    wait_for(lambda: line.spool.bytes_waiting == 0)
    assert script.batches == list(range(1, 201))
    assert line.exporter.drain(5)


def test_unacked_batches_stay_and_the_window_holds(line: Line) -> None:
    script = line.up(Script(nothing))
    line.start()
    line.fill(WINDOW + 20)
    wait_for(lambda: len(script.batches) >= WINDOW)
    line.exporter.push()
    script.say(pb.ServerMessage(ping=pb.Ping(id=1, server_ns=1)))
    wait_for(lambda: script.others)  # all that was sent before has come
    assert script.batches == list(range(1, WINDOW + 1))
    assert len(line.spool.pending(0, 1000)) == WINDOW + 20
    script.say(pb.ServerMessage(ack=pb.Ack(sequence=10)))
    wait_for(lambda: len(script.batches) == WINDOW + 10)
    assert not line.exporter.drain(0.05)


def test_server_that_comes_later_gets_everything(line: Line) -> None:
    _, line.port = (probe := serve(Script(ack)))
    probe[0].stop(0).wait()
    line.start()
    line.fill(5)
    script = line.up(Script(ack))
    wait_for(lambda: line.spool.bytes_waiting == 0)
    assert script.batches == [1, 2, 3, 4, 5]


def test_after_a_crash_what_was_not_acked_is_sent_again(line: Line) -> None:
    first = line.up(Script(lambda batch: ack(batch) if batch.sequence <= 3 else []))
    line.start()
    line.fill(6)
    wait_for(lambda: first.batches == [1, 2, 3, 4, 5, 6] and len(line.spool.pending(0, 9)) == 3)
    line.down()
    line.fill(2)
    second = line.up(Script(ack, acked=4))  # 4 became durable, its ack got lost
    wait_for(lambda: line.spool.bytes_waiting == 0)
    assert second.batches == [5, 6, 7, 8]


def test_numbering_goes_on_behind_what_the_server_has(line: Line) -> None:
    script = line.up(Script(ack, acked=70))
    line.start()
    wait_for(lambda: line.exporter.connected)
    assert line.spool.next_sequence() == 71
    line.fill(3)
    wait_for(lambda: line.spool.bytes_waiting == 0)
    assert script.batches == [71, 72, 73]


def test_ping_is_answered_with_node_time(line: Line) -> None:
    script = line.up(Script(ack))
    line.start()
    wait_for(lambda: line.exporter.connected)
    before = time.monotonic_ns()
    script.say(pb.ServerMessage(ping=pb.Ping(id=9, server_ns=123)))
    (message,) = wait_for(lambda: script.others)
    pong = message.pong
    assert (pong.id, pong.server_ns) == (9, 123)
    assert before <= pong.received_ns <= pong.sent_ns <= time.monotonic_ns()


def test_gathering_is_as_the_newest_ack_asks_and_ends_with_the_stream(line: Line) -> None:
    def asking(batch: Any) -> list[Any]:
        return [pb.ServerMessage(ack=pb.Ack(sequence=batch.sequence, hold_ms=4000))]

    line.up(Script(asking))
    line.start()
    line.fill(3)
    wait_for(lambda: line.spool.bytes_waiting == 0)
    assert line.holds == [4_000_000_000]
    line.down()
    wait_for(lambda: line.holds == [4_000_000_000, 0])


def test_gathering_can_be_asked_for_with_the_welcome(line: Line) -> None:
    line.up(Script(ack, hold_ms=2000))
    line.start()
    wait_for(lambda: line.exporter.connected)
    assert line.holds == [2_000_000_000]
    line.fill(1)
    wait_for(lambda: line.holds == [2_000_000_000, 0])  # its ack asks no more


def test_interval_is_set_on_command(line: Line) -> None:
    script = line.up(Script(ack))
    line.start()
    wait_for(lambda: line.exporter.connected)
    script.say(pb.ServerMessage(command=pb.Command(id=3, set_interval=pb.SetInterval(interval_ns=77))))
    script.say(pb.ServerMessage(command=pb.Command(id=4)))
    wait_for(lambda: len(script.others) == 2)
    assert line.intervals == [(77, "", 1)]
    done, unknown = (message.result for message in script.others)
    assert (done.id, done.done, unknown.id, unknown.done) == (3, True, 4, False)
    assert "does not know" in unknown.reason


def test_interval_of_a_server_that_has_gone_is_taken_back(line: Line) -> None:
    """It cannot do that itself any more."""
    script = line.up(Script(ack))
    line.start()
    wait_for(lambda: line.exporter.connected)
    slower = pb.SetInterval(interval_ns=4_000_000_000, reason="the server was busy", kernels=4)
    script.say(pb.ServerMessage(command=pb.Command(id=3, set_interval=slower)))
    wait_for(lambda: line.intervals)
    line.down()
    wait_for(lambda: len(line.intervals) == 2)
    assert line.intervals == [(4_000_000_000, "the server was busy", 4), (0, "", 1)]


def test_fewer_kernels_for_a_server_that_has_gone_are_taken_back(line: Line) -> None:
    script = line.up(Script(ack))
    line.start()
    wait_for(lambda: line.exporter.connected)
    script.say(pb.ServerMessage(command=pb.Command(id=3, set_interval=pb.SetInterval(kernels=2))))
    wait_for(lambda: line.intervals)
    line.down()
    wait_for(lambda: len(line.intervals) == 2)
    assert line.intervals == [(0, "", 2), (0, "", 1)]


def test_rejected_batch_is_given_up_and_counted(line: Line) -> None:
    script = line.up(Script(lambda batch: reject(batch) if batch.sequence == 2 else ack(batch)))
    line.start()
    line.fill(3)
    wait_for(lambda: line.spool.bytes_waiting == 0)
    assert script.batches == [1, 2, 3]
    assert line.spool.refused == 1


def test_many_rejections_do_not_stop_the_stream(line: Line) -> None:
    script = line.up(Script(lambda batch: reject(batch) if batch.sequence <= WINDOW else ack(batch)))
    line.start()
    line.fill(WINDOW)
    wait_for(lambda: line.spool.refused == WINDOW)
    line.fill(1)
    wait_for(lambda: WINDOW + 1 in script.batches)


def test_hello_is_sent_again_when_ceilings_change(line: Line) -> None:
    script = line.up(Script(ack))
    line.start()
    wait_for(lambda: line.exporter.connected)
    line.exporter.greet_again()
    wait_for(lambda: len(script.hellos) == 2)


def test_server_that_never_says_welcome_gets_no_batch_and_is_left(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roofline_agent.uplink.exporter.WELCOME_TIMEOUT_S", 0.1)
    script = Script(ack)
    script.acked = None  # type: ignore[assignment]
    line.up(script)
    line.start()
    line.fill(3)
    wait_for(lambda: len(script.hellos) >= 2)
    assert script.batches == []


def test_stop_does_not_wait_for_a_welcome(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline_agent.uplink.exporter.WELCOME_TIMEOUT_S", 5)
    script = Script(ack)
    script.acked = None  # type: ignore[assignment]
    line.up(script)
    line.start()
    wait_for(lambda: script.hellos)
    line.exporter.stop()
    alive = line.exporter.is_alive()
    line.exporter.join(20)
    assert not alive


def test_stop_as_the_stream_opens_ends_its_thread(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    opening, opened = threading.Event(), threading.Event()

    def slowly(greeting: Greeting) -> Any:
        opening.set()
        opened.wait(10)
        return encode_hello(greeting)

    monkeypatch.setattr("roofline_agent.uplink.exporter.encode_hello", slowly)
    line.up(Script(nothing)).acked = None  # type: ignore[assignment]
    line.start()
    assert opening.wait(10)
    threading.Timer(0.2, opened.set).start()
    line.exporter.stop()
    assert not line.exporter.is_alive()


def test_stop_of_a_live_stream_ends_its_thread(line: Line) -> None:
    line.up(Script(ack))
    line.start()
    wait_for(lambda: line.exporter.connected)
    line.exporter.stop()
    assert not line.exporter.is_alive()


def taken(batch: Any) -> list[Any]:
    return [pb.ServerMessage(rejection=pb.Rejection(sequence=batch.sequence, reason="other", taken=True))]


def test_what_a_server_has_of_others_is_not_taken_for_own(line: Line) -> None:
    line.fill(3)
    script = line.up(Script(ack, acked=70, lineages=True))
    line.start()
    wait_for(lambda: line.spool.bytes_waiting == 0)
    assert script.batches == [1, 2, 3]
    assert {lineage for lineage, _ in script.of_lineage} == {line.spool.lineage}


def test_batches_whose_numbers_are_taken_are_sent_anew_under_another_lineage(line: Line) -> None:
    first = line.spool.lineage
    script = line.up(Script(lambda batch: (taken if batch.sequence in (2, 3) else ack)(batch), lineages=True))
    line.start()
    line.fill(4)
    wait_for(lambda: line.spool.bytes_waiting == 0)
    second = line.spool.lineage
    assert second != first and line.spool.dropped == 0
    assert script.of_lineage[:4] == [(first, n) for n in (1, 2, 3, 4)]
    assert sorted(script.of_lineage[4:]) == [(second, 5), (second, 6)]
    assert wait_for(lambda: script.hellos[1:])[-1].lineage == second


def test_server_that_takes_no_number_ends_in_counted_drops(line: Line) -> None:
    line.up(Script(taken, lineages=True))
    line.start()
    line.fill(3)
    wait_for(lambda: line.spool.refused == 3)
    assert line.spool.bytes_waiting == 0


def test_absurd_number_of_an_older_server_costs_no_batch(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    line.up(Script(ack, acked=2**63 - 1))
    line.fill(3)
    line.start()
    wait_for(lambda: "which cannot be" in caplog.text)
    assert line.exporter.is_alive()
    assert [one.sequence for one in line.spool.pending(0, 9)] == [1, 2, 3]
    line.down()
    line.up(Script(ack, lineages=True))
    wait_for(lambda: line.spool.bytes_waiting == 0)


def test_ack_of_what_was_never_sent_forgets_nothing(line: Line) -> None:
    script = line.up(Script(nothing, lineages=True))
    line.start()
    line.fill(2)
    wait_for(lambda: script.batches == [1, 2])
    script.say(pb.ServerMessage(ack=pb.Ack(sequence=2**63)))
    wait_for(lambda: line.exporter.acked == 2)
    line.fill(1)
    wait_for(lambda: script.batches == [1, 2, 3])
    assert len(line.spool.pending(0, 9)) == 1


def test_notice_is_handed_on_once_as_a_fact(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    script = line.up(Script(ack, lineages=True))
    line.start()
    wait_for(lambda: line.exporter.connected)
    for _ in range(2):
        script.say(pb.ServerMessage(notice=pb.Notice(name="identity", text="shared")))
    script.say(pb.ServerMessage(ping=pb.Ping(id=1)))
    wait_for(lambda: script.others)
    assert line.exporter.take_notices() == ["identity=shared"]
    assert line.exporter.take_notices() == []
    assert line.exporter.take_notices(all_of_them=True) == ["identity=shared"]
    assert "the server reports: shared" in caplog.text
