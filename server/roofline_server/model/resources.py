"""CPU time, memory and TCP bytes."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.answers.values import Provenance, Scope, Value, value

from .evidence import NS, CounterEvidence, RankEvidence, reason_of
from .rates import Counter, counter_rate, coverage_of, per_window

_MEASURED = Provenance.MEASURED


def resources(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    cpu = [r.cpu_ns for r in ranks if r.cpu_ns is not None]
    no_cpu = reason_of(ranks, "cpu", "its process was not sampled")
    no_tcp = reason_of(ranks, "tcp", "its connections were not counted")
    peaks = [r.rss_peak for r in ranks if r.rss_peak is not None]
    stepping = any(len(r.steps.step) for r in ranks)
    per_step = _interpolated_note(ranks)

    def each(counters: list[CounterEvidence], unit: str, scale: float, missing: str) -> Value:
        # Counters of a rank without steps are those of its whole life.
        number = per_window(counters, ranks, scale) if stepping else None
        why = missing if not counters else "no step lies between two samples" if stepping else "no steps"
        return value(number, unit, _MEASURED, scope, coverage_of(counters, ranks), per_step, why)

    def rate(counter: Counter, unit: str, scale: float, missing: str) -> Value:
        return value(counter_rate(ranks, counter, scale), unit, _MEASURED, scope, missing=missing)

    sent = [r.sent for r in ranks if r.sent is not None]
    received = [r.received for r in ranks if r.received is not None]
    return {
        "cpu_time_per_step": each(cpu, "s", NS, no_cpu),
        "cpu_utilization": rate(lambda r: r.cpu_ns, "1", NS, no_cpu),
        "memory_peak": value(
            max(peaks, default=None),
            "byte",
            _MEASURED,
            scope,
            reason="largest of the ranks" if len(ranks) > 1 else "",
            missing=no_cpu,
        ),
        "sent_bytes_per_step": each(sent, "byte", 1, no_tcp),
        "received_bytes_per_step": each(received, "byte", 1, no_tcp),
        "sent_bytes_per_second": rate(lambda r: r.sent, "byte/s", 1, no_tcp),
        "received_bytes_per_second": rate(lambda r: r.received, "byte/s", 1, no_tcp),
    }


def _interpolated_note(ranks: Sequence[RankEvidence]) -> str:
    known = [r.samples_per_step for r in ranks if r.samples_per_step is not None]
    if not known or min(known) >= 2:
        return ""
    return f"interpolated between samples, {min(known):.2g} a step: single steps are blurred, the mean is not"
