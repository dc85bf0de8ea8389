"""Bytes and packets through the node's network interfaces, and through its InfiniBand and RoCE ports.

Interfaces come from /proc/net/dev, read once for all, in the agent's own network namespace: the loopback (on
one node it carries what parameter servers and workers send each other), network cards that are up, and
virtual interfaces that are up and have carried something. Virtual ports of a bridge are left out, for the
bridge counts their bytes too. The same bytes may still pass several interfaces (a bond and its cards), so
rows are to be read by interface, not added up.

Ports come from /sys/class/infiniband (Documentation/ABI/stable/sysfs-class-infiniband), where data is counted
in words of four bytes. Their traffic (RDMA) passes no interface. Each number is asked of the card's firmware,
hence once a second.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from ..records import CounterSet, Metric, MetricKind, Rank, Sample, Scope, SourceSettings, SourceStatus
from .files import MOST, KeptFile, as_number, names_in, read_once, within

METRICS = (
    Metric("nic_received_bytes", MetricKind.CUMULATIVE, "byte", Scope.NODE),
    Metric("nic_sent_bytes", MetricKind.CUMULATIVE, "byte", Scope.NODE),
    Metric("nic_received_packets", MetricKind.CUMULATIVE, "1", Scope.NODE),
    Metric("nic_sent_packets", MetricKind.CUMULATIVE, "1", Scope.NODE),
    Metric("nic_dropped", MetricKind.CUMULATIVE, "1", Scope.NODE),
    Metric("nic_link_bytes_per_second", MetricKind.GAUGE, "byte/s", Scope.NODE),
)
_CHOOSE_EVERY_NS = 4_900_000_000
_PORTS_EVERY_NS = 900_000_000
_MAX_INTERFACES = 32
_IS_UP = 1  # IFF_UP, netdevice(7)
_SPEED_EVERY_CHOICES = 12  # the driver is asked under a lock of the kernel's
_ACTIVE = b"4:"  # the state of a port that carries data
_WORD = 4  # bytes
_IN_WORDS = ("_data", "_data_64")
_SATURATED = 2**32 - 1  # where a card's old 32-bit counter stops
_RATE = re.compile(rb"(\d{1,6}(?:\.\d+)?) Gb/sec")
# As in METRICS up to the drops; the extended names are those of kernels before 4.6.
_PORT_FILES = (
    ("counters/port_rcv_data", "counters_ext/port_rcv_data_64"),
    ("counters/port_xmit_data", "counters_ext/port_xmit_data_64"),
    ("counters/port_rcv_packets", "counters_ext/port_rcv_packets_64"),
    ("counters/port_xmit_packets", "counters_ext/port_xmit_packets_64"),
    ("counters/port_xmit_discards", ""),
)


class Traffic(NamedTuple):
    """Counts of one interface, in the order of METRICS."""

    received_bytes: int
    sent_bytes: int
    received_packets: int
    sent_packets: int
    dropped: int


def parse_interfaces(text: bytes | None) -> dict[str, Traffic]:
    """Interface -> its traffic, from /proc/net/dev; a line that is none is left out."""
    found = {}
    for line in (text or b"").splitlines():
        label, _, numbers = line.rpartition(b":")
        name, words = label.strip().decode(errors="replace"), numbers.split()
        if name and name.isprintable() and len(words) >= 12:
            try:
                received, received_packets, _, received_dropped = map(int, words[:4])
                sent, sent_packets, _, sent_dropped = map(int, words[8:12])
            except ValueError:
                continue
            dropped = received_dropped + sent_dropped
            traffic = Traffic(received, sent, received_packets, sent_packets, dropped)
            if max(traffic) <= MOST:
                found[name] = traffic
    return found


class _Port:
    """One port of an InfiniBand or RoCE card."""

    def __init__(self, directory: str) -> None:
        self._files = []
        for name, extended in _PORT_FILES:
            found = extended if extended and os.path.exists(f"{directory}/{extended}") else name
            self._files.append(KeptFile(f"{directory}/{found}", 32))
        self._rate = KeptFile(f"{directory}/rate", 64)

    def values(self) -> tuple[int | None, ...]:
        counts: list[int | None] = []
        for file in self._files:
            count = file.number()
            if count == _SATURATED:
                count = None
            if count is not None and file.path.endswith(_IN_WORDS):
                count = within(count * _WORD)
            counts.append(count)
        found = _RATE.match(self._rate.read() or b"")
        return (*counts, int(float(found[1]) * 1e9 / 8) if found else None)

    def close(self) -> None:
        for file in (*self._files, self._rate):
            file.close()


class NetworkSource:
    """Counter set "network": a row per interface, and once a second one per port, for the node."""

    name = "network"
    fills = "bytes through the node's network interfaces"
    measures = False
    counter_set = CounterSet("network", METRICS)

    def __init__(self, settings: SourceSettings) -> None:
        self._clock = settings.clock
        self._proc = settings.proc
        self._class = f"{settings.sys}/class/net"
        self._cards = f"{settings.sys}/class/infiniband"
        self._list = KeptFile(f"{settings.proc}/net/dev", 1 << 16, is_list=True)
        self._names: frozenset[str] = frozenset()
        self._chosen: dict[str, int | None] = {}  # interface -> bytes per second of its link
        self._ports: dict[str, _Port] = {}
        self._choices = 0
        self._chosen_ns = self._ports_ns = -(1 << 62)

    def probe(self) -> SourceStatus:
        if not parse_interfaces(self._list.read()):
            return SourceStatus(self.name, False, f"{self._list.path} lists no network interface")
        try:
            is_apart = os.readlink(f"{self._proc}/self/ns/net") != os.readlink(f"{self._proc}/1/ns/net")
        except OSError:
            is_apart = False
        note = "in a network namespace of its own: only that one's interfaces" if is_apart else ""
        return SourceStatus(self.name, True, note)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        now = self._clock()
        found = parse_interfaces(self._list.read())
        if now - self._chosen_ns > _CHOOSE_EVERY_NS or found.keys() != self._names:
            self._chosen_ns = now
            self._choose_interfaces(found)
            self._find_ports()
        rows = [
            Sample(None, now, (*found[name], speed), name)
            for name, speed in self._chosen.items()
            if name in found
        ]
        if self._ports and now - self._ports_ns > _PORTS_EVERY_NS:
            self._ports_ns = now
            for name, port in self._ports.items():
                now, values = self._clock(), port.values()
                if any(value is not None for value in values):
                    rows.append(Sample(None, now, values, name))
        return rows

    def _choose_interfaces(self, found: dict[str, Traffic]) -> None:
        ask_speed = self._choices % _SPEED_EVERY_CHOICES == 0
        self._choices += 1
        self._names = frozenset(found)
        chosen = [name for name, traffic in found.items() if self._is_wanted(name, traffic)]
        chosen.sort(key=self._is_virtual)
        self._chosen = {
            name: self._speed(name) if ask_speed or name not in self._chosen else self._chosen[name]
            for name in chosen[:_MAX_INTERFACES]
        }

    def _is_wanted(self, name: str, traffic: Traffic) -> bool:
        if name == "lo":
            return True
        try:
            is_up = bool(int(read_once(f"{self._class}/{name}/flags", 32) or b"0x1", 16) & _IS_UP)
        except ValueError:
            is_up = True
        if not self._is_virtual(name):
            return is_up
        carried = traffic.received_bytes + traffic.sent_bytes > 0
        return is_up and carried and not self._has(name, "brport")

    def _is_virtual(self, name: str) -> bool:
        return name != "lo" and not self._has(name, "device")

    def _has(self, name: str, part: str) -> bool:
        return os.path.exists(f"{self._class}/{name}/{part}")

    def _speed(self, name: str) -> int | None:
        # The speed of a virtual interface means nothing, but for a bond, which reports that of its cards.
        if self._is_virtual(name) and not self._has(name, "bonding"):
            return None
        megabits = read_once(f"{self._class}/{name}/speed", 32)  # -1: the driver does not know
        speed = as_number(megabits, 1_000_000 // 8)
        return speed if speed is not None and speed > 0 else None

    def _find_ports(self) -> None:
        active: dict[str, str] = {}
        for card in names_in(self._cards):
            for number in names_in(f"{self._cards}/{card}/ports"):
                directory = f"{self._cards}/{card}/ports/{number}"
                state = read_once(f"{directory}/state", 32) or _ACTIVE
                if state.startswith(_ACTIVE):
                    active[f"{card}:{number}"] = directory
        for name in self._ports.keys() - active.keys():
            self._ports.pop(name).close()
        for name in active.keys() - self._ports.keys():
            self._ports[name] = _Port(active[name])

    def close(self) -> None:
        self._list.close()
        for port in self._ports.values():
            port.close()
        self._ports.clear()
