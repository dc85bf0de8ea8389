"""Bounds of a closed queueing network, whose stations are the parameter servers and their links.

N workers compute for Z seconds and then need D seconds of a server for each step. Only bounds are computed,
because workers do not arrive independently: at a busy server they fall into step, pull together and compute
together (operational analysis: Denning and Buzen, "The Operational Analysis of Queueing Network Models", ACM
Computing Surveys 10(3), 1978; asymptotic bounds: Lazowska, Zahorjan, Graham and Sevcik, "Quantitative System
Performance", 1984, chapter 5). Z is solved from the measured rate, so at the measured point both bounds agree
with it. Pulls from several servers depend on each other, so the largest demand counts, not the sum.
"""

from __future__ import annotations

from typing import NamedTuple


class Bounds(NamedTuple):
    low: float
    high: float


def rate_if_all_queue(customers: float, think: float, demand: float) -> float:
    """Steps a second where all customers queue for the station at once: N / (Z + N D), the lower bound. Also
    the rate of synchronous rounds."""
    return customers / (think + customers * demand)


def rate_if_none_queues(customers: float, think: float, demand: float, node: float = 0.0) -> float:
    """Steps a second where nobody queues before a station is saturated: min(N / (Z + D), 1 / D), the upper
    bound. node: seconds of all its CPUs that a step takes on the node that the ranks share."""
    rates = [customers / (think + demand)] if think + demand > 0 else []
    rates += [1 / largest for largest in (max(demand, node),) if largest > 0]
    return min(rates, default=float("inf"))


def think_times(customers: float, rate: float, demand: float) -> Bounds:
    """Z as the two bounds solve it from the measured rate; never below 0."""
    cycle = customers / rate
    return Bounds(max(0.0, cycle - customers * demand), max(0.0, cycle - demand))


def predicted_rates(
    customers: float, rate: float, demand: float, customers_then: float, demand_then: float, node: float = 0.0
) -> Bounds:
    """Steps a second of so many customers at a station of this demand, from the rate that was measured."""
    all_at_once, nobody = think_times(customers, rate, demand)
    ends = (
        min(rate_if_all_queue(customers_then, all_at_once, demand_then), 1 / node if node else float("inf")),
        rate_if_none_queues(customers_then, nobody, demand_then, node),
    )
    return Bounds(min(ends), max(ends))


def cycle_then(cycle: float, customers: float, demand: float, demand_then: float) -> float:
    """Seconds of a worker's step with another demand: T' = T - N (D - D'). It never falls below D'."""
    return max(cycle - customers * (demand - demand_then), demand_then)
