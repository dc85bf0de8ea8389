"""The condition of a server that is well, to be changed by tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roofline_server.health.condition import Condition, Distribution

WELL = Condition(
    version="0.1.0",
    python="3.11.7",
    pid=7,
    address="127.0.0.1:7642",
    http="http://127.0.0.1:7643",
    started=1000.0,
    time=1100.0,
    reasons=(),
    agents=3,
    streams=4,
    hold_s=0.0,
    batches=500,
    batches_per_s=2.5,
    rows=9000,
    bytes=1 << 20,
    refused=0,
    doubled=1,
    inbox_failure="",
    queued_batches=2,
    queued_bytes=2048,
    queue_limit_bytes=32 << 20,
    commit=Distribution((0.01, 0.1), (5, 2, 1), 1.5),
    unsealed_bytes=4096,
    unsealed_limit_bytes=128 << 20,
    seal=Distribution((0.01, 0.1), (0, 3, 0), 0.21),
    seals_failed=0,
    seal_failure="",
    last_seal=1090.0,
    clock_error_s=0.00012,
    unmeasured_clocks=0,
    damaged=(),
    quarantined=0,
    refusals=None,
    disk_free_bytes=50 << 30,
    disk_size_bytes=100 << 30,
    loop_lag_s=0.001,
    memory_bytes=1 << 27,
    cpu_s=12.5,
    open_files=30,
    threads=5,
)


def condition(**changes: Any) -> Condition:
    return replace(WELL, **changes)
