"""Orders to an end of a benchmark and its reports, with their JSON form between the agent and its child."""

from __future__ import annotations

from typing import Any, NamedTuple

from roofline_agent.calibrate.calibration import Ceiling, ceiling_from_json


class ServeOrder(NamedTuple):
    """Be the receiving end, for so long at most."""

    key: str
    seconds: float
    ends: str = ""  # identities of both agents, that of the sending end first

    @property
    def ticket(self) -> str:
        """What both ends must have, and nobody else has."""
        return f"{self.ends} {self.key}"


class MeasureOrder(NamedTuple):
    """Be the sending end."""

    key: str
    here: str  # hostname of this end
    host: str  # and of the other
    addresses: tuple[str, ...]  # of the other end, best first
    tcp_port: int
    grpc_port: int
    seconds: float  # of each measurement; 0: the default
    quick: bool
    ends: str = ""  # as in ServeOrder

    @property
    def ticket(self) -> str:
        return f"{self.ends} {self.key}"


class Serving(NamedTuple):
    """Where the receiving end listens."""

    addresses: tuple[str, ...]
    tcp_port: int
    grpc_port: int


class Quantiles(NamedTuple):
    """Quantiles over the repeats of a measurement."""

    p5: float
    p25: float
    p50: float
    p75: float
    p95: float
    count: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name


class NetResult(NamedTuple):
    """One measurement, as NetResult of models.proto, where each field is explained."""

    name: str
    transport: str  # "tcp", "grpc"
    pattern: str  # "latency", "bandwidth", "ps"
    payload: str  # "uniform", "random", "skewed"; "" for TCP
    buffers: str  # "small", "medium", "large", "mixed"; "" for a stream of bytes
    buffer_count: int
    message_bytes: int
    serialized: bool
    value: float  # median of the repeats
    unit: str  # "s", "byte/s", "1/s"
    spread: Quantiles
    method: str
    time_ns: int


class BenchReport(NamedTuple):
    """One report of an end: one of the fields; the last one has `done` or `error`."""

    progress: str = ""
    serving: Serving | None = None
    result: NetResult | None = None
    ceilings: tuple[Ceiling, ...] = ()
    notes: tuple[str, ...] = ()
    done: bool = False
    error: str = ""


def to_json(report: BenchReport) -> dict[str, Any]:
    """Only the fields that are set."""
    fields = {name: value for name, value in report._asdict().items() if value}
    for name in ("serving", "result"):
        if name in fields:
            fields[name] = fields[name]._asdict()
    if report.result:
        fields["result"]["spread"] = report.result.spread._asdict()
    if report.ceilings:
        fields["ceilings"] = [ceiling._asdict() for ceiling in report.ceilings]
    return fields


def from_json(value: Any) -> BenchReport:
    """Raises ValueError, TypeError or KeyError for what `to_json` does not write."""
    fields = dict(value)
    if "serving" in fields:
        serving = Serving(**fields["serving"])
        fields["serving"] = serving._replace(addresses=tuple(serving.addresses))
    if "result" in fields:
        result = dict(fields["result"])
        fields["result"] = NetResult(**{**result, "spread": Quantiles(**result["spread"])})
    if "ceilings" in fields:
        fields["ceilings"] = tuple(map(ceiling_from_json, fields["ceilings"]))
    if "notes" in fields:
        fields["notes"] = tuple(fields["notes"])
    return BenchReport(**fields)
