"""Payloads hold what the paper says: sizes of table 1, shares of section 3.2."""

from __future__ import annotations

from collections import Counter

import pytest
from roofline_agent.netbench import payloads
from roofline_agent.netbench.plan import plan, too_long

S, M, L = 10, 10240, 1048576


def test_sizes_are_those_of_the_paper() -> None:
    assert payloads.SIZES == {"small": S, "medium": M, "large": L}
    assert all(len(payload.sizes) == 10 for payload in payloads.ALL)


def test_skewed_is_60_30_10() -> None:
    assert Counter(payloads.SKEWED.sizes) == {L: 6, M: 3, S: 1}
    assert payloads.SKEWED.message_bytes == 6 * L + 3 * M + S


def test_uniform_shares_evenly() -> None:
    assert Counter(payloads.MIXED.sizes) == {S: 4, M: 3, L: 3}
    assert payloads.LARGE.sizes == (L,) * 10


def test_random_is_the_same_every_time_and_of_all_sizes() -> None:
    assert payloads.drawn() == payloads.RANDOM
    assert set(payloads.RANDOM.sizes) == {S, M, L}


@pytest.mark.parametrize("quick", [False, True])
def test_a_plan_has_each_name_once_and_tcp_first(quick: bool) -> None:
    steps = plan(quick)
    names = [step.name for step in steps]
    assert len(set(names)) == len(names)
    transports = [step.transport for step in steps]
    assert transports == sorted(transports, reverse=True)
    # What becomes a ceiling is in both.
    assert {"tcp.latency", "tcp.bandwidth", "grpc.latency.uniform.small", "grpc.bandwidth.skewed"} <= set(
        names
    )


def test_names_say_scheme_sizes_and_mode() -> None:
    names = {step.name for step in plan(False)}
    assert {"tcp.latency.medium", "tcp.bandwidth.8", "grpc.latency.uniform.large.serialized"} <= names
    assert {"grpc.ps.random", "grpc.ps.skewed.serialized", "grpc.bandwidth.uniform.mixed"} <= names


def test_a_message_that_takes_too_long_is_known_before() -> None:
    steps = {step.name: step for step in plan(False)}
    slow = 1e6  # byte/s
    latency, bandwidth = steps["grpc.latency.uniform.large"], steps["grpc.bandwidth.uniform.large"]
    assert too_long(latency, slow, 2) == pytest.approx(2 * too_long(bandwidth, slow, 2))
    assert too_long(steps["grpc.ps.skewed"], slow, 4) == pytest.approx(4 * 6322186 / slow)
    assert too_long(steps["grpc.latency.uniform.medium"], slow, 2) is None
    assert too_long(latency, 1e9, 2) is None
