"""Event number and umask of an event that perf was given as bare codes."""

from __future__ import annotations

import re


def code(event: str) -> tuple[int, int] | None:
    """Event number and umask of r20c7, cpu/event=0xc7,umask=0x20/ or cpu/config=0x20c7/."""
    raw = re.fullmatch(r"r([0-9a-f]{3,8})", event)
    if raw:
        # From bit 16 on only user, kernel, interrupt and enable leave the count what it is.
        config = int(raw[1], 16)
        return (config & 0xFF, config >> 8 & 0xFF) if not config >> 16 & ~0x53 else None
    terms = re.fullmatch(r"[a-z]\w*/(.*)/", event)
    if not terms:
        return None
    given: dict[str, int] = {}
    for term in re.split(r"[,;|]", terms[1]):
        key, _, value = term.strip().partition("=")
        if key in ("cmask", "inv", "edge", "any", "ldlat", "offcore_rsp"):
            return None
        if re.fullmatch(r"0x[0-9a-f]{1,16}|\d{1,18}", value):
            given[key] = int(value, 0) if value.startswith("0x") else int(value)
    if "config" in given and not given["config"] >> 16:
        return given["config"] & 0xFF, given["config"] >> 8
    return (given["event"], given.get("umask", 0)) if "event" in given else None
