from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.traces import horovod

from .traces import format_of, found_in, phases, read, warned, whole

RECORDED = Path(__file__).parents[2] / "data" / "recorded" / "horovod" / "mpi_torch_2ranks.json.gz"


def begin(name: str, at_us: float, pid: int = 1) -> dict[str, Any]:
    return {"ph": "B", "name": name, "ts": at_us, "pid": pid}


def end(at_us: float, pid: int = 1, **args: str) -> dict[str, Any]:
    return {"ph": "E", "ts": at_us, "pid": pid, **({"args": args} if args else {})}


def tensor(pid: int, name: str) -> dict[str, Any]:
    return {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}


def found(events: list[dict[str, Any]]) -> Collector:
    return found_in(json.dumps(events), horovod.read)


def test_timeline_of_two_ranks() -> None:
    got = read(str(RECORDED))
    assert {**got.facts, "span_s": round(float(got.facts["span_s"]), 6), "collective_s": 0} == {
        "events": 3612,
        "tensors": 26,
        "ranks": 2,
        "cycles": 2210,
        "collectives": 78,
        "collective_s": 0,
        "span_s": 3.747074,
    }
    assert got.started_ns == 1795203538739350 * 1000
    assert phases(got)["MPI_ALLREDUCE"] == (120, 1.007195, None)
    assert got.warnings == []


def test_ends_belong_to_the_last_begin_of_their_tensor() -> None:
    got = found(
        [
            tensor(1, "a"),
            tensor(2, "b"),
            begin("ALLREDUCE", 100),
            begin("ALLREDUCE", 100, pid=2),
            begin("MPI_ALLREDUCE", 110),
            begin("MPI_ALLREDUCE", 110, pid=2),
            end(130),
            end(140, pid=2),
            end(150, pid=2, dtype="float32", shape="[10, 2]"),
            end(160, dtype="float16", shape="[8]"),
        ]
    )
    assert phases(got) == {"ALLREDUCE": (2, 110e-6, 96.0), "MPI_ALLREDUCE": (2, 50e-6, None)}
    assert got.facts["tensors"] == 2


def test_fused_tensors_are_one_collective() -> None:
    events = [begin("NCCL_ALLREDUCE", 10, pid) for pid in (1, 2, 3)] + [
        end(30 + pid, pid) for pid in (1, 2, 3)
    ]
    got = found([*events, begin("NCCL_ALLREDUCE", 50), end(60)])
    assert (got.facts["collectives"], got.facts["collective_s"]) == (2, pytest.approx(33e-6))


def test_bytes_are_told_only_where_every_collective_has_them() -> None:
    got = found([begin("ALLREDUCE", 1), end(2, dtype="float32", shape="[4]"), begin("ALLREDUCE", 3), end(4)])
    assert phases(got)["ALLREDUCE"] == (2, 2e-6, None)
    assert warned(got, "only 1 of 2 events of ALLREDUCE have bytes")


def test_ranks_are_the_numbers_that_events_are_named_by() -> None:
    ready = [whole(str(rank), 10 + rank, 0) for rank in (0, 1, 1, 2)]
    got = found([begin("NEGOTIATE_ALLREDUCE", 1), *ready, end(20)])
    assert got.facts["ranks"] == 3
    assert phases(got) == {"NEGOTIATE_ALLREDUCE": (1, 19e-6, None)}


def test_unknown_number_of_ranks_is_not_none_at_all() -> None:
    got = found([begin("ALLREDUCE", 1), end(2)])
    assert "ranks" not in got.facts
    assert warned(got, "no event names a rank")


def test_activities_that_did_not_end_are_counted_and_not_invented() -> None:
    got = found(
        [begin("NEGOTIATE_ALLREDUCE", 1), begin("ALLREDUCE", 5, pid=2), begin("QUEUE", 6, pid=2), end(9, 2)]
    )
    assert phases(got) == {"QUEUE": (1, 3e-6, None)}
    assert warned(got, "2 activities had not ended")


def test_end_without_begin_and_time_running_backwards_are_said() -> None:
    got = found([end(5), begin("NEGOTIATE_ALLREDUCE", 9), end(3), {"ph": "B", "name": "QUEUE", "pid": 1}])
    assert phases(got) == {}
    assert warned(got, "never began") and warned(got, "before it begins") and warned(got, "no time")


def test_activities_with_a_duration_count_too() -> None:
    got = found(
        [
            whole("NCCL_ALLREDUCE", 1, 4),
            whole("NCCL_ALLREDUCE", 9, 2),
            {"ph": "i", "name": "CYCLE_START", "ts": 2},
        ]
    )
    assert phases(got) == {"NCCL_ALLREDUCE": (2, 6e-6, None)}
    assert got.facts["cycles"] == 1


def test_timeline_is_told_from_a_pytorch_trace() -> None:
    assert format_of(json.dumps([begin("NEGOTIATE_ALLREDUCE", 1)])) == "horovod timeline"
    assert format_of('{"traceEvents": [{"ph": "i", "name": "CYCLE_START", "ts": 1}]}') == "horovod timeline"
    assert format_of(json.dumps([whole("NEGOTIATE_X", 1, 2, cat="cpu_op")])) == "pytorch profiler"
    assert horovod.sniff("NEGOTIATE_ALLREDUCE in some text") == 0


def test_file_cut_anywhere_gives_what_is_before_the_cut(tmp_path: Path) -> None:
    content = gzip.decompress(RECORDED.read_bytes())
    path = tmp_path / "cut.json"
    before = 0
    for size in range(40_000, len(content), 43_111):
        path.write_bytes(content[:size])
        got = read(str(path))
        assert int(got.facts["events"]) > before
        before = int(got.facts["events"])


def test_broken_gzip_stream_gives_what_is_before_the_break(tmp_path: Path) -> None:
    path = tmp_path / "cut.json.gz"
    shutil.copy(RECORDED, path)
    path.write_bytes(path.read_bytes()[:9000])
    got = read(str(path))
    assert int(got.facts["events"]) > 100
    assert warned(got, "gzip stream")


NAMES = ["ALLREDUCE", "NEGOTIATE_ALLREDUCE", "QUEUE", "MEMCPY_IN_FUSION_BUFFER"]


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 500)), max_size=12), st.data())
def test_activities_add_up_and_those_cut_off_are_counted(
    made: list[tuple[str, int]], data: st.DataObject
) -> None:
    """However tensors overlap and wherever the file ends: what had ended counts, and nothing else."""
    ends = [100 * at + lasts for at, (_, lasts) in enumerate(made)]
    begun = [begin(name, 100 * at, pid=at) for at, (name, _) in enumerate(made)]
    events = sorted([*begun, *(end(us, pid=at) for at, us in enumerate(ends))], key=lambda one: one["ts"])
    kept = events[: data.draw(st.integers(0, len(events)))]
    got = found_in("[" + ",\n".join(map(json.dumps, kept)), horovod.read)
    done = [made[one["pid"]] for one in kept if one["ph"] == "E"]
    sums = {name: sum(lasts for one, lasts in done if one == name) for name, _ in done}
    assert {one.name: round(one.time_s * 1e6) for one in got.phases} == sums
    assert sum(one.count for one in got.phases) == len(done)
    unfinished = len(kept) - 2 * len(done)
    assert warned(got, f"{unfinished} activities had not ended") == (unfinished > 0)
    assert got.facts["events"] == len(kept)


ODD = st.none() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=2) | st.booleans()
FIELDS = {
    **dict.fromkeys(("ts", "dur", "pid", "args"), ODD),
    "ph": st.sampled_from("BEXMis") | ODD,
    "name": st.sampled_from(["ALLGATHER", "NEGOTIATE_ALLGATHER", "CYCLE_START", "process_name", "0"]) | ODD,
}


@given(st.lists(st.fixed_dictionaries({}, optional=FIELDS), max_size=8))
def test_fields_of_any_type_cost_no_other_activity(events: list[dict[str, Any]]) -> None:
    mine = 7654321
    got = found([begin("ALLREDUCE", 1, mine), *events, end(3, mine, dtype="float32", shape="[4]")])
    assert phases(got)["ALLREDUCE"] == (1, 2e-6, 16.0)
    assert got.facts["events"] == len(events) + 2
    assert all(one.time_s >= 0 and one.count > 0 for one in got.phases)
