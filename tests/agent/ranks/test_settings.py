"""Which variables of a rank leave its node, and which never do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.ranks.settings import MAX_SETTINGS, MAX_VALUE, RELEVANT, RankFacts, relevant_settings
from roofline_agent.records import EventKind, Rank

# What horovodrun 0.28 sets for a rank under gloo.
HOROVODRUN = {
    "HOROVOD_HOSTNAME": "node7",
    "HOROVOD_RANK": "3",
    "HOROVOD_SIZE": "8",
    "HOROVOD_LOCAL_RANK": "1",
    "HOROVOD_LOCAL_SIZE": "2",
    "HOROVOD_CROSS_RANK": "1",
    "HOROVOD_CROSS_SIZE": "4",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "31337",
    "HOROVOD_CONTROLLER": "gloo",
    "HOROVOD_CPU_OPERATIONS": "gloo",
    "HOROVOD_GLOO_IFACE": "eth0",
    "HOROVOD_CYCLE_TIME": "5.0",
    "HOROVOD_FUSION_THRESHOLD": "0",
    "HOROVOD_SECRET_KEY": "hunter2",
    "_HOROVOD_SECRET_KEY": "hunter2",
}


def test_settings_of_horovod_without_addresses_secrets_and_numbers() -> None:
    assert relevant_settings(HOROVODRUN) == {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_CYCLE_TIME": "5.0",
        "HOROVOD_FUSION_THRESHOLD": "0",
        "HOROVOD_GLOO_IFACE": "eth0",
    }


TOLD = """OMP_NUM_THREADS MKL_NUM_THREADS KMP_AFFINITY TF_NUM_INTRAOP_THREADS TF_NUM_INTEROP_THREADS
TF_ENABLE_ONEDNN_OPTS NCCL_ALGO NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME CUDA_VISIBLE_DEVICES
TORCH_NCCL_BLOCKING_WAIT PYTORCH_CUDA_ALLOC_CONF"""
NOT_TOLD = """PATH HOME MASTER_ADDR WORLD_SIZE RANK AWS_SECRET_ACCESS_KEY TF_CONFIG MY_OMP_NUM_THREADS
NCCL_COMM_ID NCCL_OOB_ADDR GLOO_PORT HOROVOD_PASSWORD HOROVOD_API_TOKEN NCCL_AUTHORITY OMP_NUM_THREADS_
horovod_cycle_time NCCL_CONF_FILE HOROVOD_MYPW HOROVOD_BEARER NCCL_MINE"""


@pytest.mark.parametrize("name", TOLD.split())
def test_relevant_variables_are_reported(name: str) -> None:
    assert relevant_settings({name: "x"}) == {name: "x"}


@pytest.mark.parametrize("name", NOT_TOLD.split())
def test_what_does_not_is_not(name: str) -> None:
    assert relevant_settings({name: "x"}) == {}


@given(st.dictionaries(st.text(max_size=30) | st.just("HOROVOD_X"), st.text(max_size=400), max_size=100))
def test_reported_variables_are_bounded(environ: dict[str, str]) -> None:
    many = {**environ, **dict.fromkeys(RELEVANT, "x" * 1000)}
    told = relevant_settings(many)
    assert len(told) == MAX_SETTINGS and all(len(value) <= MAX_VALUE for value in told.values())


def rank(index: int, job: str = "j") -> Rank:
    return Rank(job, "worker", index, 100 + index)


def texts(made: RankFacts, started: list[Rank], alive: list[Rank]) -> list[tuple[str, str]]:
    facts = made.of_started([(one, {"OMP_NUM_THREADS": "4\n"}) for one in started], alive, 7)
    assert all((fact.kind, fact.begin_ns, fact.end_ns) == (EventKind.FACT, 7, 7) for fact in facts)
    return [(fact.rank.key if fact.rank else "", fact.text) for fact in facts]


def test_facts_of_a_rank_that_starts_are_reported_once() -> None:
    made = RankFacts()
    assert texts(made, [rank(0)], [rank(0)]) == [
        ("worker:0", "setting.OMP_NUM_THREADS=4?"),
        ("worker:0", "setting.processes_per_node=1"),
    ]
    assert texts(made, [], [rank(0)]) == []


def test_processes_per_node_is_the_most_there_were() -> None:
    made = RankFacts()
    texts(made, [], [rank(0), rank(0, "other")])
    grown = texts(made, [], [rank(0), rank(1), rank(0, "other")])
    assert grown == [
        ("worker:0", "setting.processes_per_node=2"),
        ("worker:1", "setting.processes_per_node=2"),
    ]
    assert texts(made, [], [rank(1)]) == [], "a job that ends has not had fewer"
    assert texts(made, [], []) == []
    assert texts(made, [], [rank(0)]) == [("worker:0", "setting.processes_per_node=1")], "it came anew"


def test_next_run_of_a_name_is_counted_anew_though_nothing_was_looked_at_between() -> None:
    made = RankFacts()
    texts(made, [], [rank(0), rank(1)])
    again = rank(0)._replace(pid=999)
    assert texts(made, [], [again]) == [("worker:0", "setting.processes_per_node=1")]


def test_rank_that_is_started_again_within_a_run_has_the_most_of_that() -> None:
    made = RankFacts()
    texts(made, [], [rank(0), rank(1)])
    again = rank(1)._replace(pid=999)
    assert texts(made, [], [rank(0), again]) == [("worker:1", "setting.processes_per_node=2")]
