"""Where values come from: one file a source, one line here. To add one, copy example.py."""

from __future__ import annotations

from collections.abc import Callable

from ..records import Settings, Source
from .cgroup import CgroupSource
from .dcgm import DcgmSource
from .likwid import LikwidSource
from .network import NetworkSource
from .node import NodeSource
from .nvml import NvmlSource
from .perf import PerfSource
from .perf_system import PerfSystemSource
from .process import ProcessSource
from .rapl import RaplSource
from .resctrl import ResctrlSource
from .tcp import TcpSource

SOURCES: dict[str, Callable[[Settings], Source]] = {
    "process": ProcessSource,
    "tcp": TcpSource,
    "perf": PerfSource,
    "perf_system": PerfSystemSource,
    "likwid": LikwidSource,
    "node": NodeSource,
    "network": NetworkSource,
    "cgroup": CgroupSource,
    "rapl": RaplSource,
    "resctrl": ResctrlSource,
    "gpu": NvmlSource,
    "dcgm": DcgmSource,
}
