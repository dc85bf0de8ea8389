"""A run has the same name in all answers, by which it can be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from roofline.v1 import ingest_pb2 as pb_of_agents
from roofline.v1 import models_pb2
from roofline.v1 import query_pb2 as pb
from roofline_server.errors import RemovedData, UnknownJob
from roofline_server.query.answers import Answers
from roofline_server.query.bench_net import running_on
from roofline_server.records import CutLevel
from roofline_server.store.retention.plan import Policy
from roofline_server.store.store import Store

from ..builders import UNIX, Node, S, open_store, rank, training

A, FACT = Node("a", UNIX, "hosta"), pb_of_agents.EVENT_KIND_FACT


def put_run(store: Store, number: int) -> None:
    """Of job 42, each a minute after the one before."""
    first_ns = (100 + 60 * number) * S
    ranks = [rank("42", pid=100 + number, start_ns=first_ns)]
    sent = training(ranks, 4, first_ns=first_ns, first_sequence=1 + 4 * number)
    for moment in (first_ns, first_ns + S):
        sent[0].events.add(kind=FACT, rank=0, begin_ns=moment, end_ns=moment, text="tag.experiment=lr")
    A.put(store, *sent)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(tmp_path)
    A.greet(made)
    for number in range(3):
        put_run(made, number)
    yield made
    made.close()


def report(store: Store, job: str) -> Any:
    return Answers(store).report(pb.GetReportRequest(job=job))


def test_run_alone_is_called_as_its_job_until_another_follows(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    A.greet(store)
    put_run(store, 0)
    assert report(store, "42").job == "42" == report(store, "42/1").job
    put_run(store, 1)
    assert report(store, "42").job == "42/2" and report(store, "42/1").job == "42/1"
    store.close()


def test_answer_about_a_run_calls_it_as_the_list_does(store: Store) -> None:
    answers = Answers(store)
    assert [one.job for one in answers.jobs().jobs] == ["42/3", "42/2", "42/1"]
    first, newest = report(store, "42/1"), report(store, "42")
    assert (first.job, newest.job) == ("42/1", "42/3")
    assert first.begin_ns < newest.begin_ns
    assert answers.stragglers(pb.GetStragglersRequest(job="42/1")).job == "42/1"
    assert answers.step_overview(pb.GetStepOverviewRequest(job="42/1")).job == "42/1"
    assert answers.what_if(pb.GetWhatIfRequest(job="42/1", ranks=2)).job == "42/1"
    subject = models_pb2.Subject(job="42/1")
    roofline = models_pb2.GetRooflineRequest(subject=subject, kind="classic", points="kernel")
    assert list(answers.roofline(roofline).about.jobs) == ["42/1"]
    by_time = models_pb2.GetTimeRooflineRequest(subject=subject, points="kernel")
    assert list(answers.time_roofline(by_time).about.jobs) == ["42/1"]


def test_several_runs_are_told_apart_by_name(store: Store) -> None:
    answers = Answers(store)
    compared = answers.comparison(pb.GetComparisonRequest(first="42", second="42/1"))
    assert (compared.first, compared.second) == ("42/3", "42/1")
    for asked in ({"experiment": "lr"}, {"jobs": ["42/1", "42/2", "42"]}):
        found = answers.trajectory(models_pb2.GetTrajectoryRequest(over="ranks", **asked))
        assert list(found.about.jobs) == ["42/1", "42/2", "42/3"]
        assert sorted(job for path in found.paths for stop in path.stops for job in stop.jobs) == [
            "42/1",
            "42/2",
            "42/3",
        ]
    (machine,) = answers.machines(models_pb2.GetMachinesRequest(host="hosta")).machines
    assert sorted(machine.jobs) == ["42/1", "42/2", "42/3"]
    assert running_on(store, ["hosta"]) in (["42/3"], [])


def test_error_names_runs_as_one_asks_for_them(store: Store) -> None:
    with pytest.raises(UnknownJob, match=r"known are 42/3, 42/2, 42/1"):
        report(store, "nothing")


def test_what_is_kept_of_a_run_that_was_cut_is_of_that_run(store: Store) -> None:
    answers, before = Answers(store), report(store, "42/1")
    store.seal()
    policy = Policy(0, deepest=CutLevel.STEPS, job="42/1", times=dict.fromkeys(CutLevel, 1))
    store.retention.apply(policy, answers.report_to_keep)
    kept = report(store, "42/1")
    assert (kept.job, kept.begin_ns) == ("42/1", before.begin_ns)
    assert any("42/1" in note for note in kept.notes)
    with pytest.raises(RemovedData, match="job 42/1"):
        answers.stragglers(pb.GetStragglersRequest(job="42/1"))
    assert report(store, "42").job == "42/3"
