"""Phrases in answers by which the client decides what to show: server and client take them from here."""

from __future__ import annotations

from .texts import many

WHOLE_RUN = "in the whole run"  # of numbers of ranks without steps
NOT_KNOWN = "not known"  # in names of parts of FLOPs: their precision or width is not known
OF_LAYERS = "layers are those of"  # how a breakdown's note about its layers begins
AFTER_BREAK = "after a break"  # why steps are left out


def steps_left_out(count: int, reason: str) -> str:
    """ "2 warm-up steps", "10 steps after a break"."""
    return f"{many(count, 'step')} {reason}" if reason == AFTER_BREAK else many(count, f"{reason} step")
