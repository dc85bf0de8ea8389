from __future__ import annotations

import asyncio
import gc
import sqlite3
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import ingest_pb2_grpc
from roofline_server.clock import NodeClock
from roofline_server.ingest import committer, service
from roofline_server.ingest.stream import AgentStream
from roofline_server.records import NODE_JOB, rows
from roofline_server.store.catalog.catalog import Catalog

from ..builders import S, batch, catalog_of, full_batch, rank, training
from ..services import PATIENCE_S, Agent, Served, run

SENT = training([rank()])


def steps_seen(server: Served) -> int:
    view = server.store.view("job")
    return rows(view.steps.get("steps", {})) if view else 0


async def refusal(server: Served, *first: pb.AgentMessage) -> grpc.aio.AioRpcError:
    """How a stream that begins with these messages ends."""
    call = ingest_pb2_grpc.IngestStub(server.channel).Stream()
    for message in first:
        await call.write(message)
    await call.done_writing()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asyncio.wait_for(call.read(), PATIENCE_S)
    return caught.value


def test_stream_opens_with_a_welcome(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent() as agent:
            assert agent.heard[0].WhichOneof("kind") == "welcome"
            (welcome,) = agent.all("welcome")
            assert (welcome.acked, welcome.max_batch_bytes) == (0, service.MAX_BATCH_BYTES)

    run(work, tmp_path)


@pytest.mark.parametrize(
    ("first", "says"),
    [
        ([], "Hello"),
        ([pb.AgentMessage(batch=batch())], "Hello"),
        ([pb.AgentMessage()], "Hello"),
        ([pb.AgentMessage(hello=pb.Hello(protocol=1))], "Hello"),
        ([pb.AgentMessage(hello=pb.Hello(protocol=3, agent="a"))], "protocol 3"),
        ([pb.AgentMessage(hello=pb.Hello(protocol=1, agent="a"))], "host"),
        ([pb.AgentMessage(hello=pb.Hello(protocol=1, agent="a" * 65))], "64"),
        ([pb.AgentMessage(hello=pb.Hello(protocol=1, agent="a", boot="\0"))], "boot, instance"),
    ],
)
def test_stream_that_does_not_begin_with_a_good_hello_is_refused(
    tmp_path: Path, first: list[pb.AgentMessage], says: str
) -> None:
    async def work(server: Served) -> None:
        error = await refusal(server, *first)
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert says in (error.details() or "")

    run(work, tmp_path)


def test_garbage_ends_its_own_stream_and_no_other(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent() as agent:
            raw = server.channel.stream_stream("/roofline.v1.Ingest/Stream")()
            await raw.write(b"\xff\xff\xff\xff")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await asyncio.wait_for(raw.read(), PATIENCE_S)
            assert caught.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNKNOWN)
            await agent.send(SENT[0])
            await agent.until(lambda: agent.acked == 1)

    run(work, tmp_path)


def test_garbage_in_place_of_hello_is_refused_as_invalid(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        raw = server.channel.stream_stream("/roofline.v1.Ingest/Stream")()
        await raw.write(b"\xff\xff\xff\xff")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asyncio.wait_for(raw.read(), PATIENCE_S)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT

    run(work, tmp_path)


def test_batches_are_acknowledged_and_kept(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent() as agent:
            await agent.send(*SENT)
            await agent.until(lambda: agent.acked == len(SENT))
            acks = [a.sequence for a in agent.all("ack")]
            assert acks == sorted(acks)
            assert steps_seen(server) == 57

    run(work, tmp_path)


def test_nothing_is_acknowledged_before_it_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "DISK_RETRY_S", 0.01)

    async def work(server: Served) -> None:
        tries, full = [0], [True]
        real = server.store.commit

        def commit(batches: Any) -> Any:
            tries[0] += 1
            if full[0]:
                raise sqlite3.OperationalError("database or disk is full")
            return real(batches)

        monkeypatch.setattr(server.store, "commit", commit)
        async with server.agent() as agent:
            await agent.send(*SENT[:3])
            await agent.until(lambda: tries[0] > 5)
            assert agent.all("ack") == []
            full[0] = False
            await agent.until(lambda: agent.acked == 3)
            other = sqlite3.connect(tmp_path / "inbox.db")
            assert other.execute("select max(sequence) from acked").fetchone() == (3,)
            other.close()

    run(work, tmp_path)


def test_agents_wait_while_sealing_is_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "MAX_UNSEALED_BYTES", 0)
    monkeypatch.setattr(committer, "ROOM_LOOK_S", 0.001)

    async def work(server: Served) -> None:
        unsealed: list[int] = []
        real = server.store.commit

        def commit(batches: Any) -> Any:
            unsealed.append(server.store.unsealed_bytes)
            return real(batches)

        monkeypatch.setattr(server.store, "commit", commit)
        async with server.agent() as agent:
            for sequence, one in enumerate(SENT, 1):
                await agent.send(one)
                await agent.until(lambda: server.store.unsealed_bytes == 0 or server.committer.is_full)
                await asyncio.to_thread(server.store.seal)
                await agent.until(lambda sequence=sequence: agent.acked == sequence)  # type: ignore[misc]
        assert unsealed == [0] * len(SENT)

    run(work, tmp_path)


def test_queue_of_few_bytes_lets_all_batches_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "QUEUE_BYTES", 1)

    async def work(server: Served) -> None:
        async with server.agent() as one, server.agent("agent-b") as other:
            await asyncio.gather(one.send(*SENT), other.send(*SENT))
            await one.until(lambda: one.acked == len(SENT))
            await other.until(lambda: other.acked == len(SENT))

    run(work, tmp_path)


def test_batches_sent_again_are_acknowledged_and_not_doubled(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent() as agent:
            await agent.send(*SENT)
            await agent.until(lambda: agent.acked == len(SENT))
            heard = len(agent.all("ack"))
            await agent.send(*SENT)
            await agent.until(lambda: [a.sequence for a in agent.all("ack")[heard:]][-1:] == [len(SENT)])
            assert steps_seen(server) == 57

    run(work, tmp_path)


def test_agent_that_comes_back_is_told_what_is_durable(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent() as agent:
            await agent.send(*SENT[:3])
            await agent.until(lambda: agent.acked == 3)
        async with server.agent() as agent:
            assert agent.all("welcome")[0].acked == 3
            await agent.send(*SENT)
            await agent.until(lambda: agent.acked == len(SENT))
            assert steps_seen(server) == 57

    run(work, tmp_path)


def test_server_that_comes_back_tells_what_is_durable(tmp_path: Path) -> None:
    async def before(server: Served) -> None:
        async with server.agent() as agent:
            await agent.send(*SENT[:3])
            await agent.until(lambda: agent.acked == 3)

    async def after(server: Served) -> None:
        async with server.agent() as agent:
            assert agent.all("welcome")[0].acked == 3

    run(before, tmp_path)
    run(after, tmp_path)


def test_bad_batch_is_rejected_and_the_stream_goes_on(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        bad = full_batch()
        bad.sequence = 2
        bad.marks.step = b"1234567"
        async with server.agent() as agent:
            await agent.send(SENT[0], bad, SENT[2])
            await agent.until(lambda: agent.acked == 3)
            (rejection,) = agent.all("rejection")
            assert rejection.sequence == 2
            assert "marks.step has 7 bytes" in rejection.reason
            assert server.store.acked("agent-a") == 3

    run(work, tmp_path)


def test_too_large_a_batch_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_BATCH_BYTES", 1000)

    async def work(server: Served) -> None:
        async with server.agent() as agent:
            await agent.send(SENT[0])
            (rejection,) = await agent.until(lambda: agent.all("rejection"))
            assert "at most 1000" in rejection.reason

    run(work, tmp_path)


def test_sequence_no_inbox_can_hold_is_rejected_and_harms_nobody_else(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent() as agent, server.agent("agent-b") as other:
            await agent.send(batch(2**63))
            await other.send(SENT[0])

            async def soon() -> None:
                await other.until(lambda: other.acked == 1)

            await asyncio.wait_for(soon(), 3)
            (rejection,) = await agent.until(lambda: agent.all("rejection"))
            assert rejection.sequence == 2**63
            assert "too far from 0" in rejection.reason

    run(work, tmp_path)


def test_streams_do_not_mix(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent("agent-a") as one, server.agent("agent-b") as other:
            await one.send(*SENT[:2])
            await other.send(*training([rank("another")], batches=5))
            await one.until(lambda: one.acked == 2)
            await other.until(lambda: other.acked == 5)
            assert one.acked == 2
            assert server.store.jobs() == {"job", "another"}

    run(work, tmp_path)


def test_both_streams_of_one_agent_lead_to_one_copy(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent() as old, server.agent() as new:
            await old.send(*SENT)
            await new.send(*SENT)
            await old.until(lambda: old.acked == len(SENT))
            await new.until(lambda: new.acked == len(SENT))
            assert steps_seen(server) == 57

    run(work, tmp_path)


def test_too_many_streams_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_STREAMS", 1)

    async def work(server: Served) -> None:
        async with server.agent():
            hello = Agent(server.channel, "b").hello
            error = await refusal(server, pb.AgentMessage(hello=hello))
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED

    run(work, tmp_path)


def clock_of(server: Served) -> NodeClock:
    (node,) = server.store.name_ids.machines()
    return server.store.clocks()[node]


def test_pings_put_the_node_on_the_servers_clock(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent(answers=False) as agent:
            for number in range(3):
                await agent.until(lambda number=number: len(agent.all("ping")) > number)  # type: ignore[misc]
                await agent.pong(agent.all("ping")[number], 1_000 * S)
            await agent.until(lambda: clock_of(server).is_measured)
            clock = clock_of(server)
            moment = np.array([server.store.now_ns()])
            assert abs(int(clock.to_server(moment - 1_000 * S)[0] - moment[0])) <= clock.error_at(moment)[0]

    run(work, tmp_path)


def test_pong_that_answers_no_ping_is_ignored(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent(answers=False) as agent:
            await agent.send(SENT[0])
            await agent.until(lambda: agent.acked == 1)
            lowest = -(2**63)
            await agent.write(
                pb.AgentMessage(pong=pb.Pong(id=99, server_ns=0, received_ns=lowest, sent_ns=lowest))
            )
            await agent.send(SENT[1])
            await agent.until(lambda: agent.acked == 2)
            assert not clock_of(server).is_measured
            assert server.store.view("job")

    run(work, tmp_path)


def test_hello_sent_again_brings_the_machine_up_to_date(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent() as agent:
            agent.hello.machine.cores = 77
            await agent.write(pb.AgentMessage(hello=agent.hello))
            await agent.until(lambda: [m.cores for m in server.store.name_ids.machines().values()] == [77])

    run(work, tmp_path)


def test_node_without_a_job_leaves_its_watch(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent() as agent:
            await agent.send(batch())
            await agent.until(lambda: agent.acked == 1)
        server.store.seal()
        with catalog_of(tmp_path) as catalog:
            assert [segment.dataset for segment in catalog.segments(NODE_JOB)] == ["events"]

    run(work, tmp_path)


def of_lineage(one: pb.Batch, lineage: str) -> pb.AgentMessage:
    return pb.AgentMessage(batch=one, lineage=lineage)


def batches_kept(root: Path) -> list[tuple[str, int]]:
    with sqlite3.connect(root / "inbox.db") as inbox:
        return inbox.execute("select lineage, sequence from batch order by lineage, sequence").fetchall()


def test_copies_of_an_agent_are_kept_apart_by_their_lineages(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        others = training([rank("another")])
        one = server.agent(lineage="x", instance="1")
        other = server.agent(lineage="y", instance="2")
        async with one, other:
            for a, b in zip(SENT, others, strict=True):
                await one.write(of_lineage(a, "x"))
                await other.write(of_lineage(b, "y"))
            await one.until(lambda: one.acked == len(SENT))
            await other.until(lambda: other.acked == len(SENT))
            assert not one.all("rejection") and not other.all("rejection")
            assert steps_seen(server) == 57
            view = server.store.view("another")
            assert view and rows(view.steps["steps"]) == 57
        async with server.agent(lineage="y") as again:
            (welcome,) = again.all("welcome")
            assert (welcome.acked, welcome.lineage) == (len(SENT), "y")

    run(work, tmp_path)


def test_batches_of_earlier_lineages_come_over_a_stream_and_once(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        for instance in "12":
            async with server.agent(lineage=f"new{instance}", instance=instance) as agent:
                await agent.write(of_lineage(SENT[0], "old"))
                await agent.write(of_lineage(SENT[1], f"new{instance}"))
                await agent.until(lambda agent=agent: agent.acked == 2)  # type: ignore[misc]
        assert batches_kept(tmp_path) == [("new1", 2), ("new2", 2), ("old", 1)]

    run(work, tmp_path)


def test_numbers_out_of_order_are_kept_all(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent() as agent:
            order = (3, 1, 2, 6, 5, 4)
            for number in order:
                await agent.send(SENT[number - 1])
            await agent.until(lambda: len(batches_kept(tmp_path)) == len(order))
            assert not agent.all("rejection")

    run(work, tmp_path)


@pytest.mark.parametrize("lineage", ["", "x"])
def test_other_batch_with_a_kept_number_is_refused_and_not_acknowledged(tmp_path: Path, lineage: str) -> None:
    async def work(server: Served) -> None:
        others = training([rank("another")])
        async with server.agent(lineage=lineage) as one, server.agent(lineage=lineage) as other:
            for at in range(3):
                await one.write(of_lineage(SENT[at], lineage))
            await one.until(lambda: one.acked == 3)
            for at in range(5):
                await other.write(of_lineage(others[at], lineage))
            await other.until(lambda: other.acked == 5)
            refused = other.all("rejection")
            assert [(r.sequence, r.taken) for r in refused] == [(1, True), (2, True), (3, True)]
            assert "two agents share one numbering" in refused[0].reason
            kinds = [
                m.WhichOneof("kind") for m in other.heard if m.WhichOneof("kind") in ("ack", "rejection")
            ]
            assert kinds.index("ack") > 2, "an ack covers what was sent before it"

    run(work, tmp_path)


def test_two_batches_of_one_number_in_one_group_are_told_apart(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent() as agent:
            await agent.send(SENT[0], training([rank("another")])[0], SENT[1])
            await agent.until(lambda: agent.acked == 2)
            assert [r.taken for r in agent.all("rejection")] == [True]
            assert server.store.jobs() == {"job"}

    run(work, tmp_path)


@pytest.mark.parametrize("sequence", [0, 2**33, 2**63 - 1])
def test_absurd_number_is_refused_and_changes_nothing(tmp_path: Path, sequence: int) -> None:
    async def work(server: Served) -> None:
        async with server.agent() as agent:
            spoiled = batch(1)
            spoiled.sequence = sequence
            await agent.send(spoiled, SENT[0])
            await agent.until(lambda: agent.acked == 1)
            assert [r.sequence for r in agent.all("rejection")] == [sequence]
        async with server.agent() as agent:
            assert agent.all("welcome")[0].acked == 1

    run(work, tmp_path)


def test_two_live_agents_of_one_identity_are_both_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(server: Served) -> None:
        one = server.agent(lineage="x", instance="1", machine={"host": "node1"})
        other = server.agent(lineage="y", instance="2", machine={"host": "node2"})
        async with one, other:
            for agent in (one, other):
                (notice,) = await agent.until(lambda agent=agent: agent.all("notice"))  # type: ignore[misc]
                assert notice.name == "identity"
                assert "on node1 and node2" in notice.text and "remove spool.db" in notice.text
        assert "two agents have the identity" in caplog.text

    run(work, tmp_path)


def test_stream_of_an_agent_that_has_gone_is_no_second_agent(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        gone = server.agent(answers=False, instance="1")
        async with gone, server.agent(instance="2") as agent:
            await agent.send(*SENT)
            await agent.until(lambda: agent.acked == len(SENT))
            await gone.until(lambda: gone.all("ping"))
            assert not agent.all("notice") and not gone.all("notice")

    run(work, tmp_path)


def test_agent_that_comes_back_is_no_second_agent(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent(instance="1") as old, server.agent(instance="1") as new:
            await new.until(lambda: len(new.all("ping")) > 2)
            await old.send(SENT[0])
            await old.until(lambda: old.acked == 1)
            assert not old.all("notice") and not new.all("notice")

    run(work, tmp_path)


def test_stream_that_is_over_leaves_nothing_to_the_search_for_cycles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = asyncio.Event()

    async def decode_for_ever(*_: object) -> None:
        began.set()
        await asyncio.Event().wait()

    def there() -> list[Any]:
        return [one for one in gc.get_objects() if type(one) in (AgentStream, pb.AgentMessage)]

    before = {id(one) for one in there()}  # of the other tests

    def left() -> list[Any]:
        return [one for one in there() if id(one) not in before]

    async def work(server: Served) -> None:
        async with server.agent() as agent:
            await agent.send(SENT[0])
            await began.wait()
            assert {type(one) for one in left()} == {AgentStream, pb.AgentMessage}
        while left():
            await asyncio.sleep(0.1)

    monkeypatch.setattr(service.IngestService, "_decode", decode_for_ever)
    gc.collect()
    gc.disable()
    try:
        run(work, tmp_path)
    finally:
        gc.enable()


def test_flood_of_one_stream_does_not_hold_up_another(tmp_path: Path) -> None:
    """With the disk held back: what the calm stream sends last is in the first group nonetheless."""

    async def work(server: Served) -> None:
        held, groups = asyncio.Event(), []
        real = server.committer._commit

        async def commit(group: Any) -> None:
            groups.append([waiting.stream.agent for waiting in group])
            await held.wait()
            await real(group)

        server.committer._commit = commit  # type: ignore[method-assign]
        committer.GROUP_BATCHES, before = 4, committer.GROUP_BATCHES
        try:
            many = training([rank("another")], batches=40, batch_ns=S)
            async with server.agent("greedy") as greedy, server.agent("calm") as calm:
                await greedy.send(*many)
                await greedy.until(lambda: groups)
                await calm.send(SENT[0])
                await calm.until(lambda: "calm" in {s.agent for s in server.committer._queue._waiting})
                held.set()
                await calm.until(lambda: calm.acked == 1)
                await greedy.until(lambda: greedy.acked == len(many))
        finally:
            committer.GROUP_BATCHES = before
        assert "calm" in groups[1]

    run(work, tmp_path)


def test_node_with_much_unsealed_waits_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(committer, "MAX_UNSEALED_BYTES", 1 << 20)
    monkeypatch.setattr(committer, "GROUP_BYTES", 1)
    monkeypatch.setattr(committer, "ROOM_LOOK_S", 0.001)

    async def work(server: Served) -> None:
        many = training(
            [rank("another", index=n) for n in range(64)], batches=60, batch_ns=S, sample_ns=S // 10
        )
        async with server.agent("greedy") as greedy, server.agent("calm") as calm:
            await calm.send(SENT[0])
            await calm.until(lambda: calm.acked == 1)
            await greedy.send(*many)
            await greedy.until(lambda: "agents that send more than others wait" in caplog.text)
            assert greedy.acked < len(many)
            await calm.send(SENT[1])
            await calm.until(lambda: calm.acked == 2)
            while greedy.acked < len(many):
                await asyncio.to_thread(server.store.seal)
                await asyncio.sleep(0.01)

    run(work, tmp_path)


def test_large_batch_is_decoded_like_a_small_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "IN_LOOP_BYTES", 0)

    async def work(server: Served) -> None:
        async with server.agent() as agent:
            bad = full_batch()
            bad.sequence = len(SENT) + 1
            bad.marks.step = b"1234567"
            await agent.send(*SENT, bad)
            await agent.until(lambda: agent.acked == len(SENT) and agent.all("rejection"))
            assert steps_seen(server) == 57

    run(work, tmp_path)


def test_agent_that_connects_while_the_catalog_fails_is_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(nodes: object, new: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def work(server: Served) -> None:
        hello = pb.AgentMessage(hello=pb.Hello(agent="a", protocol=2, boot="boot", machine={"host": "node1"}))
        with monkeypatch.context() as failing:
            failing.setattr(Catalog, "add_nodes", fail)
            for _ in range(3):
                error = await refusal(server, hello)
                assert "cannot store what this node reports" in (error.details() or "")
                assert "is full" in (error.details() or "")
        async with server.agent():
            pass

    run(work, tmp_path)
    assert [record.levelname for record in caplog.records if "cannot store" in record.message] == ["ERROR"]
    assert not any(record.exc_info for record in caplog.records)
