"""CPU time, memory and TCP bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roofline.answers.values import Provenance, Scope, Value, value

from ...sentences import origins, reasons
from ..evidence import NS, CounterEvidence, RankEvidence, reason_of
from .rates import Counter, counter_rate, coverage_of, per_window

_MEASURED = Provenance.MEASURED


def _origin(counters: Iterable[CounterEvidence | None]) -> Provenance:
    return Provenance.ESTIMATED if any(one.estimated for one in counters if one is not None) else _MEASURED


def resources(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    no_process = reason_of(ranks, "cpu", reasons.NOT_SAMPLED)
    no_tcp = reason_of(ranks, "tcp", reasons.NO_CONNECTIONS)
    stepping = any(len(r.steps.step) for r in ranks)
    samples = [r.samples_per_step for r in ranks if r.samples_per_step is not None]
    blurred = origins.interpolated(min(samples)) if samples and min(samples) < 2 else ""

    def per_step(counters: list[CounterEvidence], unit: str, scale: float, missing: str) -> Value:
        if counters:
            missing = reasons.BETWEEN_SAMPLES if stepping else reasons.NO_STEPS
        # Counters of a rank without steps are those of its whole life.
        number = per_window(counters, ranks, scale) if stepping else None
        return value(number, unit, _origin(counters), scope, coverage_of(counters, ranks), blurred, missing)

    def rate(counter: Counter, unit: str, scale: float, missing: str) -> Value:
        origin = _origin(map(counter, ranks))
        return value(counter_rate(ranks, counter, scale), unit, origin, scope, missing=missing)

    cpu = [r.cpu_ns for r in ranks if r.cpu_ns is not None]
    sent = [r.sent for r in ranks if r.sent is not None]
    received = [r.received for r in ranks if r.received is not None]
    peak = max((r.rss_peak for r in ranks if r.rss_peak is not None), default=None)
    of_several = origins.LARGEST_OF_RANKS if len(ranks) > 1 else ""
    return {
        "cpu_time_per_step": per_step(cpu, "s", NS, no_process),
        "cpu_utilization": rate(lambda r: r.cpu_ns, "1", NS, no_process),
        "memory_peak": value(peak, "byte", _MEASURED, scope, reason=of_several, missing=no_process),
        "sent_bytes_per_step": per_step(sent, "byte", 1, no_tcp),
        "received_bytes_per_step": per_step(received, "byte", 1, no_tcp),
        "sent_bytes_per_second": rate(lambda r: r.sent, "byte/s", 1, no_tcp),
        "received_bytes_per_second": rate(lambda r: r.received, "byte/s", 1, no_tcp),
    }
