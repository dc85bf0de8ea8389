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
from ...store.view import JobView
from ..evidence.counters import counter
from ..ranks.members import host_of

SIZES = ("small", "medium", "large", "total")


def server_times(view: JobView, number: int, mine: Mapping[str, Table]) -> ServerTimes:
    """mine: the server's rows of each step table."""
    key = view.ranks[number]
    name = f"{key.role}:{key.index}"
    workers = {n for n, k in view.ranks.items() if k.role == "worker"}
    behind = [
        (part.above, part.samples)
        for part in view.parts
        if (part.rank, part.metric.name) == (number, "tcp_unread_bytes") and _is_worker(part)
        if part.above is not None and part.samples
    ]
    sending = [
        rate / NS
        for part in view.parts
        if part.rank in workers and (part.metric.name, part.instance) == ("tcp_busy_ns", name)
        if (rate := _rate(part)) is not None
    ]
    waited = counter(mine.get("steps_process", {}), "cpu_wait_ns")
    return ServerTimes(
        name,
        host_of(view, number),
        float(np.average([share for share, _ in behind], weights=[n for _, n in behind])) if behind else None,
        sum(n for _, n in behind),
        float(np.mean(sending)) if sending else None,
        _with_workers(view, number, "tcp_received_bytes"),
        waited.total / NS / waited.seconds if waited is not None and waited.seconds else None,
        stopped_share(mine),
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

    no_tcp, no_waits = (
        "its connections to workers were not read",
        "the kernel's scheduler statistics were not read",
    )
    sent = _with_workers(view, number, "tcp_sent_bytes")
    return ServerLoad(
        times.rank,
        times.host,
        {
            "sent_bytes_per_second": measured(sent, "byte/s", no_tcp),
            "received_bytes_per_second": measured(times.received, "byte/s", no_tcp),
            "behind": measured(times.behind, "1", no_tcp),
            "sending": measured(times.sending, "1", "the workers' connections to it were not read"),
            "cpu_wait": measured(times.cpu_wait, "1", no_waits),
            "stopped": measured(times.stopped, "1", "its state was not read"),
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
    said them: "COUNT/BYTES"."""
    found = {}
    for facts in view.facts.values():
        for size in SIZES:
            count, slash, held = facts.get(f"payload.{server}.{size}", "").partition("/")
            if slash and count.isdigit() and held.isdigit():
                said = Value(float(count), "1", Provenance.REPORTED, Scope.PROCESS)
                found[f"payload.{size}.variables"] = said
                found[f"payload.{size}.bytes"] = said._replace(value=float(held), unit="byte")
    return found
