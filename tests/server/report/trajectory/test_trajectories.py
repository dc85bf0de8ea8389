from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from roofline.answers.machines import Ceiling
from roofline.answers.trajectory import Trajectory
from roofline.v1 import ingest_pb2 as pb
from roofline_server.errors import BadRequest, UnknownJob
from roofline_server.report.questions import ALL_STEPS, Steps
from roofline_server.report.trajectory.experiments import JobNote, pooled
from roofline_server.report.trajectory.trajectories import TrajectoryQuery, trajectory
from roofline_server.sentences import trajectories as sentences
from roofline_server.sentences.trajectories import of_jobs
from roofline_server.store.store import Store

from ...builders import (
    ABSENT,
    BEGIN,
    CUMULATIVE,
    DRAM,
    END,
    PEAK_F32,
    PEAK_F64,
    S,
    batch,
    calls,
    counter_set,
    kernel,
    marks,
    open_store,
    rank,
    samples,
)
from ..work import Host

FLOPS, BYTES = 4_000_000_000, 100_000_000  # of a step: intensity 40, at the ridge of PEAK_F32 and DRAM
STEP_NS = S // 10
STEPS = 10
PLACES = {name: Host(name) for name in "abcd"}
SEQUENCE = itertools.count(1)


def facts(rank_at: int, texts: Sequence[str]) -> list[pb.Event]:
    at_ns = 100 * S
    said = {"kind": pb.EVENT_KIND_FACT, "rank": rank_at, "begin_ns": at_ns, "end_ns": at_ns}
    return [pb.Event(text=text, **said) for text in texts]


def put(
    store: Store, host: Host, job: str, role: str, indices: Sequence[int], texts: Sequence[str], **how: Any
) -> None:
    """Ranks of a job on one host: STEPS steps of step_ns, each with one kernel; a ps only lives."""
    step_ns, examples, flops = how.get("step_ns", STEP_NS), how.get("examples", 32), how.get("flops", FLOPS)
    said, called, events = [], [], []
    end_ns = 100 * S + STEPS * step_ns
    for at, _ in enumerate(indices):
        events += facts(at, texts)
        if role == "ps":
            continue
        for k in range(STEPS):
            begin = 100 * S + k * step_ns
            said += [(at, BEGIN, k, ABSENT, begin), (at, END, k, examples, begin + step_ns)]
            called += [(at, 0, begin + 1000, step_ns // 2)]
        events.append(
            pb.Event(kind=pb.EVENT_KIND_KERNELS_COVERED, rank=at, begin_ns=100 * S, end_ns=end_ns + S)
        )
    host.greet(store)
    host.put(
        store,
        batch(
            next(SEQUENCE),
            100 * S,
            end_ns + S,
            ranks=[rank(job, role, index=i, pid=100 * len(role) + i) for i in indices],
            marks=marks(said),
            kernels=[kernel(flops, BYTES if flops else None, how.get("precision", "f32"))],
            calls=calls(called if flops else []),
            **_missing(how["misses"], end_ns) if "misses" in how else {},
            events=events if flops else [e for e in events if e.kind == pb.EVENT_KIND_FACT],
        ),
    )


def _missing(misses: int, end_ns: int) -> dict[str, Any]:
    """Cache misses of rank 0, so many bytes of them a step."""
    metrics = [("dram_bytes.llc_bound", CUMULATIVE, False)]
    read = [(0, t, ((t - 99 * S) * misses // STEP_NS,)) for t in range(99 * S, end_ns + 1, STEP_NS // 2)]
    return {"counter_sets": [counter_set("perf", metrics)], "samples": [samples(0, read, metrics)]}


def scaling(store: Store, job: str, nodes: int, slower: float, *tags: str, **how: Any) -> None:
    """A job with a worker on each of so many nodes and a ps on the first, whose steps take so much longer."""
    texts = [f"tag.experiment={how.pop('experiment', 'more')}", *tags]
    put(store, PLACES["a"], job, "ps", [0], texts)
    for index, host in enumerate(list(PLACES.values())[:nodes]):
        put(store, host, job, "worker", [index], texts, step_ns=int(STEP_NS * slower), **how)


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Jobs on 1, 2 and 4 nodes, whose steps take 1, 1.25 and 2 times as long. Tests add jobs of their own: to
    make all of it again for each takes long."""
    store = open_store(tmp_path_factory.mktemp("scaled"))
    for job, nodes, slower in (("4", 4, 2.0), ("1", 1, 1.0), ("2", 2, 1.25)):
        scaling(store, job, nodes, slower, f"tag.nodes={nodes}", experiment="scaling")
    yield store
    store.close()


def ask(
    store: Store, over: str = "nodes", *jobs: str, experiment: str = "scaling", **more: Any
) -> Trajectory:
    asked = {"steps": ALL_STEPS, **more}
    return trajectory(store, TrajectoryQuery("" if jobs else experiment, tuple(jobs), over, **asked))


def numbers(found: Trajectory, role: str = "worker") -> list[tuple[Any, ...]]:
    (one,) = [p for p in found.paths if p.role == role]
    return [
        (s.at, s.point.flops_per_second.value, s.throughput.value, s.speedup.value, s.efficiency.value)
        for s in one.stops
    ]


EXPECTED = [
    ("1", pytest.approx(40e9), pytest.approx(320), pytest.approx(1.0), pytest.approx(1.0)),
    ("2", pytest.approx(32e9), pytest.approx(512), pytest.approx(1.6), pytest.approx(0.8)),
    ("4", pytest.approx(20e9), pytest.approx(640), pytest.approx(2.0), pytest.approx(0.5)),
]


def test_workers_over_nodes(scaled: Store) -> None:
    found = ask(scaled)
    assert numbers(found) == EXPECTED, "FLOP/s of one node, throughput of the job"
    stops = found.paths[1].stops
    assert [s.jobs for s in stops] == [["1"], ["2"], ["4"]]
    assert [s.point.intensity.value for s in stops] == [pytest.approx(40)] * 3
    assert [s.step_time.value for s in stops] == [pytest.approx(t) for t in (0.1, 0.125, 0.2)]
    assert [s.point.headroom.value for s in stops] == [pytest.approx(4e12 / r) for r in (40e9, 32e9, 20e9)]
    assert found.paths[1].words.startswith(
        "from nodes 1 to 4 FLOP/s per node falls from 40 GFLOP/s to 20 GFLOP/s while intensity stays at 40"
    )
    assert (found.about.jobs, found.about.experiment, found.about.tags) == (
        ["1", "2", "4"],
        "scaling",
        {"experiment": "scaling"},
    )
    assert found.notes == []


def test_quantity_that_is_counted_gives_the_same_as_the_tag(scaled: Store) -> None:
    assert numbers(ask(scaled, "ranks")) == numbers(ask(scaled, "nodes")) == EXPECTED


def test_tag_goes_before_what_is_counted(scaled: Store) -> None:
    for job, said in (("said1", "8"), ("said2", "16")):
        scaling(scaled, job, 1, 1.0, f"tag.nodes={said}", experiment="said")
    assert [n[0] for n in numbers(ask(scaled, experiment="said"))] == ["8", "16"]


def test_order_of_jobs_says_nothing(scaled: Store) -> None:
    names = ["1", "2", "4"]
    expected = ask(scaled, "nodes", *names)
    for seed in range(5):
        random.Random(seed).shuffle(names)
        assert ask(scaled, "nodes", *names) == expected


def test_ps_has_no_point_but_the_jobs_throughput(scaled: Store) -> None:
    (ps,) = [p for p in ask(scaled).paths if p.role == "ps"]
    assert [s.throughput.value for s in ps.stops] == [pytest.approx(t) for t in (320, 512, 640)]
    assert [s.point.flops_per_second.value for s in ps.stops] == [None] * 3
    assert all(s.point.flops_per_second.reason for s in ps.stops)
    assert ps.words == "no stop has a point"


def test_only_the_roles_and_steps_asked_for(scaled: Store) -> None:
    found = ask(scaled, roles=("worker",), steps=Steps(0, 3))
    assert [p.role for p in found.paths] == ["worker"]
    assert numbers(found)[0][2] == pytest.approx(320)
    with pytest.raises(UnknownJob, match="'chief'; roles are ps, worker"):
        ask(scaled, roles=("chief",))
    with pytest.raises(BadRequest, match="the first comes after the last"):
        ask(scaled, steps=Steps(3, 1))


def test_jobs_with_one_value_are_pooled(scaled: Store) -> None:
    for job, slower in (("2b", 1.0), ("2c", 5.0)):
        scaling(scaled, job, 2, slower, "tag.nodes=2")
    found = ask(scaled, "nodes", "1", "2", "2b", "2c", "4")
    assert numbers(found) == EXPECTED
    assert found.paths[1].stops[1].jobs == ["2", "2b", "2c"]


def test_jobs_of_one_stop_that_differ_otherwise_are_named(scaled: Store) -> None:
    for job, batch_of in (("small", 32), ("large", 64)):
        scaling(scaled, job, 2, 1.0, "tag.nodes=2", f"tag.batch={batch_of}", "tag.net=lenet")
    found = ask(scaled, "nodes", "1", "small", "large")
    assert found.notes == [
        sentences.pooled("nodes", "2", ["large", "small"], [sentences.differing_tag("batch", ["32", "64"])])
    ]


def test_jobs_that_cannot_be_pooled_are_named(scaled: Store) -> None:
    scaling(scaled, "a-wide", 1, 1.0, "tag.nodes=1")
    put(scaled, PLACES["a"], "a-narrow", "worker", [0], ["tag.nodes=1"], precision="f64")
    found = ask(scaled, "nodes", "a-wide", "a-narrow", steps=Steps(3, 3))
    assert (
        sentences.mixed_precisions("worker", "nodes", "1", [("a-narrow", "f64"), ("a-wide", "f32")])
        in found.notes
    )
    assert sentences.single_steps("worker", "nodes", "1", ["a-narrow", "a-wide"]) in found.notes
    (worker,) = [path for path in found.paths if path.role == "worker"]
    (roof,) = found.roofs
    assert {line.precision for line in roof.lines if line.binding and line.kind == "compute"} <= {
        worker.stops[0].point.precision
    }


def test_tag_that_says_another_number_than_was_seen_is_noted(scaled: Store) -> None:
    scaling(scaled, "a-wrong", 1, 1.0, "tag.batch=128")
    scaling(scaled, "a-right", 1, 1.0, "tag.batch=32.0")
    said = sentences.tag_against_count("batch", "128", "32")
    assert ask(scaled, "batch", "a-wrong", "a-right").notes == [f"job a-wrong: {said}"]


def test_job_without_the_tag_is_left_out_and_named(scaled: Store) -> None:
    for job in ("1", "2"):
        scaling(scaled, f"tagged{job}", 1, float(job), f"tag.colour=c{job}")
    found = ask(scaled, "colour", "4", "tagged1", "tagged2")
    assert [s.jobs for s in found.paths[1].stops] == [["tagged1"], ["tagged2"]]
    assert sentences.of_jobs(["4"], sentences.left_out("worker", sentences.no_tag("colour"))) in found.notes
    stops = found.paths[1].stops
    assert [s.efficiency.value for s in stops] == [None, None]
    assert "not known to be an amount of resources" in stops[1].efficiency.reason


def test_tag_that_some_jobs_lack_is_counted_there_and_said_so(scaled: Store) -> None:
    scaling(scaled, "3", 3, 1.5)
    found = ask(scaled, "nodes", "1", "2", "3", "4")
    assert [n[0] for n in numbers(found)] == ["1", "2", "3", "4"]
    assert found.notes == [sentences.tag_of_some("nodes", ["3"])]


@pytest.mark.parametrize(("second", "intensity"), [(BYTES // 2, 40), (2 * BYTES, 20)], ids=["fewer", "more"])
def test_misses_count_only_where_they_are_more_than_the_bytes_of_tensors(
    scaled: Store, second: int, intensity: float
) -> None:
    jobs = [f"misses {second} {at}" for at in (1, 2)]
    for at, job in enumerate(jobs, 1):
        put(scaled, PLACES["a"], job, "worker", [0], [f"tag.batch={at}"], misses=(2 * BYTES, second)[at - 1])
    (found,) = ask(scaled, "batch", *jobs).paths
    assert found.stops[1].point.intensity.value == pytest.approx(intensity)
    assert {stop.point.level for stop in found.stops} == {"minimum" if intensity == 40 else "dram"}


def test_job_without_flops_is_a_stop_without_a_point(scaled: Store) -> None:
    scaling(scaled, "bare", 3, 1.5, "tag.nodes=3", flops=0)
    stop = ask(scaled, "nodes", "1", "2", "bare", "4").paths[1].stops[2]
    assert (stop.at, stop.point.flops_per_second.value) == ("3", None)
    assert stop.point.flops_per_second.reason and stop.throughput.value == pytest.approx(640)


def test_job_without_steps_and_flops_is_left_out(scaled: Store) -> None:
    put(scaled, PLACES["a"], "idle", "ps", [0], ["tag.nodes=9"])
    found = ask(scaled, "nodes", "1", "idle")
    assert [s.jobs for path in found.paths for s in path.stops] == [["1"], ["1"]]
    assert found.notes == [sentences.of_jobs(["idle"], sentences.left_out("ps", sentences.NOTHING_KNOWN))]


def test_where_nobody_says_examples_throughput_is_in_steps(scaled: Store) -> None:
    for job, nodes, slower in (("silent1", 1, 1.0), ("silent2", 2, 1.25)):
        scaling(scaled, job, nodes, slower, examples=ABSENT)
    stops = ask(scaled, "nodes", "silent1", "silent2").paths[1].stops
    assert [(s.throughput.value, s.throughput.unit) for s in stops] == [
        (pytest.approx(10), "steps/s"),
        (pytest.approx(8), "steps/s"),
    ]
    assert (stops[1].speedup.value, stops[1].efficiency.value) == (None, None), (
        "its steps may be twice the work"
    )


@pytest.mark.parametrize(
    ("over", "ats"),
    [
        ("ps", ["1", "1", "1"]),
        ("batch", ["8", "16", "32"]),
        ("threads", ["1", "2", "4"]),
        ("ranks_per_node", ["1", "2", "4"]),
        ("ranks", ["1", "2", "4"]),
        ("nodes", ["1", "1", "1"]),
    ],
)
def test_quantities_that_every_job_has(scaled: Store, over: str, ats: list[str]) -> None:
    jobs = ["many1", "many2", "many4"]
    for ranks, job in zip((1, 2, 4), jobs, strict=True):
        if job not in scaled.jobs():
            put(scaled, PLACES["a"], job, "ps", [0], [])
            texts = [f"setting.OMP_NUM_THREADS={ranks}"]
            put(scaled, PLACES["a"], job, "worker", range(ranks), texts, examples=8 * ranks)
    ps, worker = ask(scaled, over, *jobs).paths
    assert [s.at for s in worker.stops] == sorted(set(ats), key=int)
    if over == "ranks":
        assert [s.at for s in ps.stops] == ats, "those that train, though there is one ps"


def test_a_chief_that_coordinates_is_none_of_those_that_train(scaled: Store) -> None:
    for job, others in (("with", ["ps"]), ("without", [])):
        for role in ("chief", *others):
            put(scaled, PLACES["a"], job, role, [0], [])
        put(scaled, PLACES["a"], job, "worker", [0, 1], [])
    ats = {
        path.role: [stop.at for stop in path.stops] for path in ask(scaled, "ranks", "with", "without").paths
    }
    assert ats["worker"] == ["2", "3"]


def test_threads_that_differ_are_no_value(scaled: Store) -> None:
    put(scaled, PLACES["a"], "uneven", "worker", [0], ["setting.OMP_NUM_THREADS=1"])
    put(scaled, PLACES["b"], "uneven", "worker", [1], ["setting.OMP_NUM_THREADS=2"])
    found = ask(scaled, "threads", "uneven")
    assert found.paths == []
    why = sentences.left_out("worker", sentences.different_threads(["1", "2"]))
    assert found.notes == [sentences.of_jobs(["uneven"], why)]


def test_one_roof_per_machine_model_in_all_precisions(scaled: Store) -> None:
    late = tuple(c._replace(time_ns=7 * S) for c in (PEAK_F32, PEAK_F64, DRAM))
    slow: tuple[Ceiling, ...] = (PEAK_F32._replace(value=1e12), DRAM)
    old, new = Host("old", slow), Host("new", late)
    put(scaled, old, "old", "worker", [0], ["tag.kind=a"])
    put(scaled, new, "new", "worker", [0], ["tag.kind=b"], precision="f64")
    (roof,) = ask(scaled, "kind", "new", "old").roofs
    assert roof.host == "host-new"
    assert (
        "job old: the roof drawn is that of host-new in job new, but host-old has FP32 512-bit 1000.0 "
        "GFLOP/s: attainable FLOP/s use each job's own roof"
    ) in ask(scaled, "kind", "new", "old").notes
    assert {line.precision for line in roof.lines if line.kind == "compute"} == {"f32", "f64"}


def test_tag_of_which_ranks_differ_is_noted(scaled: Store) -> None:
    put(scaled, PLACES["c"], "torn", "worker", [0], ["tag.nodes=2"])
    put(scaled, PLACES["d"], "torn", "worker", [1], ["tag.nodes=3"])
    differs, against = ask(scaled, "nodes", "torn").notes
    assert differs.startswith("job torn: tag nodes differs: ")
    assert against == sentences.of_jobs(["torn"], sentences.tag_against_count("nodes", "3", "2"))


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        (TrajectoryQuery("nothing", (), "nodes"), UnknownJob, "no job is tagged experiment='nothing'"),
        (TrajectoryQuery("", ("1", "x"), "nodes"), UnknownJob, "no job 'x'; known are "),
        (TrajectoryQuery("", (), "nodes"), BadRequest, "of which jobs"),
        (TrajectoryQuery("scaling", ("1",), "nodes"), BadRequest, "of which jobs"),
        (
            TrajectoryQuery("scaling", (), "colour"),
            BadRequest,
            "'colour' is no tag of these jobs; their tags are nodes; every",
        ),
        (TrajectoryQuery("scaling", (), ""), BadRequest, "over what"),
    ],
)
def test_questions_that_cannot_be_answered(
    scaled: Store, asked: TrajectoryQuery, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        trajectory(scaled, asked)


@pytest.mark.slow
def test_answer_survives_sealing(scaled: Store) -> None:
    before = ask(scaled)
    scaled.seal()
    assert numbers(ask(scaled)) == numbers(before) == EXPECTED


def test_note_of_several_jobs_is_written_once() -> None:
    torn = [JobNote("torn", f"c{n}") for n in range(6)]
    notes = [JobNote("busy", "a"), JobNote("no job"), JobNote("busy", "b"), JobNote("late", "a"), *torn]
    assert pooled(notes) == [
        of_jobs(["a", "b"], "busy"),
        "no job",
        of_jobs(["a"], "late"),
        of_jobs([f"c{n}" for n in range(6)], "torn"),
    ]
