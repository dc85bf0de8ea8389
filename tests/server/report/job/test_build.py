from __future__ import annotations

from pathlib import Path

import pytest
from roofline.answers.machines import Ceiling, SourceStatus
from roofline.answers.report import RankReport, Report
from roofline.answers.values import Provenance, Scope
from roofline.v1 import ingest_pb2 as pb
from roofline_server.correlate.steps import NODE_SETS
from roofline_server.errors import BadRequest
from roofline_server.records import ClockSample
from roofline_server.report.evidence import ranks as evidence
from roofline_server.report.evidence.gathering import gather
from roofline_server.report.job.build import build, first_screen
from roofline_server.report.questions import ALL_STEPS, Steps
from roofline_server.report.ranks.summaries import summarize_job
from roofline_server.report.roofline.rooflines import of_roles
from roofline_server.sentences import reasons
from roofline_server.store.steps.sealed import SILENT_NS
from roofline_server.store.store import JobView, Store

from ...builders import (
    BEGIN,
    DRAM,
    END,
    MS,
    PEAK_F32,
    PEAK_F64,
    UNIX,
    Node,
    S,
    batch,
    kernel,
    marks,
    packed,
    rank,
    training,
)

A, B = Node("a", UNIX, "hosta"), Node("b", UNIX + 77 * S, "hostb")
WORKERS = [rank(index=0), rank(index=1, pid=101)]
OF_A = training(WORKERS, stepping=(0, 1))
OF_B = training([rank(role="ps", pid=201)], first_ns=23 * S, stepping=())
END_NS = 140 * S + UNIX


def view_of(store: Store, job: str = "job") -> JobView:
    found = store.view(job)
    assert found
    return found


def with_ceilings(view: JobView, *ceilings: Ceiling) -> JobView:
    """The view of a job all of whose nodes have these ceilings."""
    return view._replace(machines={n: m._replace(ceilings=ceilings) for n, m in view.machines.items()})


def report_of(store: Store, steps: Steps | None = None, now_ns: int = END_NS) -> Report:
    return build(view_of(store), steps or ALL_STEPS, now_ns)


def by_name(report: Report) -> dict[str, RankReport]:
    return {r.rank: r for r in report.ranks}


def filled(store: Store) -> Store:
    for node, sent in ((A, OF_A), (B, OF_B)):
        node.greet(store)
        node.put(store, *sent)
    return store


def value(report: Report, who: str, name: str) -> float | None:
    return by_name(report)[who].summary.values[name].value


def test_first_screen_is_the_report_without_its_tables(store: Store) -> None:
    whole = report_of(filled(store))
    screen = first_screen(view_of(store), ALL_STEPS, END_NS)
    tables = {"ranks", "roles", "points", "parts", "facts", "notes", "verdicts"}
    for name in whole._fields:
        if name not in tables:
            assert getattr(screen, name) == getattr(whole, name), name
    for one, same in zip([*screen.ranks, *screen.roles], [*whole.ranks, *whole.roles], strict=True):
        assert one._replace(summary=same.summary) == same
        assert one.summary.values.items() <= same.summary.values.items()


def test_of_steady_steps_a_report_is_made_once_for_each_state_of_a_view(store: Store) -> None:
    view = view_of(filled(store))
    assert build(view, now_ns=END_NS) is build(view, now_ns=END_NS + 1)
    later = build(view, now_ns=END_NS + 3_600 * S)
    assert build(view, now_ns=END_NS).running and not later.running
    assert build(view, ALL_STEPS, END_NS) is not build(view, ALL_STEPS, END_NS)
    assert first_screen(view, now_ns=END_NS) is first_screen(view, now_ns=END_NS)


def test_report_of_a_synchronous_job(store: Store) -> None:
    report = report_of(filled(store))
    assert (report.job, report.mode, report.running) == ("job", "synchronous", True)
    assert [r.rank for r in report.ranks] == ["ps:0", "worker:0", "worker:1"]
    assert [(r.role, r.ranks, r.hosts) for r in report.roles] == [
        ("ps", 1, ["hostb"]),
        ("worker", 2, ["hosta"]),
    ]
    assert {r.rank: r.windows for r in report.ranks} == {
        "ps:0": "workers (synchronous)",
        "worker:0": "own",
        "worker:1": "own",
    }
    assert (report.begin_ns, report.end_ns) == (100 * S + UNIX, END_NS)


def test_values_are_those_of_the_training(store: Store) -> None:
    report = report_of(filled(store))
    assert value(report, "worker:0", "steps") == 57
    assert value(report, "worker:0", "step_time_median") == pytest.approx(0.63)
    assert value(report, "worker:0", "examples_per_second") == pytest.approx(57 * 32 / (56 * 0.7 + 0.63))
    assert value(report, "worker:0", "cpu_utilization") == pytest.approx(0.5)
    assert value(report, "worker:0", "cpu_time_per_step") == pytest.approx(0.315)
    assert value(report, "worker:1", "sent_bytes_per_second") == pytest.approx(2e6)
    assert value(report, "worker:0", "flops_per_step") == 1000
    assert value(report, "worker:0", "intensity.minimum") == 10
    assert value(report, "ps:0", "steps") == 57
    assert value(report, "ps:0", "sent_bytes_per_second") == pytest.approx(1e6)


def test_sealing_changes_no_value(store: Store) -> None:
    before = report_of(filled(store))
    store.seal()
    assert report_of(store) == before


def test_range_of_steps_is_inclusive(store: Store) -> None:
    report = report_of(filled(store), Steps(10, 19))
    assert [value(report, who, "steps") for who in ("ps:0", "worker:0")] == [10, 10]
    assert (report.first_step, report.last_step) == (10, 19)
    assert value(report_of(store, Steps(first=50)), "worker:0", "steps") == 7
    assert value(report_of(store, Steps(last=4)), "worker:0", "steps") == 5


def test_range_without_steps_is_an_empty_report(store: Store) -> None:
    report = report_of(filled(store), Steps(1000, 2000))
    assert report.mode == "synchronous"  # of the job, whichever steps are asked for
    assert value(report, "worker:0", "steps") == 0
    why = next(r for r in report.ranks if r.rank == "worker:0").summary.values["flops_per_step"].reason
    assert why == reasons.none_in_range(0, 56)


def test_range_that_ends_before_it_begins_is_refused(store: Store) -> None:
    with pytest.raises(BadRequest, match="5 to 4"):
        report_of(filled(store), Steps(5, 4))


def test_asynchronous_marks_make_an_asynchronous_report(store: Store) -> None:
    filled(store)
    one = batch(9, 140 * S, 145 * S, ranks=WORKERS)
    one.marks.CopyFrom(marks([(0, BEGIN, 90, 1, 141 * S), (0, END, 90, 1, 142 * S)], asynchronous=True))
    A.put(store, one)
    report = report_of(store)
    assert report.mode == "asynchronous"
    assert by_name(report)["ps:0"].windows == "workers (asynchronous)"
    assert value(report, "ps:0", "steps") == 115


def test_evaluator_with_steps_of_its_own_leaves_training_synchronous(store: Store) -> None:
    filled(store)
    found = [(0, k, i, 1, (110 + i) * S + k * MS) for i in range(5) for k in (BEGIN, END)]
    B.put(store, batch(9, 63 * S, 70 * S, ranks=[rank(role="evaluator", pid=300)], marks=marks(found)))
    assert report_of(store).mode == "synchronous"


# -- running, gaps, clocks -------------------------------------------------------------------------


def test_job_runs_while_it_is_heard_of(store: Store) -> None:
    view = view_of(filled(store))
    assert build(view, now_ns=END_NS + 14 * S).running
    assert not build(view, now_ns=END_NS + 16 * S).running


def test_job_whose_ranks_all_ended_does_not_run(store: Store) -> None:
    filled(store)
    for node, sent, count in ((A, OF_A, 2), (B, OF_B, 1)):
        last = batch(9, sent[-1].end_ns, sent[-1].end_ns + S, ranks=sent[-1].ranks)
        for i in range(count):
            last.events.add(kind=pb.EVENT_KIND_RANK_EXITED, rank=i, begin_ns=last.end_ns, end_ns=last.end_ns)
        node.put(store, last)
    assert not report_of(store).running


def quality(report: Report) -> list[str]:
    """What the first screen says of its data."""
    assert report.verdict
    return report.verdict.quality


def test_watched_without_a_hole_there_is_no_gap(store: Store) -> None:
    report = report_of(filled(store))
    assert report.gaps == []
    assert not [note for note in report.notes if note.startswith("gap")]


def test_gap_after_a_restart_of_the_agent_is_stated(store: Store) -> None:
    filled(store)
    later = training(WORKERS, batches=1, first_ns=160 * S, first_sequence=9)[0]
    later.events.add(kind=pb.EVENT_KIND_AGENT_STARTED, rank=-1, begin_ns=160 * S, end_ns=160 * S)
    A.put(store, later)
    for _ in range(2):
        report = report_of(store)
        gap, silent = report.gaps
        assert (silent.host, silent.end_ns - silent.begin_ns) == ("hostb", 25 * S)
        assert (gap.host, gap.begin_ns, gap.end_ns) == ("hosta", 140 * S + UNIX, 160 * S + UNIX)
        assert "started again" in gap.reason
        assert any(note.startswith("gap: hosta was not watched for 20.0 s") for note in report.notes)
        assert "hosta not watched for 20 s" in quality(report)
        store.seal()


def test_gap_without_a_restart_is_dropped_batches(store: Store) -> None:
    A.greet(store)
    A.put(store, *(one for one in OF_A if one.sequence != 4))
    (gap,) = report_of(store).gaps
    assert (gap.begin_ns, gap.end_ns) == (115 * S + UNIX, 120 * S + UNIX)
    assert "dropped" in gap.reason


def test_gap_before_the_job_came_is_not_its_own(store: Store) -> None:
    A.greet(store)
    A.put(store, batch(1, S, 2 * S), *training(WORKERS, batches=2, first_sequence=2))
    assert report_of(store).gaps == []


def test_missing_steps_are_counted(store: Store) -> None:
    A.greet(store)
    A.put(store, *(one for one in OF_A if one.sequence != 4))
    assert any(
        n.startswith("worker:0: ") and "steps between 0 and 56 were not seen" in n
        for n in report_of(store).notes
    )
    assert any(said.endswith(" steps of worker:0, worker:1 not seen") for said in quality(report_of(store)))


def test_alignment_is_half_the_round_trip_and_what_a_clock_may_wander_between_two(store: Store) -> None:
    report = report_of(filled(store))
    assert [host for host, _ in report.alignment] == ["hosta", "hostb"]
    for _, error in report.alignment:
        assert error.value == pytest.approx(5e-5 + 5 * 15e-6, rel=0.05)
    assert not [n for n in report.notes if "clock" in n]


def test_badly_known_clock_is_noted(store: Store) -> None:
    A.greet(store, rtt_ns=200 * MS)
    A.put(store, *OF_A)
    (note,) = [n for n in report_of(store).notes if "clock of hosta" in n]
    assert "103.5" in note  # half the round trip and the drift that it leaves possible
    assert "16%" in note


def test_clock_nobody_measured_says_so(store: Store) -> None:
    A.put(store, *OF_A)
    ((host, error),) = report_of(store).alignment
    assert (host, error.value) == ("hosta", None)
    assert "ping" in error.reason


def test_clock_measured_after_steps_were_sealed_vouches_for_them(store: Store) -> None:
    A.put(store, *OF_A)
    store.seal()
    A.greet(store)
    ((_, error),) = report_of(store).alignment
    assert error.value == pytest.approx(5e-5 + 5 * 15e-6, rel=0.05)


def test_clock_measured_after_steps_were_stored_does_not_vouch_for_them(store: Store) -> None:
    A.put(store, *OF_A)
    B.greet(store)
    late = OF_A[-1].end_ns + SILENT_NS  # nobody waits for a node that was silent as long
    B.put(store, *training([rank(index=5)], first_ns=late))
    store.seal()
    A.greet(store)
    errors = dict(report_of(store).alignment)
    assert errors["hosta"].value is None
    assert "stored before" in errors["hosta"].reason


# -- who and where ---------------------------------------------------------------------------------


def test_worker_another_agent_watches_says_why_it_lacks_values(store: Store) -> None:
    A.greet(store)
    found = [(r, k, i, 1, (100 + i) * S + k * MS) for i in range(5) for k in (BEGIN, END) for r in (0, 1)]
    A.put(store, batch(1, 100 * S, 106 * S, ranks=[rank(role="chief"), rank(pid=0)], marks=marks(found)))
    report = report_of(store)
    assert value(report, "worker:0", "steps") == 5
    worker = by_name(report)["worker:0"]
    assert (worker.pid, worker.host) == (0, "")
    assert "no agent watches" in worker.summary.values["cpu_utilization"].reason


def test_rank_that_moved_is_shown_on_its_new_host(store: Store) -> None:
    new = Node("b", UNIX + 1000 * S, "hostb")  # booted later: its node time is smaller
    A.greet(store)
    new.greet(store)
    A.put(store, *training(WORKERS[:1], first_ns=1000 * S))
    new.put(store, *training([rank(pid=555)], first_ns=100 * S))
    (report,) = report_of(store).ranks
    assert (report.host, report.pid) == ("hostb", 555)


def test_roof_is_of_the_node_and_its_line_is_noted_when_it_is_missing(store: Store) -> None:
    A.greet(store)
    A.put(store, *OF_A)
    assert [roof.host for roof in report_of(store).roofs] == ["hosta"]
    (point, _) = report_of(store).points
    assert (point.label, point.intensity, point.level) == ("worker:0", 10, "minimum")
    report = build(with_ceilings(view_of(store)), now_ns=END_NS)
    assert value(report, "worker:0", "roof_share") is None
    assert any("hosta was never calibrated" in note for note in report.notes)


def test_each_rank_is_held_against_the_roof_of_its_own_precision(store: Store) -> None:
    sent = training(WORKERS, batches=2, stepping=(0,)) + training(
        [rank(role="evaluator")], batches=2, first_ns=110 * S, first_sequence=3
    )
    for one in sent[2:]:
        one.kernels[0].CopyFrom(kernel(10, 1, "f64"))
    A.greet(store)
    A.put(store, *sent)
    report = build(with_ceilings(view_of(store), PEAK_F32, PEAK_F64, DRAM._replace(value=1e15)))
    found = {r.rank: r.summary.values["attainable_flops_per_second"].value for r in report.ranks}
    # Both compute on this node: each has half of it.
    assert (found["worker:0"], found["evaluator:0"]) == (PEAK_F32.value / 2, PEAK_F64.value / 2)


def test_share_of_the_roof_is_one_number_in_the_report_and_in_the_roofline(store: Store) -> None:
    view = with_ceilings(view_of(filled(store)), PEAK_F32, DRAM)
    report = build(view, ALL_STEPS, END_NS)
    ((_, point),) = [
        pair for pair in of_roles(view, gather(view, ALL_STEPS).evidence) if pair[1].role == "worker"
    ]
    share = next(role.summary.values["roof_share"] for role in report.roles if role.role == "worker").value
    assert share is not None and point.headroom.value == pytest.approx(1 / share)
    assert share < 0.005  # "less than 1%", not 0 %
    assert report.verdict is not None and "worker at less than 1% of" in report.verdict.roofline[0]


def test_what_was_lost_is_summed_and_noted(store: Store) -> None:
    filled(store)
    for number in (9, 10):
        one = batch(number, (131 + number) * S, (132 + number) * S, ranks=WORKERS)
        one.events.add(kind=pb.EVENT_KIND_LOST, rank=0, begin_ns=S, end_ns=S, count=3, text="marks")
        A.put(store, one)
    assert "lost: 6 marks" in report_of(store).notes
    assert "lost: 6 marks" in quality(report_of(store))


def test_what_a_node_lost_long_before_the_job_is_not_noted(store: Store) -> None:
    A.greet(store)
    old = batch(1, S, 2 * S)
    old.events.add(kind=pb.EVENT_KIND_LOST, rank=-1, begin_ns=S, end_ns=S, count=3, text="samples")
    A.put(store, old, *training(WORKERS, first_ns=100_000 * S, first_sequence=2))
    assert not [n for n in report_of(store).notes if "samples" in n and n.startswith("lost")]


def test_absences_are_noted_once_per_reason(store: Store) -> None:
    notes = [n for n in report_of(filled(store)).notes if n.startswith("not measured for")]
    assert len(notes) == len(set(notes))
    (wrapped,) = [n for n in notes if "roofline-agent run" in n and "flops_per_step," in n]
    assert wrapped.startswith("not measured for ps:0 (")


def test_summary_of_a_job(store: Store) -> None:
    found = summarize_job(store.overview("job") if filled(store) else view_of(store), END_NS)
    assert found.roles == {"ps": 1, "worker": 2}
    assert found.hosts == ["hosta", "hostb"]
    assert (found.begin_ns, found.end_ns, found.running) == (100 * S + UNIX, END_NS, True)


def test_steps_done_again_after_a_restart_do_not_stretch_the_servers_steps(store: Store) -> None:
    filled(store)
    A.put(store, *training(WORKERS, batches=8, first_ns=1000 * S, stepping=(0, 1), first_sequence=9))
    B.put(store, *training([rank(role="ps", pid=201)], first_ns=923 * S, stepping=(), first_sequence=9))
    report = report_of(store)
    assert report.mode == "synchronous"
    assert value(report, "ps:0", "step_time_p95") == pytest.approx(0.63, rel=0.01)


def test_correction_of_a_clock_is_in_the_report(store: Store) -> None:
    A.greet(store, rtt_ns=50 * MS)
    A.put(store, *OF_A)
    before = report_of(store).begin_ns
    store.add_clock_sample(A.number(store), ClockSample(100 * S, UNIX + 20 * MS, 1000))
    assert report_of(store).begin_ns == before + 20 * MS


# -- what nodes count --------------------------------------------------------------------------------

COUNTED_BY_NODES = {
    "node": ("node_cpu_busy_ns", Scope.NODE),
    "rapl": ("energy_package_joules", Scope.SOCKET),
    "resctrl": ("dram_total_bytes", Scope.SOCKET),
}


def node_batches(training_: list[pb.Batch]) -> list[pb.Batch]:
    """The same batches, and with them the node's CPU, which ran twice what each worker took (one core in
    all), and its two sockets, each of which used 50 W and moved 1 GB/s."""
    for one in training_:
        for name, (one_metric, scope) in COUNTED_BY_NODES.items():
            one.counter_sets.append(
                pb.CounterSet(
                    name=name,
                    metrics=[
                        pb.Metric(
                            name=one_metric,
                            kind=1,
                            unit="1",
                            scope=scope.number,
                            provenance=1,
                            is_double=True,
                        )
                    ],
                )
            )
        one.instances.extend(["socket 0", "socket 1"])
        for at, name in enumerate(COUNTED_BY_NODES):
            parts = [-1] if name == "node" else [0, 1]
            rate = {"node": 1.0, "rapl": 50 / S, "resctrl": 1.0}[name]
            moments = range(one.begin_ns, one.end_ns, S)
            one.samples.add(
                counter_set=len(one.counter_sets) - len(COUNTED_BY_NODES) + at,
                rank=packed([-1] * len(parts) * len(moments)),
                instance=packed(parts * len(moments)),
                time_ns=packed(t for t in moments for _ in parts),
                columns=[packed((t * rate for t in moments for _ in parts), double=True)],
            )
    return training_


@pytest.fixture
def with_nodes(store: Store) -> Store:
    A.greet(store)
    A.put(store, *node_batches(training(WORKERS, stepping=(0, 1))))
    return store


@pytest.mark.parametrize("sealed", [False, True])
def test_socket_counters_are_shared_out_by_cpu_time(with_nodes: Store, sealed: bool) -> None:
    if sealed:
        with_nodes.seal()
    report = report_of(with_nodes)
    # Each worker has half of the node's CPU time; a step takes 0.63 s.
    assert value(report, "worker:0", "bytes_per_step.dram") == pytest.approx(0.5 * 2e9 * 0.63)
    assert value(report, "worker:0", "dram_bytes_per_second") == pytest.approx(1e9)
    assert value(report, "worker:1", "power") == pytest.approx(50)
    assert value(report, "worker:1", "energy_per_step") == pytest.approx(0.5 * 100 * 0.63)
    assert value(report, "worker:0", "intensity.dram") == pytest.approx(1000 / (1e9 * 0.63))
    assert value(report, "worker:0", "flops_per_joule") == pytest.approx(1000 / (50 * 0.63))
    shared = by_name(report)["worker:0"].summary.values["bytes_per_step.dram"]
    assert shared.provenance == Provenance.ESTIMATED
    assert "CPU time" in shared.reason
    assert [(p.level, p.intensity) for p in report.points] == 2 * [
        ("dram", pytest.approx(value(report, "worker:0", "intensity.dram")))
    ]
    role = report.roles[0].summary.values
    assert role["power"].value == pytest.approx(100)
    assert role["dram_bytes_per_second"].value == pytest.approx(2e9)


def test_parts_stand_in_the_report_sealed_or_not(with_nodes: Store) -> None:
    before = report_of(with_nodes).parts
    with_nodes.seal()
    assert report_of(with_nodes).parts == before
    found = {(p.host, p.rank, p.instance, p.source): p.values for p in before}
    assert list(found) == [
        ("hosta", "", "", "node"),
        ("hosta", "", "socket 0", "rapl"),
        ("hosta", "", "socket 0", "resctrl"),
        ("hosta", "", "socket 1", "rapl"),
        ("hosta", "", "socket 1", "resctrl"),
    ]
    moved = found["hosta", "", "socket 0", "resctrl"]
    assert moved["dram_total_bytes.per_second"].value == pytest.approx(1e9)
    assert moved["dram_total_bytes"].scope == Scope.SOCKET


def test_node_that_two_jobs_share_counts_in_both(store: Store) -> None:
    A.greet(store)
    shared = [rank(), rank(job="other", pid=101)]
    A.put(store, *node_batches(training(shared, stepping=(0, 1))))
    for job in ("job", "other"):
        found = {
            p.source: p.values
            for p in build(view_of(store, job), now_ns=END_NS).parts
            if p.instance != "socket 1"
        }
        assert found["resctrl"]["dram_total_bytes.per_second"].value == pytest.approx(1e9), job


def test_without_counters_of_the_node_the_reasons_name_the_sources(store: Store) -> None:
    values = by_name(report_of(filled(store)))["worker:0"].summary.values
    assert values["bytes_per_step.dram"].value is None
    assert values["bytes_per_step.dram"].reason == reasons.no_source("DRAM traffic")
    assert values["power"].reason == "no source on this node reads energy"


def counted_by_perf(sent: list[pb.Batch], amx_per_s: float) -> list[pb.Batch]:
    """The same batches, in which perf counted 1 GFLOP/s in 256 bits, half of the time, and 2 in 512 bits, a
    quarter of the time."""
    names = ("flops.f32.256", "flops.f32.512", "amx_busy_cycles")
    for one in sent:
        metrics = [pb.Metric(name=name, kind=1, unit="FLOP", is_double=True) for name in names]
        metrics += [
            pb.Metric(name=f"{name}.coverage", kind=2, unit="1", is_double=True, coverage_of=name)
            for name in names
        ]
        one.counter_sets.append(pb.CounterSet(name="perf", metrics=metrics))
        times = range(one.begin_ns, one.end_ns, S)
        columns = [[t * rate for t in times] for rate in (1.0, 2.0, amx_per_s)]
        columns += [[share] * len(times) for share in (0.5, 0.25, 1.0)]
        one.samples.add(
            counter_set=len(one.counter_sets) - 1,
            rank=packed([0] * len(times)),
            time_ns=packed(times),
            columns=[packed(column, double=True) for column in columns],
        )
    return sent


@pytest.mark.parametrize("amx", [0.0, 1.0])
def test_flops_by_perf_add_up_with_the_least_coverage(store: Store, amx: float) -> None:
    A.greet(store)
    A.put(store, *counted_by_perf(training(WORKERS, stepping=(0, 1)), amx))
    store.seal()
    found = by_name(report_of(store))["worker:0"].summary.values["flops_per_second.measured"]
    assert found.value == pytest.approx(3e9)
    assert found.coverage == pytest.approx(0.25, rel=0.05)
    assert ("AMX" in found.reason) == bool(amx)
    assert value(report_of(store), "worker:1", "flops_per_second.measured") is None


def test_every_shared_counter_is_cut_at_steps() -> None:
    assert {*evidence.DRAM, *evidence.ENERGY, *evidence.BUSY} <= set(NODE_SETS)


def test_damaged_file_is_named_and_costs_its_own_rows_alone(store: Store, tmp_path: Path) -> None:
    filled(store)
    store.seal()
    whole = by_name(report_of(store))["worker:0"].summary.values
    (damaged,) = [
        path
        for path in (tmp_path / "data" / "segments").rglob("*.parquet")
        if path.parent.name == "steps_process"
    ]
    content = damaged.read_bytes()
    damaged.write_bytes(content[: len(content) // 2])
    report = report_of(store)
    left = by_name(report)["worker:0"].summary.values
    assert left["steps"].value == whole["steps"].value
    assert left["flops_per_step"].value == whole["flops_per_step"].value
    assert report.verdict is not None
    (line,) = [line for line in report.verdict.quality if "damaged" in line]
    assert str(damaged.relative_to(tmp_path / "data")) in line
    A.put(store, *training([rank("other", index=0)], first_sequence=100))
    store.seal()  # other data are sealed as ever
    assert view_of(store, "other").steps


def test_source_that_was_found_off_is_noted_with_its_node(store: Store) -> None:
    view = view_of(filled(store))
    why = "cpu_ns was 20 % too low by `roofline-agent validate` on 2026-11-25"
    machines = {
        node: m._replace(sources=(SourceStatus("perf", True, "", "", "", why if m.host == "hosta" else ""),))
        for node, m in view.machines.items()
    }
    notes = build(view._replace(machines=machines), ALL_STEPS, END_NS).notes
    assert [note for note in notes if "validate" in note] == [
        f"perf of hosta is doubtful, its values are marked as estimated: {why}"
    ]
    assert not any("validate" in note for note in report_of(store).notes)
