"""The fixed phrases of the text tables: headings, legends, remarks on what is left out.

Titles of columns stand with their columns, in the modules that fill them.
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.texts import listed

# -- legends ------------------------------------------------------------------------------------------------

ABSENT = "'-' = not measured"
STEPS_LEGEND = f"{ABSENT}. --format csv or json: all rows, all columns, exact"
MACHINES_LEGEND = f"peaks in FLOP/s on all CPUs, memory and network in byte/s, highest measured; {ABSENT}"
BREAKDOWN_LEGEND = "Values are means of a step; of ranks without steps they are of the whole run."


def comparison_legend(first: str) -> str:
    """first: the machine that the others are compared with."""
    return f"ratios are to {first}; of a time a ratio below 1 is better; {ABSENT}"


def more_phases(names: Sequence[str]) -> str:
    return f"phases that took less time, in CSV and JSON: {listed(names)}"


# -- headings -----------------------------------------------------------------------------------------------

NOTES = "Notes"
REASONS = "Absent, because"

VERDICTS = "Bottleneck"
STEP_TABLE = "Steps"
STEP_TIME = "Where the time of a step goes (means)"
BETWEEN_STEPS = "Between steps (in no step's time: how often, and how long each)"
REPORT_ROOFLINE = "Roofline (each rank against its part of its node; FLOPs and bytes of a step: medians)"
RESOURCES = "Resources (of a step: means)"
NODE_PARTS = "Nodes, devices and peers"
CEILINGS = "Ceilings"
FACTS = "Settings and facts"

POINTS = "Points"
POINT_VERDICTS = "Bottlenecks"
INCOMPLETE_COUNTS = "Incomplete counts"
BATCH_SIZES = "Batch sizes"

CAUSES = "Causes, worst first"
STANDS_ON = "Based on"
WAITS_OVER_TIME = "Waiting over time"
SERVERS = "Parameter servers"

NET_PATTERNS = {
    "latency": "Round trip",
    "bandwidth": "Bandwidth, one direction",
    "ps": "Parameter server, all workers",
}
BREAKDOWN_KINDS = {
    "flops_by_width": "FLOPs by vector width",
    "flops_by_precision": "FLOPs by precision",
    "work_and_memory": "work and memory",
    "traffic_by_level": "traffic by level",
    "kernels_by_time": "kernels by time",
    "stack_by_time": "time of a step by layer of the software",
    "layers_by_time": "traced steps by layer",
    "time": "time of a step",
}


# -- the first screen ---------------------------------------------------------------------------------------

ACCOUNT = "Where a step goes"
_PARTS = {  # titles of parts of an account where they differ from the name
    "gc": "Python gc",
    "wait_ranks": "wait",
    "wait_ps": "PS wait",
}


def part(name: str) -> str:
    """A part of an account; "input|host" is one that cannot be told apart."""
    return " or ".join(_PARTS.get(one, one.replace("_", " ")) for one in name.split("|"))


_WATERFALL = {  # titles of parts of a waterfall that no account has
    "useful": "the model's FLOPs",
    "executed": "FLOPs executed",
    "recompute": "recomputed",
    "precision": "slower precisions",
    "memory": "memory bandwidth",
    "kernels": "below the roof",
    "launch": "launches",
}
_MEASURES = {  # titles where they differ from the name
    "mfu": "MFU",
    "hfu": "HFU",
    "mfu.theoretical": "MFU (theoretical)",
    "hfu.theoretical": "HFU (theoretical)",
    "mfu.sparse": "MFU (sparse peak)",
    "peak.theoretical": "peak (theoretical)",
    "peak.sparse": "peak (sparse)",
    "roofline_utilisation": "of the roofline",
    "model_flops": "model FLOPs",
    "executed_flops": "executed FLOPs",
}


def waterfall_part(name: str) -> str:
    return _WATERFALL.get(name) or part(name)


def measure(name: str) -> str:
    """A number of an efficiency."""
    return _MEASURES.get(name, name.replace("_", " "))


def more_ranks(count: int) -> str:
    return f"  and {count:,} more"


# -- two jobs side by side ----------------------------------------------------------------------------------

SETTINGS_CHANGED = "What differed"
NUMBERS_CHANGED = "What changed (means of steady steps)"
CHANGED = {"step": "step time", "roof_share": "roof share"}
CHANGES_LEGEND = f"within noise: the interval holds no change; too few steps: for an interval; {ABSENT}"


def net_ceilings(host: str) -> str:
    return f"Network ceilings of {host}, kept there"


# -- what is left out ---------------------------------------------------------------------------------------


def more_reasons(count: int) -> str:
    return f"and {count} more: --format json has all of them"


def more_facts(count: int) -> str:
    return f"and {count} more: --format json has all of them"


def more_parts(count: int) -> tuple[str, str]:
    """In the first and in the last column."""
    return f"and {count} more", "--format json or csv has all of them"


def more_points(count: int) -> str:
    return f"and {count:,} more that took less time: --format csv has all of them"


def more_of_panel(count: int) -> str:
    return f"and {count:,} more: --format csv has all of them"


def more_sentences(count: int) -> str:
    return f"and {count} more such sentences: --format csv has all of them"


def more_of_breakdown(count: int) -> str:
    return f"and {count} more: --format csv has all"


def newest_of(shown: int, all_rows: str) -> str:
    return f"the last {shown:,} of {all_rows} (--last N: more, --last 0: all)"
