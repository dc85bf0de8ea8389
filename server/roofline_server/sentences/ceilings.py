"""What to know about the ceilings and the hardware that a job is reported against."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.texts import listed

MOST_NAMES = 4  # of ceilings in a note


def late(host: str, names: Sequence[str], measured: bool, after: bool) -> str:
    """names: "gpu 0 peak.f32", "net.tcp to b"; none: all that are used. measured: it is known when they were;
    else they came with a later report. after: the job; else while it ran."""
    which = f" ({listed(list(names), MOST_NAMES)})" if names else ""
    how = "were measured" if measured else "came"
    return f"ceilings of {host}{which} {how} {'after the job' if after else 'while the job ran'}"


def changed(host: str, version: int) -> str:
    what = f"ceilings or hardware of {host} changed while the job ran"
    return f"{what}: what held at its begin is used (version {version})"
