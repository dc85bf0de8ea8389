"""Reads nccl-tests' and rccl-tests' tables, and the JSON lines of NCCL's and RCCL's inspector.

Bus bandwidth is what one link must carry (nccl-tests, PERFORMANCE.md). Over several hosts the best one is a
ceiling of the network; within a host it is one of NVLink, which no roofline has, and stays a counter.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..collector import Collector
from ..numbers import finite
from ..recording import Counter, RecordedCeiling
from ..text import Text

_RANK = re.compile(r"#\s+Rank\s+(\d+) .*\bPid\s+\d+ on\s+(\S+) device\s+(\d+).*?\]\s*(.*)")
_VERSION = re.compile(r"# nccl-tests version ([\d.]+)|nccl-headers=(\d+)")
_SIGNS = re.compile(r"^#\s+size\s+count\s+type|algbw\s+busbw", re.M)
_COLLECTIVE = re.compile(r"\b(\w+?)_perf\b")
_HEADER = re.compile(r"#\s+size\s+count\s+type\b")
_BEGINS = re.compile(r"# (?:Collective test starting|nThread |Using devices)")
_CONCLUDED = re.compile(r"# Collective test concluded")
_STAMP = re.compile(r"\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*$")  # of --report_timestamps
_WORDS = re.compile(r"\S+")
GIGABYTE = 1e9
NETWORK = "network"


def sniff(head: str) -> int:
    if '"coll_perf"' in head and '"header"' in head:
        return 95
    return 94 if _SIGNS.search(head) and re.search(r"#.*\bbusbw\b", head) else 0


def read(text: Text, found: Collector) -> None:
    if '"coll_perf"' in text.head:
        _read_inspector(text, found)
        return
    found.tool = "nccl-tests"
    tests = _NcclTests(found)
    for line in text.lines():
        tests.add(line, text.line)
    tests.finish()


class _Columns(NamedTuple):
    """Where rows of a table have their rates and numbers of wrong results, out of place and in place."""

    width: int
    first: int  # the time of the first half
    half: int  # columns of each half, 0 where there is one alone
    rates: tuple[int, ...]
    wrong: tuple[int, ...]

    def cells(self, words: list[str]) -> list[str] | None:
        """Of a row as wide as the header, or one that was measured in place alone; None for others."""
        if self.half and len(words) == self.width - self.half:
            return [*words[: self.first], *[""] * self.half, *words[self.first :]]
        return words if len(words) == self.width else None


@dataclass
class _Test:
    """One collective, from its first line to that of the next."""

    collective: str
    ranks: int = 0
    hosts: set[str] = field(default_factory=set)
    rows: int = 0
    best: float = 0.0  # bus bandwidth, GB/s


class _NcclTests:
    """Tables, in which a row is a message size, measured out of place and in place."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._columns: _Columns | None = None
        self._named = ""  # the collective that a line has named last
        self._test = _Test("")
        self._tests = [self._test]

    def add(self, line: str, at: int) -> None:
        if line.startswith("#"):
            self._comment(line)
            return
        words = _WORDS.findall(_STAMP.sub("", line))
        if len(words) < 7 or not words[0].isdecimal() or not words[1].isdecimal():
            self._name(line)
            return
        cells = self._columns.cells(words) if self._columns else None
        if self._columns is None or cells is None:
            self._found.warn("a row with another number of columns than its header; it is left out", at)
            return
        if any((finite(cells[one]) or 0) > 0 for one in self._columns.wrong):
            self._found.warn("results of the collective were wrong (#wrong)", at)
        rates = [rate for one in self._columns.rates if (rate := finite(cells[one])) is not None]
        if rates:
            self._row(int(words[0]), max(rates))

    def _row(self, size: int, rate: float) -> None:
        test = self._test
        test.rows += 1
        test.best = max(test.best, rate)
        name = f"nccl.{test.collective or 'collective'}.busbw"
        self._found.counters.append(
            Counter(name, f"{name} of {size} byte", rate * GIGABYTE, "byte/s", "", None, None, "gauge",
                    rate, "GB/s")
        )  # fmt: skip

    def _comment(self, line: str) -> None:
        if _BEGINS.match(line) and (self._test.ranks or self._test.rows):
            self._test = _Test(self._named)
            self._tests.append(self._test)
        if rank := _RANK.match(line):
            self._test.ranks += 1
            self._test.hosts.add(rank[2])
            if rank[4]:
                self._found.facts.setdefault("device", rank[4].strip())
        elif version := _VERSION.search(line):
            self._found.version = self._found.version or version[1] or version[2]
        elif _HEADER.match(line):
            self._columns = _columns(line)
        if not _CONCLUDED.match(line):
            self._name(line)
        if "Out of bounds values" in line and "FAILED" in line:
            self._found.warn("the collective's own check failed")

    def _name(self, line: str) -> None:
        if match := _COLLECTIVE.search(line):
            self._named = match[1]
            if not self._test.rows:
                self._test.collective = self._named

    def finish(self) -> None:
        found = self._found
        tests = [one for one in self._tests if one.rows] or self._tests[:1]
        names = dict.fromkeys(one.collective for one in tests if one.collective)
        if names:
            found.facts["collective"] = ", ".join(names)
        if ranks := max(one.ranks for one in tests):
            found.facts.update({"ranks": ranks, "hosts": max(len(one.hosts) for one in tests)})
        measured = [one for one in tests if one.best]
        best = max((one for one in measured if len(one.hosts) > 1), key=lambda one: one.best, default=None)
        if best is not None:
            name = best.collective or "a collective"
            method = f"nccl-tests: best bus bandwidth of {name}, {best.ranks} ranks"
            rate = best.best * GIGABYTE
            found.ceilings.append(
                RecordedCeiling("network.nccl", NETWORK, NETWORK, "", rate, "byte/s", method)
            )
        elif any(one.hosts for one in measured):
            found.warn("all ranks are on one host: its bus bandwidth is no ceiling of the network")


def _columns(header: str) -> _Columns | None:
    """None where it lacks a column of bus bandwidths, as when it was cut."""
    names = [name for name in header.lstrip("# ").split() if name != "timestamp"]
    times = [at for at, name in enumerate(names) if name in ("time", "cputime")]
    rates = tuple(at for at, name in enumerate(names) if name == "busbw")
    if not times or len(times) != len(rates):
        return None
    half = times[1] - times[0] if len(times) > 1 else 0
    wrong = tuple(at for at, name in enumerate(names) if name == "#wrong")
    return _Columns(len(names), times[0], half, rates, wrong)


def _read_inspector(text: Text, found: Collector) -> None:
    """A phase for each collective of a size; the bytes are those of its messages."""
    found.tool = "nccl inspector"
    writers = _Writers()
    for line in text.lines():
        if '"coll_perf"' not in line:
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            _collective(event, writers, found, text.line)
        else:
            found.warn("a line that is no JSON object; it is left out", text.line)
    writers.finish(found)


class _Writers:
    """Who wrote the file. A rank is one of a communicator: the largest is taken for that of the job."""

    def __init__(self) -> None:
        self._processes: set[tuple[str, str]] = set()
        self._largest = 0
        self._ranks: dict[str, set[int]] = {}  # by communicator, of those that are the largest

    def add(self, header: dict[str, Any], metadata: dict[str, Any]) -> None:
        if "pid" in metadata:
            self._processes.add((str(metadata.get("hostname", ""))[:100], str(metadata["pid"])[:20]))
        rank, size = header.get("rank"), header.get("n_ranks")
        if not isinstance(rank, int):
            return
        size = size if isinstance(size, int) else 0
        if size > self._largest:
            self._largest = size
            self._ranks.clear()
        if size == self._largest:
            self._ranks.setdefault(str(header.get("id", ""))[:40], set()).add(rank)

    def finish(self, found: Collector) -> None:
        if self._largest:
            found.facts["world_size"] = self._largest
        count = max([len(self._processes), *map(len, self._ranks.values())])
        ranks = set().union(*self._ranks.values())
        if count > 1:
            found.warn(f"{count} ranks wrote this file: times are sums over them")
        elif len(ranks) == 1:
            found.facts["rank"] = ranks.pop()
        elif ranks:
            found.warn(
                "the rank differs between communicators of the same size: which is the job's is not known"
            )


def _collective(event: dict[str, Any], writers: _Writers, found: Collector, line: int) -> None:
    perf, header = event.get("coll_perf"), event.get("header")
    if not isinstance(perf, dict) or not isinstance(header, dict):
        return
    time_us: Any
    size: Any
    time_us, size = perf.get("coll_exec_time_us"), perf.get("coll_msg_size_bytes")
    if not (_is_quantity(time_us) and _is_quantity(size)):
        found.warn("a collective without a time or a size; it is left out", line)
        return
    metadata = event.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    writers.add(header, metadata)
    found.version = found.version or str(metadata.get("inspector_output_format_version", ""))[:20]
    _place(metadata.get("dump_timestamp_us"), found)
    found.phase(f"nccl {str(perf.get('coll', 'collective')).lower()[:60]}", time_us * 1e-6, 1, float(size))


def _is_quantity(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 <= value < 1e18


def _place(stamp_us: Any, found: Collector) -> None:
    """Dumps have the time at which they were written: the first is the file's begin."""
    if not isinstance(stamp_us, int) or not 0 < stamp_us < 1e16:
        return
    if found.started_ns is None:
        found.started_ns = stamp_us * 1000
    found.duration_s = max(found.duration_s or 0.0, stamp_us * 1e-6 - found.started_ns * 1e-9)
