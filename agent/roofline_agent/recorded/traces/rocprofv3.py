"""Reads what `rocprofv3 --output-format json` writes: dispatches of kernels, their counters, copies.

Kernels, counters and GPUs have numbers in the records; their names come before them in the file. Dispatches
whose counters were collected are there twice if kernels were traced, too: they count once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..collector import Collector
from ..tables.dispatches import NANOSECOND, Dispatch, Dispatches
from ..tables.rows import sizes_of
from ..text import Text
from .json_buffer import Broken, JsonBuffer

_KEY = "rocprofiler-sdk-tool"
_GPU = 2  # type of an agent
_DEPTH = 2  # lists of records lie within an object of the process


def sniff(head: str) -> int:
    return 97 if head.lstrip().startswith("{") and f'"{_KEY}"' in head[:200] else 0


def read(text: Text, found: Collector) -> None:
    found.tool = "rocprofv3"
    json, dispatches = JsonBuffer(text), Dispatches(found)
    try:
        for _ in _processes(json):
            process = _ProfiledProcess(found, dispatches)
            for path, value in json.members(_DEPTH):
                try:
                    process.take(path, value)
                except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
                    where = ".".join(path)
                    found.warn(f"an entry of {where} is not as expected; it is left out", json.line())
    except Broken:
        found.warn("no whole JSON: was it cut off? It is read up to here", json.line())
    dispatches.finish()
    text.line = max(text.line, json.line())


def _processes(json: JsonBuffer) -> Iterator[None]:
    """With the reader at the object of each. Raises Broken."""
    if json.peek() != "{":
        raise Broken(json.at)
    json.at += 1
    while json.peek() != "}":
        is_ours = json.value() == _KEY
        char = json.peek(colon=True)
        if not is_ours:
            json.value()
        elif char == "{":
            yield
        else:
            json.at += 1
            while json.peek() == "{":
                yield
            json.at += 1


class _ProfiledProcess:
    """The names of one process, and what becomes of its records."""

    def __init__(self, found: Collector, dispatches: Dispatches) -> None:
        self._found = found
        self._dispatches = dispatches
        self._kernels: dict[int, str] = {}
        self._counters: dict[int, str] = {}
        self._gpus: dict[int, str] = {}
        self._copies: list[str] = []  # their directions
        self._counted: set[int] = set()  # dispatches
        self._take = {
            ("metadata", "node"): self._node,
            ("metadata", "command"): self._word,
            ("agents",): self._agent,
            ("counters",): self._counter,
            ("strings", "buffer_records"): self._kind,
            ("kernel_symbols",): self._kernel,
            ("callback_records", "counter_collection"): self._collection,
            ("buffer_records", "kernel_dispatch"): self._dispatch,
            ("buffer_records", "memory_copy"): self._copy,
        }

    def take(self, path: tuple[str, ...], value: Any) -> None:
        if (take := self._take.get(path)) is not None:
            take(value)

    def _node(self, node: Any) -> None:
        if host := str(node.get("hostname") or ""):
            self._found.facts["host"] = host[:200]

    def _word(self, word: Any) -> None:
        command = f"{self._found.facts.get('command', '')} {word}".strip()
        self._found.facts["command"] = command[:200]

    def _agent(self, agent: Any) -> None:
        if agent["type"] != _GPU:
            return
        self._gpus[agent["id"]["handle"]] = str(agent["node_id"])
        if name := agent.get("product_name") or agent.get("name"):
            self._found.facts.setdefault("device", str(name)[:200])

    def _counter(self, counter: Any) -> None:
        self._counters[counter["id"]["handle"]] = str(counter["name"])

    def _kind(self, kind: Any) -> None:
        if kind["kind"] == "MEMORY_COPY":
            self._copies = [str(one).lower() for one in kind["operations"]]

    def _kernel(self, kernel: Any) -> None:
        self._kernels[kernel["kernel_id"]] = str(kernel["formatted_kernel_name"] or kernel["kernel_name"])

    def _collection(self, record: Any) -> None:
        counters: dict[str, float] = {}
        for one in record["records"]:  # of each instance of the hardware's unit
            name = self._counters[one["counter_id"]["handle"]]
            counters[name] = counters.get(name, 0.0) + float(one["value"])
        data = record["dispatch_data"]
        dispatch = self._read(data, counters)
        self._dispatches.take(dispatch._replace(are_sums=len(record["records"]) > len(counters)))
        self._counted.add(data["dispatch_info"]["dispatch_id"])

    def _dispatch(self, record: Any) -> None:
        if record["dispatch_info"]["dispatch_id"] not in self._counted:
            self._dispatches.take(self._read(record, {}))

    def _read(self, record: Any, counters: Mapping[str, float]) -> Dispatch:
        info = record["dispatch_info"]
        sizes = [str(info[size][axis]) for size in ("grid_size", "workgroup_size") for axis in "xyz"]
        gpu = self._gpus.get(info["agent_id"]["handle"], "")
        return Dispatch(self._kernels[info["kernel_id"]], _span(record), counters, gpu, sizes_of(*sizes))

    def _copy(self, record: Any) -> None:
        moved = record.get("bytes")
        self._found.phase(
            f"copy {self._copies[record['operation']]}",
            _span(record)[1],
            moved=float(moved) if isinstance(moved, int) else None,
        )


def _span(record: Any) -> tuple[float, float]:
    """Start and duration in seconds. Raises ValueError where it ends before it begins."""
    begin, end = int(record["start_timestamp"]), int(record["end_timestamp"])
    if end < begin:
        raise ValueError(end)
    return begin * NANOSECOND, (end - begin) * NANOSECOND
