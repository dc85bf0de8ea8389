"""From what was counted and what was done to checks. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from .validation import Check, Unchecked
from .works import Expectation, KnownWork

MOST_BY_OTHERS = 0.5  # of the work: with more of others' what is taken off for it is no longer known well
LEAST_WATTS, MOST_WATTS = 1.0, 1000.0  # of a socket that computes
OF_IDLE = 0.95  # what is read while nothing is done is no more exact than this


class Observation(NamedTuple):
    """One run as one metric shows it."""

    counted: float
    done: float
    whole: float  # to which an error is relative
    unsure: float = 0.0  # so much more may have been done
    by_others: float = 0.0  # what others did meanwhile, as far as known; not in `counted`

    @property
    def error(self) -> float:
        return (self.counted - self.done) / self.whole


def power(busy_watts: float, idle_watts: float, sockets: int) -> Observation:
    """What a plausible reading would be: this one, or the nearest that is plausible."""
    least = max(LEAST_WATTS * sockets, OF_IDLE * idle_watts)
    nearest = min(max(busy_watts, least), MOST_WATTS * sockets)
    return Observation(busy_watts, nearest, nearest)


def judge(
    expectation: Expectation,
    work: KnownWork,
    unit: str,
    observations: Sequence[Observation],
    time_ns: int,
    why_none: str = "",
) -> Check | Unchecked:
    """What the runs say of the metric. why_none: why there is nothing of some runs."""
    source, metric = expectation.source, expectation.metric
    if not observations:
        return Unchecked(source, metric, f"{work.text}: {why_none or 'no run was made'}", time_ns=time_ns)
    share = statistics.median(one.by_others / one.whole for one in observations)
    if share > MOST_BY_OTHERS:
        why = f"{work.text}: others on this node did {share:.0%} as much meanwhile"
        return Unchecked(source, metric, why, "validate again while the node is idle", time_ns)
    errors = [one.error for one in observations]
    unsure = statistics.median(one.unsure / one.whole for one in observations)
    return Check(
        source=source,
        metric=metric,
        work=work.text,
        unit=unit,
        done=statistics.median(one.done for one in observations),
        whole=statistics.median(one.whole for one in observations),
        least=min(errors),
        median=statistics.median(errors),
        most=max(errors),
        tolerance=expectation.tolerance + unsure,
        runs=len(errors),
        lower_bound=expectation.lower_bound,
        time_ns=time_ns,
    )
