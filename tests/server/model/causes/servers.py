"""Parameter servers and workers of tests."""

from __future__ import annotations

from roofline_server.model.causes.server_use import ServerSignals, WorkerSignals


def server(name: str = "ps:0", **known: float) -> ServerSignals:
    defaults = {"run": 0.05, "delay": 0.01, "threads_run": 0.1, "threads_delay": 0.02, "cpus": 4}
    return ServerSignals(name, "node", **{"received": 1e6, **defaults, **known})  # type: ignore[arg-type]


def worker(rate: float = 10.0, name: str = "worker:0", **known: float) -> WorkerSignals:
    defaults = {"run": 0.3, "delay": 0.0, "threads_run": 1.2, "threads_delay": 0.0}
    return WorkerSignals(name, rate, **{**defaults, **known})


BUSY = {"run": 0.8, "delay": 0.1, "threads_run": 0.9, "threads_delay": 0.1}
WAITED_FOR = {"unread": 0.4, "unread_readings": 100}
HEALTHY_WORKERS = [worker(), worker(name="worker:1")]
