"""What parameter servers did for the workers, and how long those waited for each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value
from roofline.answers.waits import ServerLoad

from ...correlate.parts import PartTotal
from ...model.evidence import NS
from ...model.servers import ServerTimes
from ...records import Table, rows
from ...sentences import waits as texts
from ...store.view import JobView
from ..evidence.counters import counter
from ..ranks.members import host_of, name_of

SIZES = ("small", "medium", "large", "total")


def server_times(view: JobView, number: int, mine: Mapping[str, Table]) -> ServerTimes:
    """mine: the server's rows of each step table."""
    name = name_of(view, number)
    workers = {n for n, k in view.ranks.items() if k.role == "worker"}
    # One pass over the parts: its own connections show what it has not read, the workers' what is on its way.
    behind, samples, sending = [], [], []
    for part in view.parts:
        metric = part.metric.name
        if (part.rank, metric) == (number, "tcp_unread_bytes") and _is_worker(part):
            if part.above is not None and part.samples:
                behind.append(part.above)
                samples.append(part.samples)
        elif part.rank in workers and (metric, part.instance) == ("tcp_busy_ns", name):
            rate = _rate(part)
            if rate is not None:
                sending.append(rate / NS)
    waited = counter(mine.get("steps_process", {}), "cpu_wait_ns")
    return ServerTimes(
        name,
        host_of(view, number),
        behind=float(np.average(behind, weights=samples)) if behind else None,
        samples=sum(samples),
        sending=float(np.mean(sending)) if sending else None,
        received=_with_workers(view, number, "tcp_received_bytes"),
        cpu_wait=waited.total / NS / waited.seconds if waited is not None and waited.seconds else None,
        stopped=stopped_share(mine),
    )


def stopped_share(mine: Mapping[str, Table]) -> float | None:
    """Share of a rank's steps in which it was seen stopped (SIGSTOP, a debugger); None: nobody looked."""
    table = mine.get("steps_process", {})
    if not rows(table) or "stopped" not in table or np.isnan(table["stopped"]).all():
        return None
    return float(np.nanmean(table["stopped"]))


def load_of(view: JobView, number: int, times: ServerTimes) -> ServerLoad:
    def measured(found: float | None, unit: str, why: str) -> Value:
        return value(found, unit, Provenance.MEASURED, Scope.PROCESS, missing=why)

    no_tcp = texts.NO_WORKER_CONNECTIONS
    sent = _with_workers(view, number, "tcp_sent_bytes")
    return ServerLoad(
        times.rank,
        times.host,
        {
            "sent_bytes_per_second": measured(sent, "byte/s", no_tcp),
            "received_bytes_per_second": measured(times.received, "byte/s", no_tcp),
            "behind": measured(times.behind, "1", no_tcp),
            "sending": measured(times.sending, "1", texts.NO_CONNECTIONS_TO_IT),
            "cpu_wait": measured(times.cpu_wait, "1", texts.NO_SCHEDULER),
            "stopped": measured(times.stopped, "1", texts.NO_STATE),
            **_payload(view, times.rank),
        },
    )


def _with_workers(view: JobView, number: int, metric: str) -> float | None:
    """What it moved a second with all workers together."""
    rates = [_rate(p) for p in view.parts if (p.rank, p.metric.name) == (number, metric) and _is_worker(p)]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _is_worker(part: PartTotal) -> bool:
    return part.instance.startswith("worker:")


def _rate(part: PartTotal) -> float | None:
    return part.grown / part.seconds if part.grown is not None and part.seconds else None


def _payload(view: JobView, server: str) -> dict[str, Value]:
    """Variables it holds by size class (Lu et al. 2018: small: bytes, medium: KiB, large: MiB), as the chief
    reported them: "COUNT/BYTES"."""
    found = {}
    for facts in view.facts.values():
        for size in SIZES:
            count, slash, held = facts.get(f"payload.{server}.{size}", "").partition("/")
            if slash and count.isdigit() and held.isdigit():
                variables = Value(float(count), "1", Provenance.REPORTED, Scope.PROCESS)
                found[f"payload.{size}.variables"] = variables
                found[f"payload.{size}.bytes"] = variables._replace(value=float(held), unit="byte")
    return found
