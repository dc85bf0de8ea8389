"""Where values come from: one file a source, one line here. To add one, copy example.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import ConfigError
from ..records import Source, SourceSettings
from . import cgroup_tree, namespaces
from .cgroup import CgroupSource
from .dcgm import DcgmSource
from .likwid import LikwidSource
from .network import NetworkSource
from .node import NodeSource
from .nvml import NvmlSource
from .own import AgentSource
from .perf import PerfSource
from .perf_system import PerfSystemSource
from .process import ProcessSource
from .rapl import RaplSource
from .resctrl import ResctrlSource
from .tcp import TcpSource

SOURCES: dict[str, Callable[[SourceSettings], Source]] = {
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
    "agent": AgentSource,
}
# Not checked again where they are off: their checks count for up to seconds, which a training would notice,
# and LIKWID goes by what perf can.
CHECKED_ONCE = ("perf", "perf_system", "likwid")
# Why a source that works has nothing of a rank.
UNSEEN = {"tcp": namespaces.why_unseen, "cgroup": cgroup_tree.why_unseen}


def make_sources(names: Sequence[str], settings: SourceSettings) -> dict[str, Source]:
    """The named sources, all without names. Raises ConfigError for an unknown one."""
    for name in names:
        if name not in SOURCES:
            raise ConfigError(f"unknown source {name!r}; known are {', '.join(SOURCES)}")
    return {name: SOURCES[name](settings) for name in names or SOURCES}
