"""What goes over the wire, decoded again."""

from __future__ import annotations

import math
import struct

from roofline.v1 import ingest_pb2 as pb
from roofline_agent.records import (
    ABSENT_INT,
    Batch,
    Call,
    CounterSet,
    Event,
    EventKind,
    KernelShape,
    Mark,
    Metric,
    MetricKind,
    Provenance,
    Rank,
    Sample,
    Scope,
)
from roofline_agent.uplink.encoding import doubles, encode, encode_within, ints

ONE = Rank("j", "worker", 0, 11, 100, "left", 2, "tf_config", 1000)
TWO = Rank("j", "worker", 1, 12, 200, "", 2, "tf_config", 1000)
CHIEF = Rank("j", "chief", 0, 13, 300, "", 1, "tf_config", 1000)
SHAPE = KernelShape("onednn", "convolution", "forward", "f32", "jit", "mb1", 10, None)
COUNTERS = CounterSet(
    "perf",
    (
        Metric("flops", MetricKind.CUMULATIVE, "FLOP", Scope.SOCKET, Provenance.ESTIMATED),
        Metric("flops.coverage", MetricKind.GAUGE, "1", is_double=True, coverage_of="flops"),
    ),
)


def decode(batch: Batch, sequence: int = 1) -> pb.Batch:
    message = pb.AgentMessage.FromString(encode(batch, sequence))
    assert message.WhichOneof("kind") == "batch"
    return message.batch


def whole(column: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(column) // 8}q", column))


def real(column: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(column) // 8}d", column))


def test_columns_are_little_endian_with_absent_values() -> None:
    assert ints([1, None, -2]) == struct.pack("<3q", 1, ABSENT_INT, -2)
    assert ints([]) == b""
    first, second = real(doubles([0.5, None]))
    assert first == 0.5 and math.isnan(second)


def test_number_that_a_column_cannot_hold_is_absent_and_costs_no_other() -> None:
    large = [2**63 - 1, 2**63, None, -(2**63) - 1, -(2**63) + 1, 2**70, float("nan"), float("inf"), 2.5]
    absent = ABSENT_INT
    expected = [2**63 - 1, absent, absent, absent, 1 - 2**63, absent, absent, absent, 2]
    assert whole(ints(large)) == expected  # type: ignore[arg-type]
    rows = [Sample(ONE, 5, (2**63, 0.5)), Sample(ONE, 6, (7, 0.5))]
    (block,) = decode(Batch(1, 10, {COUNTERS: rows})).samples
    assert whole(block.columns[0]) == [absent, 7]


def test_empty_batch() -> None:
    batch = decode(Batch(5, 9), 7)
    assert (batch.sequence, batch.begin_ns, batch.end_ns) == (7, 5, 9)
    assert not batch.HasField("marks") and not batch.HasField("calls")
    assert len(batch.ranks) == len(batch.samples) == len(batch.events) == 0


def test_samples_and_their_schema() -> None:
    rows = [Sample(TWO, 1, (10, 1.0)), Sample(ONE, 2, (None, None)), Sample(TWO, 3, (0, 0.0))]
    batch = decode(Batch(0, 9, {COUNTERS: rows}, ranks=[ONE, TWO]))
    (samples,) = batch.samples
    assert [batch.ranks[n].index for n in whole(samples.rank)] == [1, 0, 1]
    assert whole(samples.time_ns) == [1, 2, 3]
    assert whole(samples.columns[0]) == [10, ABSENT_INT, 0]
    coverage = real(samples.columns[1])
    assert (coverage[0], coverage[2]) == (1.0, 0.0) and math.isnan(coverage[1])
    schema = batch.counter_sets[samples.counter_set]
    flops, share = schema.metrics
    assert schema.name == "perf"
    assert (flops.name, flops.kind, flops.unit) == ("flops", pb.METRIC_KIND_CUMULATIVE, "FLOP")
    assert (flops.scope, flops.provenance, flops.is_double) == (2, 2, False)
    assert (share.kind, share.is_double, share.coverage_of) == (pb.METRIC_KIND_GAUGE, True, "flops")


def test_batch_is_never_larger_than_the_server_takes() -> None:
    rows = [Sample(ONE, time_ns, (1, 1.0)) for time_ns in range(1000)]
    mark = Mark(ONE, ONE, 3, 1, None, 5)
    batch = Batch(1, 2, {COUNTERS: rows}, [mark], ranks=[ONE])
    assert encode_within(batch, 1) == encode(batch, 1)
    for limit in (100_000_000, 10_000):
        message = pb.AgentMessage.FromString(encode_within(batch, 1, limit, "a" * 32, "boot of then"))
        assert (message.lineage, message.boot) == ("a" * 32, "boot of then")
    sent = pb.AgentMessage.FromString(encode_within(batch, 1, 10_000)).batch
    assert (len(sent.samples), len(whole(sent.marks.time_ns))) == (0, 1)
    assert [(e.kind, e.count) for e in sent.events] == [(EventKind.LOST, 1000)]


def test_two_counter_sets_keep_their_numbers() -> None:
    other = CounterSet("tcp", (Metric("sent", MetricKind.CUMULATIVE, "byte"),))
    samples = {other: [Sample(ONE, 1, (3,))], COUNTERS: [Sample(ONE, 1, (4, 1.0))]}
    batch = decode(Batch(0, 9, samples))
    assert [batch.counter_sets[s.counter_set].name for s in batch.samples] == ["tcp", "perf"]


def test_marks() -> None:
    marks = [
        Mark(ONE, CHIEF, 1, 7, None, 50, "", True),
        Mark(CHIEF, CHIEF, 4, -1, None, 51, "input"),
        Mark(CHIEF, CHIEF, 5, -1, None, 52, "input"),
        Mark(CHIEF, CHIEF, 2, 8, 0, 53),
    ]
    batch = decode(Batch(0, 9, marks=marks))
    sent = batch.marks
    assert [batch.ranks[n].role for n in whole(sent.rank)] == ["worker", "chief", "chief", "chief"]
    assert [batch.ranks[n].role for n in whole(sent.sender)] == ["chief"] * 4
    assert (whole(sent.kind), whole(sent.step)) == ([1, 4, 5, 2], [7, -1, -1, 8])
    assert whole(sent.examples) == [ABSENT_INT, ABSENT_INT, ABSENT_INT, 0]
    assert whole(sent.time_ns) == [50, 51, 52, 53]
    assert [sent.phases[n] if n >= 0 else "" for n in whole(sent.phase)] == ["", "input", "input", ""]
    assert whole(sent.flags) == [1, 0, 0, 0]


def test_calls_and_kernels_whose_work_is_not_modelled() -> None:
    bare = SHAPE._replace(flops=None, bytes=0)
    calls = [Call(ONE, SHAPE, 1, 2), Call(TWO, bare, 3, 4), Call(ONE, SHAPE, 5, 6)]
    batch = decode(Batch(0, 9, calls=calls))
    assert whole(batch.calls.kernel) == [0, 1, 0]
    assert [batch.ranks[n].index for n in whole(batch.calls.rank)] == [0, 1, 0]
    assert (whole(batch.calls.start_ns), whole(batch.calls.duration_ns)) == ([1, 3, 5], [2, 4, 6])
    first, second = batch.kernels
    assert (first.library, first.operation, first.flops, first.HasField("bytes")) == (
        "onednn",
        "convolution",
        10,
        False,
    )
    assert (second.HasField("flops"), second.HasField("bytes"), second.bytes) == (False, True, 0)


def test_bytes_of_levels_that_a_profiler_counted() -> None:
    counted = SHAPE._replace(l1_bytes=70, l2_bytes=0)
    batch = decode(Batch(0, 9, calls=[Call(ONE, counted, 1, 2)]))
    (sent,) = batch.kernels
    assert (sent.l1_bytes, sent.HasField("l2_bytes"), sent.l2_bytes) == (70, True, 0)
    assert not sent.HasField("dram_bytes"), "missing is not zero"


def test_where_a_kernel_ran_is_sent_where_its_library_does_not_say_so() -> None:
    calls = [Call(ONE, SHAPE, 1, 2), Call(ONE, SHAPE._replace(on_gpu=True, counted=False), 3, 4)]
    first, second = decode(Batch(0, 9, calls=calls)).kernels
    assert not first.HasField("on_gpu") and not first.HasField("counted")
    assert (second.on_gpu, second.HasField("counted"), second.counted) == (True, True, False)


def test_events() -> None:
    events = [Event(EventKind.LOST, 1, 2, None, 3, "marks"), Event(EventKind.RANK_EXITED, 4, 4, TWO)]
    batch = decode(Batch(0, 9, events=events))
    lost, exited = batch.events
    assert (lost.kind, lost.rank, lost.begin_ns, lost.end_ns, lost.count, lost.text) == (
        5,
        -1,
        1,
        2,
        3,
        "marks",
    )
    assert (exited.kind, batch.ranks[exited.rank].index) == (pb.EVENT_KIND_RANK_EXITED, 1)


def test_each_rank_is_described_once_and_wholly() -> None:
    marks = [Mark(ONE, ONE, 3, k, None, k) for k in range(5)]
    batch = decode(Batch(0, 9, {COUNTERS: [Sample(ONE, 1, (1, 1.0))]}, marks, ranks=[ONE]))
    (rank,) = batch.ranks
    assert (rank.job, rank.role, rank.index, rank.pid, rank.start_ns) == ("j", "worker", 0, 11, 100)
    assert (rank.name, rank.world, rank.framework) == ("left", 2, "tf_config")


def test_names_that_cannot_be_read_do_not_cost_the_batch() -> None:
    rank = Rank("j\n1", "wor\x1bker", 0, 5, name="a\tb")
    (sent,) = decode(Batch(1, 2, ranks=[rank])).ranks
    assert (sent.job, sent.role, sent.name) == ("j?1", "wor?ker", "a?b")


def test_enumerations_are_those_of_the_wire() -> None:
    for ours, prefix in [(EventKind, "EVENT_KIND_"), (MetricKind, "METRIC_KIND_")]:
        for member in ours:
            assert getattr(pb, prefix + member.name) == member.value


def test_names_are_as_the_server_takes_them_whatever_a_process_says() -> None:
    odd = Rank("j" * 300, "", 0, 11, 100, "n" * 300, launch="l" * 300, user="u\n" * 200)
    batch = decode(Batch(1, 10, {COUNTERS: [Sample(odd, 5, (1, 0.5), "9" * 300)]}))
    (rank,) = batch.ranks
    assert (len(rank.job), rank.role, len(rank.name), len(rank.launch)) == (256, "?", 256, 256)
    assert rank.user == "u?" * 128 and batch.instances == ["9" * 256]


def test_facts_are_left_out_where_they_alone_are_more_than_a_batch_holds() -> None:
    facts = [Event(EventKind.FACT, 5, 5, ONE, text=f"setting.{at}={'x' * 100}") for at in range(100)]
    batch = Batch(1, 10, {COUNTERS: [Sample(ONE, 5, (1, 0.5))]}, events=[*facts, exited()])
    data = encode_within(batch, 1, limit=2000)
    assert len(data) <= 2000
    events = pb.AgentMessage.FromString(data).batch.events
    kept = [(event.kind, event.count, event.text) for event in events]
    lost = EventKind.LOST.value
    assert kept == [
        (EventKind.RANK_EXITED.value, 0, ""),
        (lost, 1, "samples (more than a batch holds)"),
        (lost, 100, "facts (more than a batch holds)"),
    ]


def exited() -> Event:
    return Event(EventKind.RANK_EXITED, 9, 9, ONE)
