"""Energy of each socket's package, memory and cores, as the processor counts it (RAPL).

Linux shows the counters as power zones (Documentation/power/powercap/powercap.rst): a zone per package, with
zones for `core` and `dram` below it. Each counts microjoules and starts again at 0 behind
`max_energy_range_uj`, after about three quarters of an hour at 100 W. The zone of the whole platform (psys)
holds the packages once more and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..records import CounterSet, Metric, MetricKind, Rank, Sample, Scope, SourceSettings, SourceStatus
from .files import CounterFile, as_number, cpu_flags, names_in, read_once

METRICS = (
    Metric("energy_package_joules", MetricKind.CUMULATIVE, "J", Scope.SOCKET, is_double=True),
    Metric("energy_dram_joules", MetricKind.CUMULATIVE, "J", Scope.SOCKET, is_double=True),
    Metric("energy_cores_joules", MetricKind.CUMULATIVE, "J", Scope.SOCKET, is_double=True),
)
_COLUMN_OF = {b"dram": 1, b"core": 2}
_MICROJOULES = 1e6
# "intel-rapl" speaks for AMD too; "intel-rapl-mmio" shows the same packages by another way.
_ZONE = re.compile(r"(intel-rapl(?:-[a-z]+)?):(\d+)(:\d+)?")
_PACKAGE = re.compile(rb"package-(\d+)")

ADVICE = (
    "run the agent as root, or let others read the counters: chmod a+r /sys/class/powercap/*/energy_uj "
    "(after each boot; a udev rule does the same)"
)


class _Socket:
    """The zones of one socket by column; dies of one package are added up."""

    def __init__(self) -> None:
        self.zones: tuple[list[CounterFile], ...] = ([], [], [])

    def values(self) -> tuple[float | None, ...]:
        """Joules by column; None for a column of which a zone is missing or cannot be read."""
        joules = []
        for zones in self.zones:
            counts = [zone.count() for zone in zones]
            known = [count for count in counts if count is not None]
            complete = bool(known) and len(known) == len(counts)
            joules.append(sum(known) / _MICROJOULES if complete else None)
        return tuple(joules)


class RaplSource:
    """Counter set "rapl": one row per socket, for the node."""

    name = "rapl"
    fills = "energy per step and second"
    measures = False
    counter_set = CounterSet("rapl", METRICS)

    def __init__(self, settings: SourceSettings) -> None:
        self._clock = settings.clock
        self._root = f"{settings.sys}/class/powercap"
        self._proc = settings.proc
        self._sockets: dict[int, _Socket] | None = None

    def probe(self) -> SourceStatus:
        sockets = self._find_sockets()
        if not sockets:
            return self._why_none()
        readable = [socket for socket in sockets.values() if any(v is not None for v in socket.values())]
        if not readable:
            reason = (
                f"{self._root}/*/energy_uj is not readable for this user (for root alone since Linux 5.10)"
            )
            return SourceStatus(self.name, False, reason, ADVICE)
        return SourceStatus(self.name, True)

    def _why_none(self) -> SourceStatus:
        if b"hypervisor" in cpu_flags(self._proc):
            reason, advice = "a virtual machine sees no energy counters", "run on bare metal"
        elif any(_ZONE.fullmatch(name) for name in names_in(self._root)):
            reason = f"{self._root} has no zone of a processor's package"
            advice = "needs a CPU that counts its energy (Intel RAPL, AMD Zen)"
        else:
            reason = f"no power zones in {self._root}: the driver is not loaded, or a container hides them"
            advice = "modprobe intel_rapl_msr on the host; in a container give it the host's /sys"
        return SourceStatus(self.name, False, reason, advice)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        if self._sockets is None:
            self._sockets = self._find_sockets()
        rows = []
        for number, socket in self._sockets.items():
            now = self._clock()
            values = socket.values()
            if any(value is not None for value in values):
                rows.append(Sample(None, now, values, f"socket {number}"))
        return rows

    def _find_sockets(self) -> dict[int, _Socket]:
        self.close()
        zones = [match for name in names_in(self._root) if (match := _ZONE.fullmatch(name))]
        sockets: dict[int, _Socket] = {}
        kind_of: dict[int, str] = {}
        for zone in sorted(zones, key=lambda zone: zone[1]):
            package = _PACKAGE.match(self._name_of(f"{zone[1]}:{zone[2]}"))
            column = _COLUMN_OF.get(self._name_of(zone[0])) if zone[3] else 0
            if package is None or column is None:
                continue
            number = int(package[1])
            # The first kind that has a socket speaks for it: two would count it twice.
            if kind_of.setdefault(number, zone[1]) != zone[1]:
                continue
            directory = f"{self._root}/{zone[0]}"
            top = as_number(read_once(f"{directory}/max_energy_range_uj"))
            counter = CounterFile(f"{directory}/energy_uj", top + 1 if top else None)
            sockets.setdefault(number, _Socket()).zones[column].append(counter)
        self._sockets = dict(sorted(sockets.items()))
        return self._sockets

    def _name_of(self, zone: str) -> bytes:
        return (read_once(f"{self._root}/{zone}/name") or b"").strip()

    def close(self) -> None:
        for socket in (self._sockets or {}).values():
            for zones in socket.zones:
                for zone in zones:
                    zone.close()
        self._sockets = None
