"""How a server does at one moment, as plain numbers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from ..counts import Histogram


class Distribution(NamedTuple):
    """How many took at most so many seconds (bounds[i]) and more than the bound before; the last: more."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float  # s, of all

    @property
    def number(self) -> int:
        return sum(self.counts)

    @classmethod
    def of(cls, histogram: Histogram) -> Distribution:
        return cls(histogram.bounds, tuple(histogram.counts), histogram.total)


@dataclass(frozen=True)
class Condition:
    """None: not known, or there is none. Times are UNIX time, s."""

    version: str
    python: str
    pid: int
    address: str
    http: str  # URL; "": no port
    started: float
    time: float
    reasons: tuple[str, ...]  # why it is not ready; none: it is

    agents: int
    streams: int
    hold_s: float  # so long agents are asked to gather a batch; 0: as long as they like
    batches: int  # durable since the start
    batches_per_s: float | None  # over the last seconds
    rows: int
    bytes: int
    refused: int
    doubled: int
    inbox_failure: str
    queued_batches: int
    queued_bytes: int
    queue_limit_bytes: int
    commit: Distribution

    unsealed_bytes: int
    unsealed_limit_bytes: int
    seal: Distribution
    seals_failed: int
    seal_failure: str
    last_seal: float | None

    clock_error_s: float | None  # the largest half-width of connected nodes
    unmeasured_clocks: int  # of connected nodes
    damaged: tuple[str, ...]  # files, relative to the data directory
    quarantined: int
    refusals: int | None  # calls that the guard refused; None: everybody is let in
    disk_free_bytes: int | None
    disk_size_bytes: int | None

    loop_lag_s: float  # how late the event loop was lately, at most
    memory_bytes: int | None
    cpu_s: float
    open_files: int | None
    threads: int

    @property
    def ready(self) -> bool:
        return not self.reasons


def to_json(condition: Condition) -> str:
    return json.dumps({"ready": condition.ready, **asdict(condition)})


def from_json(text: str) -> Condition:
    """Raises ValueError for what is no condition of this version."""
    try:
        found: dict[str, Any] = json.loads(text)
        values = {field.name: found[field.name] for field in fields(Condition)}
        for name in ("commit", "seal"):
            bounds, counts, total = values[name]
            values[name] = Distribution(tuple(bounds), tuple(counts), total)
        return Condition(
            **{**values, "reasons": tuple(values["reasons"]), "damaged": tuple(values["damaged"])}
        )
    except (TypeError, KeyError) as error:
        raise ValueError(f"no condition of a server: {error}") from None
