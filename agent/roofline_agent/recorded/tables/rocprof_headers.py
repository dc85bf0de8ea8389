"""Which of AMD's tables a header is of, and which of several files says most about the same kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from .amd import reading_of
from .rows import Header, cells_of, headers_in

_WORDS = """kind guid agent_id queue_id stream_id process_id thread_id dispatch_id kernel_id kernel_name
correlation_id lds_block_size lds_block_size_v scratch_size scratch_per_workitem vgpr_count accum_vgpr_count
sgpr_count arch_vgpr accum_vgpr sgpr wave_size grid_size workgroup_size lds_per_workgroup gpu_id node_id
pid tid queue_index private_segment_size group_segment_size start_timestamp end_timestamp sig obj
index kernelname gpu-id queue-id queue-index grd wgr lds scr vgpr fbar dispatchns beginns endns completens
durationns"""  # the last two lines are of rocprof before version 2
_IDENTITY = frozenset(_WORDS.split())
_OLD_NAMES = {"fetchsize": "FETCH_SIZE", "writesize": "WRITE_SIZE"}  # before rocprofv3
# Tables of rocprofv3 without kernels: calls of APIs, allocations, agents, samples of the program counter.
_OTHERS = (
    ("domain", "function", "start_timestamp"),
    ("kind", "operation", "start_timestamp"),
    ("node_id", "logical_node_id", "agent_type"),
    ("sample_timestamp", "exec_mask", "dispatch_id"),
)
_DISPATCHES = ("counters", "kernels", "wide")


def kind_of(header: Header) -> str:
    """ "" for a table of another tool."""
    names = set(header.at)
    if {"counter_name", "counter_value", "kernel_name", "dispatch_id"} <= names:
        return "counters"
    if {"kernel_name", "start_timestamp", "end_timestamp"} <= names:
        return "kernels" if "kind" in names else "wide" if {"dispatch_id", "gpu_id"} & names else ""
    if {"kernelname", "gpu-id"} <= names:
        return "wide"
    if {"direction", "start_timestamp", "end_timestamp"} <= names:
        return "copies"
    if {"name", "calls", "totaldurationns"} <= names:
        return "statistics"
    return "others" if any(names.issuperset(some) for some in _OTHERS) else ""


def counters_of(header: Header) -> dict[str, int]:
    """Columns of counters in a table of a row for each dispatch, by the counter's name."""
    return {counter_name(_case(name)): at for at, name in enumerate(header.names) if name not in _IDENTITY}


def counter_name(printed: str) -> str:
    """As rocprofv3 calls it."""
    return _OLD_NAMES.get(printed.lower(), printed)


def _case(name: str) -> str:
    """Counters as the hardware's manual writes them: names of headers are in lower case here."""
    return "_".join(
        part if part in ("sum", "avr", "max", "min") else part.upper() for part in name.split("_")
    )


def kinds_in(heads: Sequence[str]) -> set[str]:
    return {kind_of(header) for head in heads for header in headers_in(head)}


def repeats(head: str, before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether another of the files says more about the kernels of this one: it has other counters of them,
    which FLOPs and bytes follow from, or that are more, or as many and come first. Files with the same
    counters, or with none, are of several processes."""
    mine = counted_in(head)
    heads = [*before, head, *after]
    several = [counted for one in heads if (counted := counted_in(one)) is not None]
    return mine is not None and mine != max(several, key=_worth)


def _worth(counted: frozenset[str]) -> tuple[int, int]:
    reading = reading_of(counted)
    return bool(reading.flops) + bool(reading.hbm_bytes), len(counted)


@lru_cache(maxsize=1024)
def counted_in(head: str) -> frozenset[str] | None:
    """What was counted in the kernels of a file, by its beginning; None where it has no dispatches."""
    kinds = {kind_of(header): header for header in headers_in(head)}
    if not kinds.keys() & set(_DISPATCHES):
        return None
    counted = set(counters_of(kinds["wide"])) if "wide" in kinds else set()
    if "counters" in kinds:
        counted |= _names_in(head, kinds["counters"])
    return frozenset(counted)


def _names_in(head: str, header: Header) -> set[str]:
    """Of a table with a row for each counter."""
    rows = filter(None, map(cells_of, head.splitlines()))
    named = {
        counter_name(row[header.at["counter_name"]].strip()) for row in rows if len(row) == len(header.names)
    }
    return {name for name in named if name.lower() != "counter_name"}
