"""Asks a roofline server and shows the answer: `connect(address).job("42")`, tables, plots, a CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import ClientError, NotFound, Refused, Unreachable

if TYPE_CHECKING:
    from .api import Client, connect

__all__ = ["Client", "ClientError", "NotFound", "Refused", "Unreachable", "connect"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """gRPC is loaded when something is asked: `roofline-client --help` need not wait for it."""
    if name not in ("Client", "connect"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import api

    return getattr(api, name)
