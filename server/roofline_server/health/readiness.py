"""Decides from a few facts whether a server can take batches, and whether it still makes progress."""

from __future__ import annotations

from typing import NamedTuple

SLOW_COMMIT_S = 10.0


class Facts(NamedTuple):
    """What the decisions need to know."""

    serving: bool  # its port is open
    stopping: bool
    inbox_failure: str  # why the inbox cannot be written; "": it can
    is_full: bool  # agents wait for a sealing
    seal_failure: str
    committing_s: float | None  # how long the commit that is under way has taken; None: none is
    ended: bool  # what commits or seals has ended, and should not have
    catalog_failure: str = ""  # why the catalog takes no nodes


def reasons(facts: Facts) -> tuple[str, ...]:
    """Why the server cannot take batches now; none: it can."""
    found = []
    if facts.ended:
        found.append("what commits or seals has ended by an error: see the log, and restart it")
    if facts.stopping:
        found.append("it is stopping")
    elif not facts.serving:
        found.append("it is starting")
    if facts.inbox_failure:
        found.append(f"the inbox cannot be written ({facts.inbox_failure}); agents keep their data and wait")
    if facts.catalog_failure:
        found.append(f"the catalog cannot be written ({facts.catalog_failure}); agents that connect wait")
    if facts.is_full:
        why = f" (it fails: {facts.seal_failure})" if facts.seal_failure else ""
        found.append(f"sealing is behind{why}; agents keep their data and wait")
    if facts.committing_s is not None and facts.committing_s > SLOW_COMMIT_S:
        found.append(f"a commit has taken {facts.committing_s:.0f} s so far: the disk may hang")
    return tuple(found)


def makes_progress(facts: Facts, patience_s: float) -> bool:
    """Whether a restart would be of no use. A disk that refuses to write is no reason for one, one that has
    not answered for so long is."""
    return not facts.ended and (facts.committing_s is None or facts.committing_s < patience_s)
