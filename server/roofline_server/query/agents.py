"""The agents of all nodes that are known: whether they are connected, and what is amiss with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from roofline.answers.agents import Agent
from roofline.answers.values import Provenance, Scope, Value, value
from roofline.convert import to_message
from roofline.v1 import query_pb2

from ..ingest.commands import Link
from ..records import RECORDING, Machine
from ..sentences import reasons
from ..store.store import Store

NO_BATCH, GONE = "no batch has come yet", "it is not connected"


def agent_states(store: Store, links: Sequence[Link]) -> Any:
    """The answer to ListAgents, by host. links: of those that are connected."""
    machines, clocks = store.name_ids.machines(), store.clocks()
    found = [_connected(link, machines.get(link.received.node), clocks, store.now_ns()) for link in links]
    there = {agent.host for agent in found}
    files = {node for key, node in store.name_ids.nodes().items() if key.boot == RECORDING}
    away = {machine.host for node, machine in machines.items() if node not in files} - there
    found += [_gone(host) for host in away]
    found.sort(key=lambda agent: (agent.host, not agent.connected))
    return query_pb2.ListAgentsResponse(agents=[to_message(query_pb2.Agent(), agent) for agent in found])


def _connected(link: Link, machine: Machine | None, clocks: Any, now_ns: int) -> Agent:
    received, clock = link.received, clocks[link.received.node]
    lag = error = None
    if received.newest_ns:
        newest = int(clock.to_server(np.array([received.newest_ns], np.int64))[0])
        lag = max(0.0, (now_ns - newest) / 1e9)
    if clock.is_measured:
        error = float(clock.error_at(clock.to_node(np.array([now_ns], np.int64)))[0]) / 1e9
    interval = link.hello.interval_ns / 1e9 or None
    sources = machine.sources if machine is not None else ()
    return Agent(
        host=link.host,
        connected=True,
        version=link.hello.version[:64],
        lag=value(lag, "s", Provenance.MEASURED, Scope.NODE, missing=NO_BATCH),
        clock_error=value(error, "s", Provenance.MEASURED, Scope.NODE, missing=reasons.NO_PING),
        interval=value(interval, "s", Provenance.REPORTED, Scope.NODE),
        batches=received.batches,
        lost=received.lost,
        refused=received.refused,
        behind=received.behind,
        busy_with=link.busy_with,
        sources=[one for one in sources if not one.works or one.caveat],
    )


def _gone(host: str) -> Agent:
    none = Value(None, "s", reason=GONE)
    return Agent(
        host=host,
        connected=False,
        version="",
        lag=none,
        clock_error=none,
        interval=none,
        batches=0,
        lost=0,
        refused=0,
        behind=False,
        busy_with="",
        sources=[],
    )
