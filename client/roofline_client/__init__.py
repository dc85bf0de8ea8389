"""Asks a roofline server and shows the answer: `connect(address).report(job)`, tables, plots, a CLI."""

from .api import Client, connect
from .errors import ClientError, NotFound, Refused, Unreachable

__all__ = ["Client", "ClientError", "NotFound", "Refused", "Unreachable", "connect"]
__version__ = "0.1.0"
