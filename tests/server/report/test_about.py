from __future__ import annotations

import pytest
from roofline.answers.about import MachineAbout
from roofline_server.report.about import about
from roofline_server.store.store import Store
from roofline_server.store.view import JobView

from ..builders import DRAM, MS, PEAK_F32, UNIX, Node, S, rank, training

A, B = Node("a", UNIX, "hosta"), Node("b", UNIX + 77 * S, "hostb")


def view_of(store: Store, job: str = "job") -> JobView:
    found = store.view(job)
    assert found
    return found


def two_nodes(store: Store) -> JobView:
    A.greet(store, rtt_ns=2 * MS)
    A.put(store, *training([rank(), rank(index=1, pid=101)], stepping=(0, 1)))
    B.greet(store, rtt_ns=6 * MS)
    B.put(store, *training([rank(role="ps", pid=201)], first_ns=23 * S, stepping=()))
    return view_of(store)


def measured_at(view: JobView, *times_ns: int) -> JobView:
    """The same job on nodes whose ceilings were measured at these times."""
    known = zip(sorted(view.machines), times_ns, strict=True)
    at = {n: (PEAK_F32._replace(time_ns=t), DRAM._replace(time_ns=t - 1)) for n, t in known}
    return view._replace(machines={n: view.machines[n]._replace(ceilings=c) for n, c in at.items()})


def test_caption_of_a_job(store: Store) -> None:
    found = about([measured_at(two_nodes(store), 5 * S, 7 * S)], "scaling")
    assert (found.jobs, found.experiment) == (["job"], "scaling")
    assert (found.begin_ns, found.end_ns) == (100 * S + UNIX, 140 * S + UNIX)
    assert found.machines == [
        MachineAbout("hosta", "a CPU", 48, 5 * S),
        MachineAbout("hostb", "a CPU", 48, 7 * S),
    ]
    assert found.step_time.value == pytest.approx(0.63)


def test_alignment_is_that_of_the_worst_node(store: Store) -> None:
    found = about([two_nodes(store)]).alignment
    assert found.value == pytest.approx(3e-3, rel=0.1)


def test_node_whose_clock_is_not_known_makes_the_alignment_unknown(store: Store) -> None:
    A.greet(store)
    A.put(store, *training([rank()], stepping=(0,)))
    B.put(store, *training([rank(role="ps", pid=201)], first_ns=23 * S, stepping=()))
    found = about([view_of(store)]).alignment
    assert found.value is None and "no ping" in found.reason


def test_job_without_steps_says_so(store: Store) -> None:
    A.greet(store)
    A.put(store, *training([rank()], stepping=()))
    assert about([view_of(store)]).step_time.reason == "no rank has steps"


def test_machine_that_nobody_calibrated_has_no_date(store: Store) -> None:
    view = two_nodes(store)
    bare = view._replace(machines={n: m._replace(ceilings=()) for n, m in view.machines.items()})
    assert [m.calibrated_ns for m in about([bare]).machines] == [0, 0]


def test_several_jobs_share_one_caption(store: Store) -> None:
    for job, first_s in (("one", 100), ("two", 200)):
        node = Node(job, UNIX, "hosta")
        node.greet(store)
        node.put(store, *training([rank(job)], stepping=(0,), first_ns=first_s * S))
    one = view_of(store, "one")._replace(tags={"nodes": "1", "model": "vgg16"})
    two = view_of(store, "two")._replace(tags={"nodes": "2", "model": "vgg16"})
    found = about([one, two])
    assert (found.jobs, found.tags) == (["one", "two"], {"model": "vgg16"})
    assert (found.begin_ns, found.end_ns) == (100 * S + UNIX, 240 * S + UNIX)
    assert [m.host for m in found.machines] == ["hosta"]
    assert about([one]).tags == {"nodes": "1", "model": "vgg16"}


def test_nothing_makes_an_empty_caption() -> None:
    found = about([], "scaling")
    assert (found.jobs, found.machines, found.begin_ns, found.tags) == ([], [], 0, {})
    assert found.alignment.reason and found.step_time.reason
