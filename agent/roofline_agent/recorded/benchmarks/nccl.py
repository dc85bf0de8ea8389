"""Reads nccl-tests' and rccl-tests' tables, and the JSON lines of NCCL's and RCCL's inspector.

Bus bandwidth is what one link must carry (nccl-tests, PERFORMANCE.md). Over several hosts the best one is a
ceiling of the network; within a host it is one of NVLink, which no roofline has, and stays a counter.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..collector import Collector
from ..recording import Counter, RecordedCeiling
from ..tables.rows import number
from ..text import Text

_RANK = re.compile(r"#\s+Rank\s+(\d+) .*\bPid\s+\d+ on\s+(\S+) device\s+(\d+).*?\]\s*(.*)")
_VERSION = re.compile(r"# nccl-tests version ([\d.]+)|nccl-headers=(\d+)")
_SIGNS = re.compile(r"^#\s+size\s+count\s+type|algbw\s+busbw", re.M)
_COLLECTIVE = re.compile(r"\b(\w+?)_perf\b|# Collective test starting: (\w+?)_perf")
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


class _NcclTests:
    """One table: a row is a message size, measured out of place and in place."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._hosts: set[str] = set()
        self._ranks = 0
        self._collective = ""
        self._best = 0.0

    def add(self, line: str, at: int) -> None:
        if line.startswith("#"):
            self._comment(line)
            return
        words = _WORDS.findall(line)
        if len(words) < 8 or not words[0].isdigit() or not words[1].isdigit():
            if match := _COLLECTIVE.search(line):
                self._collective = self._collective or (match[1] or match[2])
            return
        # size count type redop root, then time algbw busbw #wrong twice; some lack redop or root
        numbers = [number(word) for word in words]
        ends = [numbers[i] for i in (-2, -6) if len(numbers) >= 6 + (i == -6) * 4]
        rates = [rate for rate in ends if rate is not None]
        wrong = [words[i] for i in (-1, -5) if len(words) >= -i]
        if any(one.isdigit() and int(one) > 0 for one in wrong):
            self._found.warn("results of the collective were wrong (#wrong)", at)
        if not rates:
            return
        self._best = max(self._best, *rates)
        name = f"nccl.{self._collective or 'collective'}.busbw"
        size = int(words[0])
        self._found.counters.append(
            Counter(name, f"{name} of {size} byte", max(rates) * GIGABYTE, "byte/s", "", None, None, "gauge",
                    max(rates), "GB/s")
        )  # fmt: skip

    def _comment(self, line: str) -> None:
        if rank := _RANK.match(line):
            self._ranks += 1
            self._hosts.add(rank[2])
            if rank[4]:
                self._found.facts.setdefault("device", rank[4].strip())
        elif version := _VERSION.search(line):
            self._found.version = self._found.version or version[1] or version[2]
        if match := _COLLECTIVE.search(line):
            self._collective = self._collective or (match[1] or match[2])
        if "Out of bounds values" in line and "FAILED" in line:
            self._found.warn("the collective's own check failed")

    def finish(self) -> None:
        found = self._found
        if self._ranks:
            found.facts.update({"ranks": self._ranks, "hosts": len(self._hosts)})
        if self._collective:
            found.facts["collective"] = self._collective
        if self._best and len(self._hosts) > 1:
            method = (
                f"nccl-tests: best bus bandwidth of {self._collective or 'a collective'}, {self._ranks} ranks"
            )
            rate = self._best * GIGABYTE
            found.ceilings.append(
                RecordedCeiling("network.nccl", NETWORK, NETWORK, "", rate, "byte/s", method)
            )
        elif self._best and len(self._hosts) == 1:
            found.warn("all ranks are on one host: its bus bandwidth is no ceiling of the network")


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
