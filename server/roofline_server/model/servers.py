"""Which parameter server does not keep up: by what it has not taken, what is on its way to it, if it runs.

Servers are compared with each other, so one alone is named only when it was stopped. That a server is sent
more bytes than the others is no slowness; it is reported on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..sentences import waits as texts
from .stragglers import LEAST_CERTAINTY, Finding


class ServerTimes(NamedTuple):
    """What is known of one parameter server over the job."""

    rank: str
    host: str
    behind: float | None  # share of its samples in which it had not taken what a worker had sent it
    samples: int  # that this share is of
    sending: float | None  # share of the time in which data were on their way to it, mean over workers
    received: float | None  # bytes a second that workers sent it
    cpu_wait: float | None  # seconds a second that its threads waited for a CPU
    stopped: float | None  # share of the steps in which it was seen stopped


MUCH, MORE = 0.2, 1.5  # share of the time that is much, and against the other servers
STOPPED = 0.1
UNEVEN = 1.5  # times its fair part of the bytes


def slow_servers(servers: Sequence[ServerTimes], step_s: float) -> list[Finding]:
    """Parameter servers that keep up worse than the others, or that do not run all the time."""
    found = []
    for server in servers:
        others = [other for other in servers if other is not server]
        evidence, excess = [], 0.0
        for sign in (_more_behind(server, others), _slow_to_reach(server, others)):
            if sign is not None:
                excess = max(excess, sign[0])
                evidence.append(sign[1])
        if server.stopped is not None and server.stopped >= STOPPED:
            excess = max(excess, server.stopped)
            evidence.append(texts.server_stopped(server.stopped))
        if evidence:
            evidence += uneven_servers(servers, of=server)
            found.append(Finding(server.rank, server.host, "server", excess * step_s, excess, 0, 0, evidence))
    return sorted(found, key=lambda f: -f.cost)


def uneven_servers(servers: Sequence[ServerTimes], of: ServerTimes | None = None) -> list[str]:
    """A sentence for each server that gets far more than its part of the bytes. of: of this one alone."""
    if len(servers) < 2:
        return []
    total = sum(s.received or 0 for s in servers)
    found = []
    for server in servers if of is None else [of]:
        share = (server.received or 0) / total if total else 0
        if share * len(servers) > UNEVEN:
            found.append(texts.uneven_bytes(server.rank, share))
    return found


def _more_behind(server: ServerTimes, others: Sequence[ServerTimes]) -> tuple[float, str] | None:
    """How much more of the time than the others it had not taken what was sent to it; None: not clearly."""
    known = [other for other in others if other.behind is not None]
    own = server.behind
    if own is None or not known or own < MUCH:
        return None
    usual = float(np.median([other.behind for other in known]))
    samples = float(np.median([other.samples for other in known]))
    chance = float(
        np.sqrt(own * (1 - own) / max(1, server.samples) + usual * (1 - usual) / max(1.0, samples))
    )
    # Who is sent more has more to take: of its bytes it must be more too.
    fair = np.median([other.received for other in known]) if all(o.received for o in known) else 0.0
    more_bytes = max(1.0, server.received / fair) if server.received and fair else 1.0
    if own < MORE * usual * min(more_bytes, UNEVEN) or own - usual < LEAST_CERTAINTY * chance:
        return None
    return own - usual, texts.server_behind(own, usual)


def _slow_to_reach(server: ServerTimes, others: Sequence[ServerTimes]) -> tuple[float, str] | None:
    """How much longer data for it are on their way than for the others, and not because they are more."""
    known = [(o.sending, o.received) for o in others if o.sending is not None and o.received]
    if server.sending is None or not server.received or not known or server.sending < MUCH:
        return None
    usual = float(np.median([sending for sending, _ in known]))
    per_byte = float(np.median([sending / received for sending, received in known]))
    if server.sending < MORE * usual or server.sending / server.received < MORE * per_byte:
        return None
    return server.sending - usual, texts.server_slow_to_reach(server.sending, usual)
