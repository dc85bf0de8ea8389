from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofline.v1 import ingest_pb2 as pb
from roofline_server.errors import BadBatch
from roofline_server.ingest.decode import decode, parse
from roofline_server.ingest.machine import decode_machine
from roofline_server.ingest.ranks import MAX_RANKS, ranks_of
from roofline_server.records import ABSENT, NODE_JOB, EventKind, KernelKind

from ..builders import (
    GAUGE,
    MS,
    PROCESS,
    S,
    batch,
    calls,
    counter_set,
    full_batch,
    marks,
    packed,
    rank,
    samples,
    spans,
)
from .decoding import NODE, Numbering, frames, lists


def test_good_batch_gives_one_frame_per_dataset() -> None:
    found = frames(full_batch())
    assert set(found) == {
        ("job", "samples_process"),
        ("job", "samples_perf"),
        ("job", "marks"),
        ("job", "calls"),
        ("job", "events"),
        (NODE_JOB, "events"),
    }


def test_samples_carry_rank_number_node_and_incarnation() -> None:
    assert lists(frames(full_batch())["job", "samples_process"]) == {
        "time_ns": [10 * S, 10 * S],
        "cpu_ns": [7, ABSENT],
        "rss_bytes": [70, 80],
        "rank": [100, 101],
        "node": [NODE, NODE],
        "start_ns": [5, 5],
    }


def test_kernel_is_on_a_gpu_if_its_agent_says_so_else_by_its_library() -> None:
    b = full_batch()
    b.kernels[0].library = "cuda"
    calls = frames(b)["job", "calls"]
    assert (calls["on_gpu"].tolist(), "counted" in calls) == ([1, 0], False)
    b.kernels[0].counted = False
    b.kernels[1].on_gpu = True
    calls = frames(b)["job", "calls"]
    assert (calls["on_gpu"].tolist(), calls["counted"].tolist()) == ([1, 1], [0, 1])


def test_absent_values_survive() -> None:
    found = frames(full_batch())
    assert found["job", "samples_process"]["cpu_ns"].tolist()[1] == ABSENT
    load = found["job", "samples_perf"]["load"]
    assert load.dtype == np.float64
    assert load[0] == 0.5
    assert np.isnan(load[1])
    assert found["job", "calls"]["flops"].tolist() == [1000, ABSENT]
    assert found["job", "calls"]["bytes"].tolist() == [100, ABSENT]
    assert not {"on_gpu", "counted"} & found["job", "calls"].keys()
    assert found["job", "marks"]["examples"].tolist() == [ABSENT, 32]


def test_events_of_the_node_say_what_it_watched_and_lost() -> None:
    node = frames(full_batch())[NODE_JOB, "events"]
    assert node["kind"].tolist() == [EventKind.BATCH, EventKind.LOST]
    assert node["time_ns"].tolist() == [10 * S, 10 * S]
    assert node["end_ns"].tolist() == [11 * S, 11 * S]
    assert node["count"].tolist() == [0, 3]
    assert node["text"].tolist() == ["", "marks"]
    assert node["node"].tolist() == [NODE, NODE]


def test_incarnations_and_exits_are_named() -> None:
    decoded = decode(full_batch(), NODE, Numbering())
    assert [(i.rank, i.node, i.pid, i.start_ns) for i in decoded.incarnations] == [
        (100, NODE, 100, 5),
        (101, NODE, 101, 5),
    ]
    assert [i.rank for i in decoded.exited] == [101]


def test_rank_that_only_a_coordinator_spoke_of_is_no_incarnation() -> None:
    decoded = decode(batch(ranks=[rank(pid=0)], marks=marks([(0, 1, 1, 1, S)])), NODE, Numbering())
    assert decoded.incarnations == []
    assert {f.job for f in decoded.frames} == {"job", NODE_JOB}


def test_jobs_of_one_batch_are_split() -> None:
    sent = batch(
        ranks=[rank("a"), rank("b"), rank("a", index=1)],
        counter_sets=[counter_set("process", PROCESS)],
        samples=[samples(0, [(0, 1, (1, 1)), (1, 2, (2, 2)), (2, 3, (3, 3)), (1, 4, (4, 4))], PROCESS)],
        marks=marks([(1, 1, 7, 1, S)]),
    )
    found = frames(sent)
    assert found["a", "samples_process"]["cpu_ns"].tolist() == [1, 3]
    assert found["b", "samples_process"]["cpu_ns"].tolist() == [2, 4]
    assert found["a", "samples_process"]["rank"].tolist() == [100, 102]
    assert ("a", "marks") not in found
    assert found["b", "marks"]["step"].tolist() == [7]


def test_phases_are_named() -> None:
    said = marks([(0, 4, 1, 1, S), (0, 5, 1, 1, 2 * S), (0, 1, 1, 1, S)])
    said.phase = packed([1, 0, -1])
    said.phases.extend(["input", "forward"])
    assert frames(batch(ranks=[rank()], marks=said))["job", "marks"]["phase"].tolist() == [
        "forward",
        "input",
        "",
    ]


def test_kind_of_event_this_version_does_not_know_is_ignored() -> None:
    sent = batch(ranks=[rank()], events=[pb.Event(kind=99, rank=0, begin_ns=S, end_ns=S)])  # type: ignore[arg-type]
    assert set(frames(sent)) == {(NODE_JOB, "events")}


def test_numbers_come_from_the_numbering_that_is_passed() -> None:
    first = decode(full_batch(), NODE, Numbering(100))
    second = decode(full_batch(), NODE, Numbering(200))
    assert [i.rank for i in first.incarnations] == [100, 101]
    assert [i.rank for i in second.incarnations] == [200, 201]


def _cut_rank_column(b: pb.Batch) -> None:
    b.samples[0].rank = b.samples[0].rank[:-1]


def _cut_value_column(b: pb.Batch) -> None:
    b.samples[0].columns[1] = b.samples[0].columns[1][:-3]


def _short_value_column(b: pb.Batch) -> None:
    b.samples[0].columns[0] = packed([1])


def _unequal_columns_of_the_same_total(b: pb.Batch) -> None:
    b.samples[0].columns[0] = packed([1])
    b.samples[0].columns[1] = packed([1, 2, 3])


def _column_missing(b: pb.Batch) -> None:
    del b.samples[0].columns[1]


def _column_too_many(b: pb.Batch) -> None:
    b.samples[0].columns.append(packed([1, 2]))


def _samples_of_no_rank(b: pb.Batch) -> None:
    b.samples[0].rank = packed([0, 2])


def _samples_of_rank_below_the_node(b: pb.Batch) -> None:
    b.samples[0].rank = packed([0, -2])


def _instance_beyond_the_instances(b: pb.Batch) -> None:
    b.samples[0].instance = packed([0, -1])


def _instances_fewer_than_rows(b: pb.Batch) -> None:
    b.instances.append("eth0")
    b.samples[0].instance = packed([0])


def _instance_without_a_name(b: pb.Batch) -> None:
    b.instances.append("")


def _samples_of_no_counter_set(b: pb.Batch) -> None:
    b.samples[0].counter_set = 2


def _sample_out_of_time(b: pb.Batch) -> None:
    b.samples[0].time_ns = packed([S, 2**62])


def _sample_before_time(b: pb.Batch) -> None:
    b.samples[0].time_ns = packed([S, ABSENT])


def _short_marks(b: pb.Batch) -> None:
    b.marks.step = packed([1])


def _marks_without_flags(b: pb.Batch) -> None:
    b.marks.flags = b""


def _mark_of_no_rank(b: pb.Batch) -> None:
    b.marks.rank = packed([0, 5])


def _mark_sent_by_no_rank(b: pb.Batch) -> None:
    b.marks.sender = packed([0, -2])


def _mark_of_no_phase(b: pb.Batch) -> None:
    b.marks.phase = packed([-1, 0])


def _mark_out_of_time(b: pb.Batch) -> None:
    b.marks.time_ns = packed([S, -(2**62)])


def _bad_phase_name(b: pb.Batch) -> None:
    b.marks.phases.append("a\nb")


def _call_of_no_kernel(b: pb.Batch) -> None:
    b.calls.kernel = packed([0, 2])


def _call_of_negative_kernel(b: pb.Batch) -> None:
    b.calls.kernel = packed([0, -1])


def _short_calls(b: pb.Batch) -> None:
    b.calls.duration_ns = packed([1])


def _call_of_no_rank(b: pb.Batch) -> None:
    b.calls.rank = packed([0, 2])


def _event_of_no_rank(b: pb.Batch) -> None:
    b.events[0].rank = 2


def _event_of_worse_rank(b: pb.Batch) -> None:
    b.events[0].rank = -2


def _event_out_of_time(b: pb.Batch) -> None:
    b.events[0].end_ns = 2**63 - 1


def _metric_twice(b: pb.Batch) -> None:
    b.counter_sets[0].metrics[1].name = "cpu_ns"


def _no_metrics(b: pb.Batch) -> None:
    b.counter_sets.add(name="nothing")


def _too_many_metrics(b: pb.Batch) -> None:
    b.counter_sets.append(counter_set("many", [(f"m{i}", GAUGE, False) for i in range(513)]))


def _metric_without_name(b: pb.Batch) -> None:
    b.counter_sets[0].metrics[0].name = ""


def _metric_with_control_character(b: pb.Batch) -> None:
    b.counter_sets[0].metrics[0].name = "cpu\0ns"


def _counter_set_that_is_no_word(b: pb.Batch) -> None:
    b.counter_sets[0].name = "../../etc"


def _job_without_name(b: pb.Batch) -> None:
    b.ranks[0].job = ""


def _job_with_newline(b: pb.Batch) -> None:
    b.ranks[0].job = "a\nb"


def _job_too_long(b: pb.Batch) -> None:
    b.ranks[0].job = "x" * 257


def _role_without_name(b: pb.Batch) -> None:
    b.ranks[1].role = ""


def _name_with_escape(b: pb.Batch) -> None:
    b.ranks[1].name = "\x1b[31m"


def _too_many_ranks(b: pb.Batch) -> None:
    b.ranks.extend(rank(index=i) for i in range(MAX_RANKS))


def _ends_before_it_begins(b: pb.Batch) -> None:
    b.end_ns = b.begin_ns - 1


def _begins_at_zero(b: pb.Batch) -> None:
    b.begin_ns = 0


def _ends_after_all_time(b: pb.Batch) -> None:
    b.end_ns = 2**62


SPOILERS = [
    value for name, value in sorted(globals().items()) if name.startswith("_") and hasattr(value, "__code__")
]


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda f: f.__name__)
def test_malformed_batch_is_refused_and_leaves_no_numbers(spoil: Callable[[pb.Batch], None]) -> None:
    sent = full_batch()
    spoil(sent)
    numbering = Numbering()
    with pytest.raises(BadBatch):
        decode(sent, NODE, numbering)
    assert numbering.given == []
    assert numbering.described == []


def test_there_are_spoilers() -> None:
    assert len(SPOILERS) == 43


@pytest.mark.parametrize("part", ["marks", "calls"])
def test_columns_beside_an_empty_rank_column_are_refused(part: str) -> None:
    sent = full_batch()
    getattr(sent, part).rank = b""
    with pytest.raises(BadBatch):
        decode(sent, NODE, Numbering())


@pytest.mark.parametrize("name", ["rank_at", "time_ns", "rank", "node", "start_ns", "step", "samples"])
def test_metric_cannot_be_named_as_a_column_of_ours(name: str) -> None:
    sent = full_batch()
    sent.counter_sets[0].metrics[0].name = name
    sent.samples[0].columns[0] = packed([10**9, 10**9])
    with pytest.raises(BadBatch):
        decode(sent, NODE, Numbering())


def test_counter_set_name_fits_a_directory() -> None:
    sent = full_batch()
    sent.counter_sets[0].name = "x" * 256
    with pytest.raises(BadBatch):
        decode(sent, NODE, Numbering())


def test_counter_set_cannot_take_the_name_of_the_kernel_table() -> None:
    sent = full_batch()
    sent.counter_sets[0].name = "kernels"
    with pytest.raises(BadBatch):
        decode(sent, NODE, Numbering())


@pytest.mark.parametrize("sequence", [0, 2**63, 2**64 - 1])
def test_sequence_is_one_the_inbox_can_hold(sequence: int) -> None:
    with pytest.raises(BadBatch):
        decode(batch(sequence), NODE, Numbering())


@pytest.mark.parametrize("duration", [-1, 2**63 - 1])
def test_call_of_impossible_duration_is_refused(duration: int) -> None:
    sent = full_batch()
    sent.calls.CopyFrom(calls([(0, 0, 10 * S, duration)]))
    with pytest.raises(BadBatch):
        decode(sent, NODE, Numbering())


def test_traffic_that_a_profiler_counted_is_kept_by_level() -> None:
    sent = full_batch()
    sent.kernels[0].l1_bytes, sent.kernels[0].l2_bytes = 70, 30
    kept = frames(sent)["job", "calls"]
    assert (kept["l1"].tolist(), kept["l2"].tolist()) == ([70, ABSENT], [30, ABSENT])
    assert "dram" not in kept


@pytest.mark.parametrize("field", ["flops", "bytes", "dram_bytes", "l1_bytes", "l2_bytes"])
def test_kernel_with_counts_below_zero_is_refused(field: str) -> None:
    sent = full_batch()
    setattr(sent.kernels[0], field, -1)
    with pytest.raises(BadBatch, match="below zero"):
        decode(sent, NODE, Numbering())


def test_sender_of_marks_is_a_rank_number() -> None:
    assert frames(full_batch())["job", "marks"]["sender"].tolist() == [100, 100]


def test_garbage_is_no_message() -> None:
    with pytest.raises(BadBatch):
        parse(b"\xff\xff\xff garbage")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_bytes_are_taken_or_refused_and_nothing_else(data: st.DataObject) -> None:
    raw = bytearray(pb.AgentMessage(batch=full_batch()).SerializeToString())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        kind = data.draw(st.sampled_from(("set", "cut", "insert")))
        if kind == "set":
            raw[at] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del raw[at : at + data.draw(st.integers(1, 9))]
        else:
            raw[at:at] = data.draw(st.binary(min_size=1, max_size=9))
        if not raw:
            return
    numbering = Numbering()
    try:
        decoded = decode(parse(bytes(raw)).batch, NODE, numbering)
    except BadBatch:
        assert numbering.given == []
        return
    for frame in decoded.frames:
        assert len({len(column) for column in frame.table.values()}) == 1


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1), st.integers(-(2**61), 2**61), st.integers(-(2**63), 2**63 - 1), st.floats()
        )
    )
)
def test_every_value_comes_through_as_it_was(sampled: list[tuple[int, int, int, float]]) -> None:
    metrics = [("a", GAUGE, False), ("b", GAUGE, True)]
    sent = batch(
        ranks=[rank(), rank(index=1)],
        counter_sets=[counter_set("x", metrics)],
        samples=[samples(0, [(r, t, (a, b)) for r, t, a, b in sampled], metrics)],
    )
    found = [f.table for f in decode(sent, NODE, Numbering()).frames if f.dataset == "samples_x"]
    values = lists(found[0]) if found else {"rank": [], "time_ns": [], "a": [], "b": []}
    assert values["rank"] == [100 + r for r, _, _, _ in sampled]
    assert values["time_ns"] == [t for _, t, _, _ in sampled]
    assert values["a"] == [a for _, _, a, _ in sampled]
    assert np.array_equal(np.array(values["b"]), np.array([b for *_, b in sampled]), equal_nan=True)


def test_machine_without_host_is_refused() -> None:
    with pytest.raises(BadBatch):
        decode_machine(pb.Hello(agent="a"))


def test_long_texts_of_a_hello_are_cut_and_its_lists_too() -> None:
    long = "x" * 100_000
    said = pb.Hello(
        machine={"host": "h", "cpu_model": long, "kernel": long, "ceilings": [{"name": long}] * 2000},
        sources=[{"name": long, "reason": long}] * 2000,
    )
    machine = decode_machine(said)
    assert (len(machine.cpu_model), len(machine.kernel)) == (256, 256)
    assert (len(machine.ceilings), len(machine.sources)) == (1024, 256)
    assert len(machine.ceilings[0].name) == len(machine.sources[0].reason) == 1024


def test_texts_that_the_catalog_keeps_are_cut_and_have_no_nul() -> None:
    sent, numbers = full_batch(), Numbering()
    sent.kernels[0].problem = sent.counter_sets[0].metrics[0].unit = "a\0b" + "x" * 5000
    decode(sent, NODE, numbers)
    kept = "a\N{REPLACEMENT CHARACTER}b"
    (kind,) = (one for one in numbers.given if isinstance(one, KernelKind) and one.problem.startswith(kept))
    assert (len(kind.problem), len(numbers.described[0].unit)) == (4096, 256)
    assert numbers.described[0].unit.startswith(kept)


@pytest.mark.parametrize(("jobs", "is_taken"), [(2, True), (130, False)])
def test_samples_of_a_node_with_very_many_jobs_are_refused_before_they_are_copied(
    jobs: int, is_taken: bool
) -> None:
    count = 10_000
    zeros = packed([0] * count)
    block = pb.Samples(rank=packed([-1] * count), time_ns=zeros, columns=[zeros] * 2)
    ranks = [rank(f"job{number}", pid=number + 1) for number in range(jobs)]
    sent = batch(
        ranks=ranks,
        counter_sets=[counter_set("x", [("a", GAUGE, False), ("b", GAUGE, False)])],
        samples=[block],
    )
    if is_taken:
        assert len(decode(sent, NODE, Numbering()).frames) == jobs + 1
    else:
        with pytest.raises(BadBatch, match="in each of its 130 jobs"):
            decode(sent, NODE, Numbering())


def test_long_text_is_cut() -> None:
    event = pb.Event(kind=pb.EVENT_KIND_LOST, rank=-1, begin_ns=S, end_ns=S + MS, text="x" * 10_000)
    (frame,) = decode(batch(events=[event]), NODE, Numbering()).frames
    assert len(frame.table["text"][1]) == 4096


# -- spans -----------------------------------------------------------------------------------------

ONE_SPAN = (0, "phase.input", 10 * S, 10 * S + MS, ABSENT, 1)


def with_spans(*found: tuple[int, str, int, int, int, int]) -> pb.Batch:
    return batch(ranks=[rank(), rank("other", pid=101)], spans=spans(found))


def test_spans_are_rows_of_their_ranks_job() -> None:
    found = frames(with_spans(ONE_SPAN, (1, "asked.allreduce", 10 * S, 10 * S, 4096, 3)))
    mine, other = found["job", "spans"], found["other", "spans"]
    assert mine["name"].tolist() == ["phase.input"]
    assert (mine["time_ns"].tolist(), mine["end_ns"].tolist()) == ([10 * S], [10 * S + MS])
    assert (mine["bytes"].tolist(), mine["count"].tolist()) == ([ABSENT], [1])
    assert (other["name"].tolist(), other["bytes"].tolist()) == (["asked.allreduce"], [4096])
    assert other["count"].tolist() == [3]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda s: s.names.__setitem__(0, "Phase.Input"), "named"),
        (lambda s: s.names.__setitem__(0, "phase"), "named"),
        (lambda s: s.names.__setitem__(0, "phase." + "x" * 64), "named"),
        (lambda s: s.names.extend(f"a.n{i}" for i in range(300)), "at most"),
        (lambda s: setattr(s, "name", packed([1])), "points outside"),
        (lambda s: setattr(s, "name", packed([-1])), "points outside"),
        (lambda s: setattr(s, "rank", packed([2])), "points outside"),
        (lambda s: setattr(s, "end_ns", packed([10 * S - 1])), "before it begins"),
        (lambda s: setattr(s, "end_ns", packed([2**62])), "out of range"),
        (lambda s: setattr(s, "count", packed([-1])), "out of range"),
        (lambda s: setattr(s, "count", packed([2**50])), "out of range"),
        (lambda s: setattr(s, "bytes", packed([-5])), "out of range"),
        (lambda s: setattr(s, "bytes", packed([2**60])), "out of range"),
        (lambda s: setattr(s, "bytes", packed([])), "different lengths"),
        (lambda s: setattr(s, "count", b"x" * 7), "multiple of 8"),
    ],
)
def test_span_that_cannot_be_is_refused(change: Callable[[Any], Any], word: str) -> None:
    sent = with_spans(ONE_SPAN)
    change(sent.spans)
    with pytest.raises(BadBatch, match=word):
        decode(sent, NODE, Numbering())


def test_names_that_are_too_many_for_a_job_become_other() -> None:
    numbers = Numbering()
    numbers.refused = {"phase.new", "phase.input"}
    sent = with_spans(ONE_SPAN, (0, "asked.allreduce", 10 * S, 10 * S, 1, 1))
    sent.marks.CopyFrom(marks([(0, 4, 1, ABSENT, 10 * S), (0, 5, 1, ABSENT, 11 * S)]))
    sent.marks.phase, sent.marks.phases[:] = packed([0, 0]), ["new"]
    found = {frame.dataset: frame.table for frame in decode(sent, NODE, numbers).frames}
    assert found["spans"]["name"].tolist() == ["phase.other", "asked.allreduce"]
    assert found["marks"]["phase"].tolist() == ["other", "other"]


def test_message_without_any_span_is_no_table() -> None:
    assert ("job", "spans") not in frames(with_spans())


def test_rank_tables_that_no_node_sends_any_more_are_not_kept() -> None:
    """One rank of a sweep ends and another begins: each time that is a table of all ranks."""
    ids: Any = Numbering()
    tables = [tuple(rank(index=at, pid=at).SerializeToString() for at in range(n, n + 4)) for n in range(50)]
    for one in tables:
        ranks_of(1, one, ids)
    assert list(ids.rank_tables[1]) == tables[-2:]
    live, backlog = (ranks_of(1, one, ids) for one in tables[-2:])
    assert ranks_of(1, tables[-2], ids) is live
    assert ranks_of(1, tables[-1], ids) is backlog
    assert ranks_of(2, tables[-1], ids) is not backlog
