from __future__ import annotations

from collections.abc import Sequence

import pytest
from roofline.answers.machines import Ceiling
from roofline.answers.roofline import Roofline, RoofPoint
from roofline.answers.values import Provenance
from roofline.v1 import ingest_pb2 as pb
from roofline_server.errors import BadRequest, UnknownRank, UnknownSteps
from roofline_server.records import ABSENT
from roofline_server.report.job.build import build
from roofline_server.report.questions import ALL_STEPS, Steps, Subject
from roofline_server.report.roofline.rooflines import needed, roofline
from roofline_server.sentences import network, points, reasons
from roofline_server.sentences import rooflines as texts
from roofline_server.store.catalog.machine_versions import LateCeilings
from roofline_server.store.store import Store
from roofline_server.store.view import JobView

from ...builders import DRAM, MS, PEAK_F32, PEAK_F64, STEP_NS, UNIX, Node, S, kernel, rank, spans, training

A, B = Node("a", UNIX, "hosta"), Node("b", UNIX + 77 * S, "hostb")
WORKERS = [rank(index=0), rank(index=1, pid=101)]
NET = Ceiling("net.tcp", "network", "network", "", 0, 1e9, "byte/s", 0, "", 0, peer="hostb")
L2 = DRAM._replace(name="l2.read", level="l2", value=1e12)
EVERY = (PEAK_F32, PEAK_F64, DRAM, L2, NET)


def filled(store: Store, kernels: Sequence[pb.Kernel] = (), stepping: Sequence[int] = (0, 1)) -> None:
    """Two workers on one node, a parameter server on another; one kernel a step, of 10 GFLOP by default."""
    A.greet(store)
    sent = training(WORKERS, stepping=stepping)
    for one in sent:
        del one.kernels[:]
        one.kernels.extend(kernels or [kernel(10**10, 10**8)])
    A.put(store, *sent)
    B.greet(store)
    B.put(store, *training([rank(role="ps", pid=201)], first_ns=23 * S, stepping=()))


def view_of(
    store: Store, kind: str = "classic", points: str = "rank", ceilings: Sequence[Ceiling] = EVERY
) -> JobView:
    view = store.view("job", needed(kind, points))
    assert view
    return view._replace(machines={n: m._replace(ceilings=tuple(ceilings)) for n, m in view.machines.items()})


def asked(
    store: Store,
    kind: str = "classic",
    points: str = "rank",
    steps: Steps = ALL_STEPS,
    ranks: tuple[str, ...] = (),
    ceilings: Sequence[Ceiling] = EVERY,
) -> Roofline:
    view = view_of(store, kind, points, ceilings)
    return roofline(store, view, Subject("job", steps, ranks), kind, points)


def by_label(found: Roofline) -> dict[str, RoofPoint]:
    assert len({p.label for p in found.points}) == len(found.points)
    return {p.label: p for p in found.points}


def same(one: float | None, other: float) -> bool:
    return one == pytest.approx(other)


# -- ranks and roles --------------------------------------------------------------------------------------


def test_rank_is_a_point_under_its_node(store: Store) -> None:
    filled(store)
    found = asked(store)
    point = by_label(found)["worker:0"]
    assert (point.kind, point.role, point.rank, point.host, point.device) == (
        "rank", "worker", "worker:0", "hosta", ""
    )  # fmt: skip
    assert (point.level, point.precision, point.bound) == ("minimum", "f32", "peak.f32.512")
    assert same(point.intensity.value, 100) and same(point.flops_per_second.value, 1e10 / 0.63)
    # Two ranks compute on the node: each has half of its 4e12 FLOP/s.
    assert same(point.attainable.value, 2e12) and same(point.headroom.value, 2e12 / (1e10 / 0.63))
    assert point.attainable.reason.startswith("1/2 of the roof")
    assert same(point.time.value, 57 * 0.63)
    assert point.flops_spread and (point.flops_spread.count, point.incomplete) == (57, "")
    assert point.intensity_spread and same(point.intensity_spread.p95, 100)
    assert (found.kind, found.about.jobs, found.crossings) == ("classic", ["job"], [])


def test_rank_without_flops_is_there_and_says_why(store: Store) -> None:
    filled(store)
    point = by_label(asked(store))["ps:0"]
    assert (point.intensity.value, point.flops_per_second.value, point.bound) == (None, None, "")
    assert "not started by `roofline-agent run`" in point.words


def test_points_are_the_same_as_in_the_report(store: Store) -> None:
    filled(store)
    report = {r.rank: r.summary for r in build(view_of(store)).ranks}
    for point in asked(store).points:
        summary = report[point.rank]
        share = summary.values["roof_share"].value
        assert (point.bound, point.attainable) == (
            summary.bound,
            summary.values["attainable_flops_per_second"],
        )
        assert share is None if point.headroom.value is None else same(share, 1 / point.headroom.value)


def test_ranks_of_a_role_on_one_node_add_up_against_it(store: Store) -> None:
    filled(store)
    found = by_label(asked(store, points="role"))
    assert set(found) == {"worker", "ps"}
    worker = found["worker"]
    assert (worker.host, worker.rank, worker.kind) == ("hosta", "", "role")
    assert same(worker.flops_per_second.value, 2e10 / 0.63) and same(worker.attainable.value, 4e12)
    assert "the node's roof is shared by 2 ranks" in worker.words
    assert worker.flops_spread and same(worker.flops_spread.p50, 2e10 / 0.63)


def test_role_on_two_nodes_has_a_point_on_each(store: Store) -> None:
    A.greet(store)
    A.put(store, *training([rank(index=0)], stepping=(0,)))
    B.greet(store)
    B.put(store, *training([rank(index=1, pid=201)], first_ns=23 * S, stepping=(0,)))
    found = asked(store, points="role")
    assert [(p.label, p.host) for p in found.points] == [
        ("worker on hosta", "hosta"),
        ("worker on hostb", "hostb"),
    ]
    assert [roof.host for roof in found.roofs] == ["hosta", "hostb"]


def test_only_ranks_and_steps_asked_for_count(store: Store) -> None:
    filled(store)
    found = asked(store, ranks=("worker:1",), steps=Steps(10, 19))
    (point,) = found.points
    assert (point.rank, point.flops_spread and point.flops_spread.count) == ("worker:1", 10)
    assert [roof.host for roof in found.roofs] == ["hosta"]
    with pytest.raises(UnknownRank, match="worker:9"):
        asked(store, ranks=("worker:9",))


def test_one_step_alone_has_no_spread(store: Store) -> None:
    filled(store)
    point = by_label(asked(store, steps=Steps(7, 7)))["worker:0"]
    assert (point.flops_spread, point.intensity_spread) == (None, None)
    assert same(point.flops_per_second.value, 1e10 / 0.63) and point.bound


def test_hosts_without_ceilings_leave_points_without_a_roof(store: Store) -> None:
    filled(store)
    found = asked(store, ceilings=())
    point = by_label(found)["worker:0"]
    assert same(point.flops_per_second.value, 1e10 / 0.63)
    assert (point.bound, point.attainable.value, point.headroom.value) == ("", None, None)
    assert texts.no_ceilings("hosta", "") in point.words
    assert [roof.lines for roof in found.roofs] == [[], []]
    assert sum("was never calibrated" in note for note in found.notes) == 2


@pytest.mark.parametrize(
    "one, said",
    [
        (kernel(10**10, 0), reasons.TRAFFIC_UNKNOWN),
        (kernel(10**10, None), reasons.TRAFFIC_UNKNOWN),
        (kernel(None, 10**8), "the FLOPs of its kernels are not known"),
        (kernel(0, 10**8), "it did no FLOPs"),
        (kernel(10**10, 10**8, "s8"), texts.no_compute_ceiling("hosta", "", "s8")),
    ],
)
def test_kernels_that_make_no_point_say_why(store: Store, one: pb.Kernel, said: str) -> None:
    filled(store, [one])
    point = by_label(asked(store))["worker:0"]
    assert point.headroom.value is None and point.bound == ""
    assert said in point.words


def test_ranks_of_different_precisions_have_roofs_of_their_own(store: Store) -> None:
    A.greet(store)
    sent = training(WORKERS, stepping=(0, 1))
    for one in sent:
        del one.kernels[:]
        one.kernels.extend([kernel(10**10, 10**8), kernel(10**10, 10**8, "f64")])
        which = [i % 2 for i in range(len(one.calls.rank) // 8)]
        ranks = [int.from_bytes(one.calls.rank[8 * i : 8 * i + 8], "little") for i in range(len(which))]
        one.calls.kernel = b"".join(r.to_bytes(8, "little") for r in ranks)
    A.put(store, *sent)
    found = asked(store)
    points = by_label(found)
    assert [(points[f"worker:{i}"].precision, points[f"worker:{i}"].bound) for i in (0, 1)] == [
        ("f32", "peak.f32.512"),
        ("f64", "peak.f64.512"),
    ]
    assert {line.name for line in found.roofs[0].lines if line.binding} == {
        "dram.triad", "peak.f32.512", "peak.f64.512"
    }  # fmt: skip
    assert any("different precisions" in note for note in found.notes)
    both = by_label(asked(store, points="role"))["worker"]
    assert (both.precision, both.bound) == ("", "")
    assert "no precision has most of its FLOPs" in both.words


def test_mixed_precisions_of_one_rank_are_said(store: Store) -> None:
    filled(store, [kernel(7 * 10**9, 10**8), kernel(3 * 10**9, 10**8, "f64")])
    A.put(store, *more_calls(kernel_number=1))
    point = by_label(asked(store))["worker:0"]
    assert point.precision == "f32"
    assert points.mixed_precisions(0.7, "f32") in point.words


def more_calls(kernel_number: int, other: pb.Kernel | None = None) -> list[pb.Batch]:
    """A second call in every step of the first worker, at two thirds of it."""
    sent = []
    for at, one in enumerate(training(WORKERS[:1], stepping=(0,), first_sequence=20)):
        begins = one_starts(one)
        again = pb.Batch(sequence=20 + at, begin_ns=one.begin_ns, end_ns=one.end_ns, ranks=WORKERS[:1])
        again.kernels.extend([kernel(7 * 10**9, 10**8), other or kernel(3 * 10**9, 10**8, "f64")])
        again.calls.rank = (0).to_bytes(8, "little") * len(begins)
        again.calls.kernel = kernel_number.to_bytes(8, "little") * len(begins)
        again.calls.start_ns = b"".join((t + 10 * MS).to_bytes(8, "little") for t in begins)
        again.calls.duration_ns = (1000).to_bytes(8, "little") * len(begins)
        sent.append(again)
    return sent


def one_starts(one: pb.Batch) -> list[int]:
    raw = one.calls.start_ns
    return [int.from_bytes(raw[i : i + 8], "little") for i in range(0, len(raw), 8)]


# -- hierarchical -----------------------------------------------------------------------------------------


def profiled(flops: int, least: int, dram: int, l2: int) -> pb.Kernel:
    made = kernel(flops, least)
    made.dram_bytes, made.l2_bytes = dram, l2
    return made


def test_hierarchical_has_a_point_for_every_level(store: Store) -> None:
    filled(store, [profiled(10**10, 10**8, 10**9, 4 * 10**9)])
    found = asked(store, "hierarchical", ranks=("worker:0",))
    levels = {p.level: p for p in found.points}
    assert list(levels) == ["minimum", "l2", "dram", "network"]
    assert [round(p.intensity.value or 0, 6) for p in found.points[:3]] == [100, 2.5, 10]
    assert [p.bound for p in found.points[:3]] == ["peak.f32.512", "l2.read", "dram.triad"]
    assert len({p.flops_per_second.value for p in found.points[:3]}) == 1
    assert levels["dram"].intensity.provenance == levels["l2"].intensity.provenance == Provenance.ESTIMATED
    assert levels["l2"].intensity_spread and levels["l2"].intensity_spread.count == 57
    roof = found.roofs[0]
    assert {line.level for line in roof.lines if line.binding} == {"dram", "l2", "network", ""}


def test_classic_takes_the_best_known_level(store: Store) -> None:
    filled(store, [profiled(10**10, 10**8, 10**9, 4 * 10**9)])
    point = by_label(asked(store))["worker:0"]
    assert (point.level, point.bound) == ("dram", "dram.triad")
    assert same(point.intensity.value, 10)


def test_level_without_a_ceiling_is_a_point_without_a_roof(store: Store) -> None:
    filled(store, [profiled(10**10, 10**8, 10**9, 4 * 10**9)])
    found = asked(store, "hierarchical", ranks=("worker:0",), ceilings=(PEAK_F32, DRAM))
    levels = {p.level: p for p in found.points}
    assert levels["dram"].bound == "dram.triad"
    assert "no L2 bandwidth of hosta was measured" in levels["l2"].words
    assert levels["network"].words == "no network ceiling of hosta"
    assert any("bench net" in note for note in found.notes)


# -- network ----------------------------------------------------------------------------------------------


def test_network_roofline_is_over_bytes_communicated(store: Store) -> None:
    filled(store)
    found = asked(store, "network")
    point = by_label(found)["worker:0"]
    # The worker sends 1 byte a microsecond, over steps of 0.63 s.
    assert point.level == "network" and same(point.intensity.value, 1e10 / 0.63e6)
    assert point.bound == "peak.f32.512"
    assert "TCP bytes sent" in point.intensity.reason
    assert {line.kind for line in found.roofs[0].lines} == {"network", "compute"}
    crossing = {c.label: c for c in found.crossings}["worker:0"]
    assert same(crossing.batch.value, 32)
    assert same(crossing.crossing.value, 32 * (4e12 / 1e9) / (1e10 / 0.63e6))
    assert {c.label for c in found.crossings} == {"worker:0", "worker:1"}


def test_without_a_network_ceiling_it_says_what_to_run(store: Store) -> None:
    filled(store)
    found = asked(store, "network", ceilings=(PEAK_F32, DRAM))
    point = by_label(found)["worker:0"]
    assert point.intensity.value and point.bound == ""
    lacks = "no network ceiling of hosta"
    assert point.words == lacks
    assert all(c.crossing.value is None and c.words.endswith(lacks) for c in found.crossings)
    # How to measure it is printed once, as it can be run.
    advice = network.no_ceilings(["hosta", "hostb"], network.to_measure("hosta", "hostb"))
    assert [note for note in found.notes if "bench net" in note] == [advice]


@pytest.mark.parametrize("points", ["rank", "role"])
def test_server_is_held_against_the_network_by_its_bytes(store: Store, points: str) -> None:
    filled(store)
    there = NET._replace(peer="hosta")  # of host b, where the server is, too
    found = asked(store, "network", points, ceilings=(PEAK_F32, DRAM, NET, there))
    server = next(p for p in found.points if p.role == "ps")
    # It sends 1 byte a microsecond, of 1 GB/s.
    assert server.words == (
        "it sends 1 MB/s, 0.1% of what the network does (1 GB/s, net.tcp to hosta): "
        "the network does not hold it back"
    )
    assert same(server.headroom.value, 1000)
    assert (server.flops_per_second.value, server.intensity.value, server.attainable.value) == (None,) * 3
    assert server.flops_per_second.reason
    worker = next(p for p in found.points if p.role == "worker")
    assert "of what the network does" not in worker.words
    classic = next(p for p in asked(store, "classic", points).points if p.role == "ps")
    assert (classic.headroom.value, "network" in classic.words) == (None, False)


def test_server_whose_bytes_nobody_counted_says_why_as_before(store: Store) -> None:
    filled(store)
    view = view_of(store, "network")
    steps = {name: table for name, table in view.steps.items() if name != "steps_tcp"}
    found = roofline(store, view._replace(steps=steps), Subject("job", ALL_STEPS, ()), "network", "rank")
    server = next(p for p in found.points if p.role == "ps")
    assert server.words == server.flops_per_second.reason


def test_loopback_is_no_network_and_is_noted(store: Store) -> None:
    A.greet(store)
    A.put(store, *training(WORKERS, stepping=(0, 1)))
    itself = NET._replace(peer="hosta")
    note = network.note_of("hosta", network.over_loopback("hosta"))
    assert note in asked(store, "network", ceilings=(PEAK_F32, DRAM, itself)).notes
    assert note not in asked(store, "classic", ceilings=(PEAK_F32, DRAM, itself)).notes
    alone = asked(store, "network", ceilings=(PEAK_F32, DRAM)).notes
    assert network.no_ceilings(["hosta"], network.to_measure("hosta", "hosta")) in alone


def test_ceilings_that_came_late_are_noted_where_they_are_used(store: Store) -> None:
    filled(store)
    net = LateCeilings("hosta", (NET,), are_all=False, measured=True, after=True)
    memory = net._replace(ceilings=(DRAM,))
    everything = net._replace(ceilings=EVERY, are_all=True)

    def notes(kind: str, *late: LateCeilings) -> list[str]:
        view = view_of(store, kind)._replace(machine_notes=late)
        found = roofline(store, view, Subject("job", ALL_STEPS, ()), kind, "rank").notes
        said = [note for note in found if note.startswith("ceilings of hosta")]
        return [
            note.removeprefix("ceilings of hosta ").removesuffix("were measured after the job")
            for note in said
        ]

    assert notes("network", net, memory) == ["(net.tcp to hostb) "]
    assert notes("classic", net, memory) == ["(dram.triad) "]
    assert notes("hierarchical", net, memory) == ["(net.tcp to hostb) ", "(dram.triad) "]
    assert notes("classic", everything) == notes("network", everything) == [""]
    # What it has no room to name counts, too.
    many = net._replace(ceilings=(*(NET._replace(peer=f"host{n}") for n in range(9)), DRAM))
    assert len(notes("classic", many)) == 1 and notes("classic", net) == []


@pytest.mark.parametrize("points", ["step", "phase", "kernel"])
def test_network_has_no_points_of_parts_of_ranks(store: Store, points: str) -> None:
    filled(store)
    with pytest.raises(BadRequest, match="ask for points of roles or ranks"):
        asked(store, "network", points)


# -- steps ------------------------------------------------------------------------------------------------


def test_every_step_is_a_point(store: Store) -> None:
    filled(store)
    found = asked(store, points="step", ranks=("worker:0",))
    assert len(found.points) == 57
    step = by_label(found)["worker:0 step 12"]
    assert (step.kind, step.rank, step.host, step.level) == ("step", "worker:0", "hosta", "minimum")
    assert same(step.time.value, 0.63) and same(step.flops_per_second.value, 1e10 / 0.63)
    assert (step.bound, step.flops_spread) == ("peak.f32.512", None)
    assert not any("are shown" in note for note in found.notes)


def test_of_many_steps_those_that_stand_for_all_are_shown(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roofline_server.report.roofline.steps.MOST_POINTS", 20)
    filled(store)
    found = asked(store, points="step")
    assert len(found.points) == 20
    assert texts.steps_shown(57, 10) in found.notes


def test_steps_of_a_rank_without_kernels_are_noted(store: Store) -> None:
    filled(store)
    found = asked(store, points="step")
    assert {p.rank for p in found.points} == {"worker:0", "worker:1"}
    assert any(note.startswith("ps:0: no complete step") for note in found.notes)


# -- kernels and phases -----------------------------------------------------------------------------------


def test_kernels_are_pooled_over_the_ranks_of_a_role(store: Store) -> None:
    filled(store)
    found = asked(store, points="kernel")
    (point,) = found.points
    assert (point.label, point.kind, point.role, point.rank, point.host) == (
        "matmul", "kernel", "worker", "", "hosta"
    )  # fmt: skip
    # Calls of a microsecond: FLOP/s while it runs, above any roof here.
    assert same(point.flops_per_second.value, 1e16) and same(point.intensity.value, 100)
    assert same(point.time.value, 2 * 57e-6)
    assert any("those of one rank" in note for note in found.notes)


def test_kernel_of_one_rank_has_the_spread_of_its_calls(store: Store) -> None:
    filled(store)
    (point,) = asked(store, points="kernel", ranks=("worker:0",)).points
    assert point.flops_spread and same(point.flops_spread.p50, 1e16)


def test_kernels_that_are_no_points_are_counted(store: Store) -> None:
    filled(store, [kernel(None, 10**8)])
    found = asked(store, points="kernel")
    assert found.points == []
    assert texts.unknown_kernels(0.000114) in found.notes


def test_job_without_kernels_says_what_to_do(store: Store) -> None:
    filled(store, stepping=())
    for kind in ("kernel", "phase"):
        found = asked(store, points=kind)
        assert found.points == []
        assert texts.NO_KERNELS in found.notes


def test_phase_is_held_against_the_roof_by_its_time(store: Store) -> None:
    filled(store)
    begin = [100 * S + k * STEP_NS for k in range(50)]
    told = pb.Batch(sequence=30, begin_ns=100 * S, end_ns=140 * S, ranks=WORKERS)
    told.spans.CopyFrom(spans([(0, "phase.forward", t, t + STEP_NS // 2, ABSENT, 1) for t in begin]))
    A.put(store, told)
    found = by_label(asked(store, points="phase", ranks=("worker:0",)))
    forward = found["worker:0 forward"]
    assert (forward.kind, forward.rank) == ("phase", "worker:0")
    # One kernel in each of the 50 steps with this phase of 0.35 s.
    assert same(forward.flops_per_second.value, 1e10 / 0.35) and same(forward.time.value, 50 * 0.35)
    assert found["worker:0 outside any phase"]


def test_flops_without_bytes_count_for_the_rate_of_a_phase(store: Store) -> None:
    filled(store, [kernel(7 * 10**9, 10**8), kernel(3 * 10**9, None, "f64")])
    A.put(store, *more_calls(kernel_number=1, other=kernel(3 * 10**9, None, "f64")))
    point = by_label(asked(store, points="phase"))["worker:0 outside any phase"]
    assert same(point.intensity.value, 70) and same(point.flops_per_second.value, 1e10 / 0.63)
    assert point.incomplete == points.no_bytes_of_calls(57)


def l1_alone() -> pb.Kernel:
    made = kernel(10**10, None)
    made.l1_bytes = 10**8
    return made


@pytest.mark.parametrize("points", ["phase", "kernel", "step"])
def test_bytes_of_a_cache_are_none_of_the_classic_roofline(store: Store, points: str) -> None:
    filled(store, [l1_alone()])
    found = asked(store, points=points)
    assert not any(p.level == "l1" or p.intensity.value for p in found.points)
    assert found.points or texts.no_bytes_of_steps("worker:0") in found.notes
    assert {p.level for p in asked(store, "hierarchical", points).points} == {"l1"}


def test_without_phases_all_kernels_are_outside_and_it_is_said(store: Store) -> None:
    filled(store)
    found = asked(store, points="phase")
    assert {p.label for p in found.points} == {f"worker:{i} outside any phase" for i in (0, 1)}
    assert any("no hook marks the phases" in note for note in found.notes)


# -- what cannot be asked ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, points, said", [("round", "rank", "'round'"), ("classic", "node", "'node'"), ("", "rank", "''")]
)
def test_questions_that_cannot_be_are_refused(store: Store, kind: str, points: str, said: str) -> None:
    filled(store)
    with pytest.raises(BadRequest, match=said):
        asked(store, kind, points)


def test_range_that_ends_before_it_begins_is_refused(store: Store) -> None:
    filled(store)
    with pytest.raises(BadRequest, match="5 to 4"):
        asked(store, steps=Steps(5, 4))


# -- GPUs -------------------------------------------------------------------------------------------------


def gpu(number: int, peak: float = 1e13) -> tuple[Ceiling, ...]:
    device = f"gpu {number}"
    return (
        PEAK_F32._replace(name="peak.f32", width=0, value=peak, device=device),
        DRAM._replace(name="hbm.read", level="hbm", value=1e12, device=device),
    )


def on_gpu(store: Store) -> None:
    one = profiled(10**10, 10**8, 10**9, 4 * 10**9)
    one.library = "cuda"
    filled(store, [one])


def test_ranks_on_gpus_are_held_against_gpus(store: Store) -> None:
    on_gpu(store)
    found = asked(store, ceilings=(PEAK_F32, DRAM, *gpu(0, 2e13), *gpu(1, 2e13)))
    points = by_label(found)
    assert [(points[f"worker:{i}"].device, points[f"worker:{i}"].level) for i in (0, 1)] == [
        ("gpu 0", "hbm"),
        ("gpu 1", "hbm"),
    ]
    assert points["worker:0"].bound == "hbm.read"
    assert same(points["worker:0"].attainable.value, 1e13)
    assert "their ceilings are alike" in points["worker:0"].headroom.reason
    assert [(r.host, r.device) for r in found.roofs] == [
        ("hosta", ""),
        ("hosta", "gpu 0"),
        ("hosta", "gpu 1"),
        ("hostb", ""),
    ]
    assert {line.name for line in found.roofs[1].lines if line.binding} == {"hbm.read", "peak.f32"}


def test_role_on_gpus_is_the_mean_of_one(store: Store) -> None:
    on_gpu(store)
    point = by_label(asked(store, points="role", ceilings=(*gpu(0), *gpu(1))))["worker, mean of 2 GPUs"]
    assert same(point.flops_per_second.value, 1e10 / 0.63) and same(point.attainable.value, 1e13)
    assert same(point.headroom.value, 1e13 / (1e10 / 0.63))


def test_gpus_of_a_node_are_bound_by_its_one_network_together(store: Store) -> None:
    # Above the ridge of one GPU of 10 TFLOP/s and 1 GB/s, below that of the two.
    on_gpu(store)
    found = asked(store, "network", points="role", ceilings=(*gpu(0), *gpu(1), NET))
    point = by_label(found)["worker, mean of 2 GPUs"]
    x = point.intensity.value or 0.0
    assert 1e4 < x < 2e4 and point.bound == "net.tcp"
    assert same(point.attainable.value, x * 1e9 / 2)
    assert "the node's network is shared by 2 ranks" in point.words
    (crossing,) = [c for c in found.crossings if c.role == "worker"]
    assert same(crossing.ridge.value, 2e13 / 1e9)
    rank = by_label(asked(store, "network", ceilings=(*gpu(0), *gpu(1), NET)))["worker:0"]
    assert texts.of_gpus_and_network(texts.WHOLE_GPU) in rank.attainable.reason


def test_gpus_that_differ_leave_a_rank_without_a_roof(store: Store) -> None:
    on_gpu(store)
    found = asked(store, ceilings=(*gpu(0), *gpu(1, 3e13)))
    point = by_label(found)["worker:0"]
    assert (point.bound, point.headroom.value) == ("", None)
    assert point.words == texts.different_gpus(2, "hosta")
    kernels = asked(store, points="kernel", ceilings=(*gpu(0), *gpu(1, 3e13))).points
    assert [p.words for p in kernels] == [point.words]


# -- what a report takes from it, and what is asked in vain -----------------------------------------------


def test_report_says_first_what_holds_each_role_back(store: Store) -> None:
    filled(store)
    [point] = [p for p in asked(store, points="role").points if p.role == "worker"]
    found = build(view_of(store))
    assert found.verdicts == [f"{point.label}: {point.words}"] and point.words
    filled_none = build(view_of(store, ceilings=()))
    assert all("roof" not in verdict.partition(": ")[0] for verdict in filled_none.verdicts)


def test_doubts_of_the_roof_are_notes_of_reports_and_rooflines(store: Store) -> None:
    filled(store)
    busy = [PEAK_F32._replace(doubt="others took 86% of the CPUs"), DRAM, L2._replace(doubt="torn")]
    for notes in (asked(store, ceilings=busy).notes, build(view_of(store, ceilings=busy)).notes):
        [note] = [n for n in notes if n.startswith("hosta") and "too low" in n]
        assert note == texts.may_be_too_low("hosta", ["peak.f32.512"], "others took 86% of the CPUs")


@pytest.mark.parametrize("points", ["rank", "role", "step", "phase", "kernel"])
def test_steps_that_the_job_does_not_have_are_said_to_be_none(store: Store, points: str) -> None:
    filled(store)
    with pytest.raises(UnknownSteps, match="no steps in 500: - job job has steps 0 to 56"):
        asked(store, points=points, steps=Steps(500, None))
