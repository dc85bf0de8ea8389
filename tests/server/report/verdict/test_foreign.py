from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from roofline_server.model.evidence import CounterEvidence, StepEvidence
from roofline_server.records import NODE_RANK, Table
from roofline_server.report.verdict.foreign import NodeUse, foreign_cpus, idle_nodes

S = 1_000_000_000


def rank(host: str, cores: float | None, count: int = 100) -> Any:
    """That used so many CPUs for 10 s."""
    used = None if cores is None else CounterEvidence(cores * 10 * S, 10.0, 100, cores * S / 10)
    return SimpleNamespace(host=host, cpu_ns=used, steps=stepping(count))


def stepping(count: int) -> StepEvidence:
    begin = np.arange(count, dtype=np.int64) * S // 10
    return StepEvidence(np.arange(count), begin, begin + S // 10, np.zeros(count, np.int64))


def steps(cores: float, count: int = 100) -> Table:
    """Steps of 0.1 s in which so many CPUs of the node were busy."""
    begin = np.arange(count, dtype=np.int64) * S // 10
    end = begin + S // 10
    return {
        "begin_ns": begin,
        "end_ns": end,
        "start_ns": np.zeros(count, np.int64),
        "node_cpu_busy_ns.begin": cores * begin,
        "node_cpu_busy_ns.end": cores * end,
    }


def found(ranks: dict[int, Any], tables: dict[int, Table], over_all: float | None = None) -> dict[str, float]:
    """over_all: CPUs that were busy from the job's begin to its end, with the start of its programs."""
    part = SimpleNamespace(
        rank=NODE_RANK,
        instance="",
        metric=SimpleNamespace(name="node_cpu_busy_ns"),
        grown=(over_all or 0.0) * 20 * S,
        seconds=20.0,
        node=1,
    )
    view: Any = SimpleNamespace(
        parts=[part] if over_all is not None else [], machines={1: SimpleNamespace(host="a")}
    )
    gathered: Any = SimpleNamespace(
        evidence=ranks, tables={number: {"steps_node_node": table} for number, table in tables.items()}
    )
    return foreign_cpus(view, gathered)


def test_what_is_busy_in_the_steps_beyond_what_the_ranks_use() -> None:
    ranks = {1: rank("a", 0.7), 2: rank("a", 0.9), 3: rank("b", 1.0)}
    tables = {1: steps(1.8), 2: steps(1.8), 3: steps(1.5)}
    assert found(ranks, tables) == pytest.approx({"a": 0.2, "b": 0.5})


def test_what_was_busy_while_programs_started_does_not_count() -> None:
    """Libraries are loaded by one thread: over the whole job less was busy than the ranks used."""
    ranks = {1: rank("a", 0.8), 2: rank("a", 0.8)}
    assert found(ranks, {1: steps(1.9), 2: steps(1.9)}, over_all=1.2) == pytest.approx({"a": 0.3})
    assert found(ranks, {}, over_all=1.7) == pytest.approx({"a": 0.1}), "all that is known"


def test_a_rank_that_ended_early_used_nothing_afterwards() -> None:
    ranks = {1: rank("a", 1.0), 2: rank("a", 1.0, count=50)}
    assert found(ranks, {1: steps(2.5)}) == pytest.approx({"a": 1.0}), "1 and half of 1 are theirs"


def test_a_host_of_which_a_rank_is_not_known_is_left_out() -> None:
    ranks = {1: rank("a", 0.7), 2: rank("a", None), 3: rank("b", 1.0)}
    assert found(ranks, {1: steps(1.8), 3: steps(1.0)}) == pytest.approx({"b": 0.0})


def test_nodes_of_which_more_cpus_are_idle_than_busy() -> None:
    machines = {1: SimpleNamespace(host="a", cpus=8), 2: SimpleNamespace(host="b", cpus=8)}
    there = [SimpleNamespace(node=1), SimpleNamespace(node=2)]
    view: Any = SimpleNamespace(machines=machines, process_lifetimes=there, answers={})
    uses = {"a": NodeUse(3.9, 0.5), "b": NodeUse(4.1, 0.5)}
    assert idle_nodes(view, uses) == {"a"}
