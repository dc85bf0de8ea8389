"""Events of a timeline as Horovod writes them."""

from __future__ import annotations

from typing import Any


def begin(name: str, at_us: float, pid: int = 1) -> dict[str, Any]:
    return {"ph": "B", "name": name, "ts": at_us, "pid": pid}


def end(at_us: float, pid: int = 1, **args: str) -> dict[str, Any]:
    return {"ph": "E", "ts": at_us, "pid": pid, **({"args": args} if args else {})}


def started(epoch_us: int) -> dict[str, Any]:
    return {
        "name": "process_name",
        "ph": "M",
        "pid": 0,
        "args": {"start_time_since_epoch_in_micros": epoch_us},
    }


def sized(at_us: float, pid: int, elements: int) -> dict[str, Any]:
    return end(at_us, pid, dtype="float32", shape=f"[{elements}]")
