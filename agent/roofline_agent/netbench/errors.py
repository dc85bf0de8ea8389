"""Why a network benchmark, or one of its measurements, cannot be had."""

from __future__ import annotations


class NetBenchError(Exception):
    """The text says what happened, why, and what to do."""
