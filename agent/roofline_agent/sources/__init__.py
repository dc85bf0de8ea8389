"""Where values come from: one file a source, one line here. To add one, copy example.py."""

from __future__ import annotations

from collections.abc import Callable

from ..records import Settings, Source
from .perf import PerfSource
from .process import ProcessSource
from .tcp import TcpSource

SOURCES: dict[str, Callable[[Settings], Source]] = {
    "process": ProcessSource,
    "tcp": TcpSource,
    "perf": PerfSource,
}
