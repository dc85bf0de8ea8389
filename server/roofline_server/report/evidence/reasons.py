"""Why a kind of evidence of a rank is absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from roofline.answers.machines import SourceStatus

from ...records import RECORDED, EventKind, rows
from ...sentences import reasons as texts
from ...sentences.wording import joined
from ...store.view import JobView, once
from ..ranks.members import processes_of_ranks
from .node_counters import DRAM, ENERGY

# Of evidence whose absence has a reason.
KINDS = ("steps", "phases", "wait", "examples", "flops", "perf", "cpu", "tcp", "dram", "energy")
SAMPLED = "cost.kernels"  # the fact of a rank whose kernels are recorded in a sample of its steps
A_MARK = "a mark "  # how what agents say of a mark that they refused begins
SENT_WITHIN_NS = 10_000_000_000  # after it was refused
HOOK = "hook."  # how the names of facts begin that are states of hooks


# What is absent where files of a dataset cannot be read; all of it without the steps.
HELD = {"process": "cpu", "tcp": "tcp", "kernels": "flops", "calls": "flops", "spans": "phases"}


def reasons_of(view: JobView, number: int, uses_gpu: bool = False) -> dict[str, str]:
    return _reported(view, number, uses_gpu) | dict.fromkeys(unreadable(view), texts.UNREADABLE)


def is_recorded(view: JobView, number: int) -> bool:
    """Whether all that is known of a rank comes from files."""
    processes = processes_of_ranks(view).get(number, [])
    return bool(processes) and all(who.framework == RECORDED for who in processes)


def has_marked(view: JobView, number: int) -> bool:
    """Whether a rank that has ended is known to have marked the end of a step."""
    mine = processes_of_ranks(view).get(number, [])
    return any(view.process_lifetimes[who].ending.step is not None for who in mine)


@once
def marks_refused(view: JobView, number: int) -> str:
    """Which marks of a rank were refused, or of unknown ranks on its nodes while it was there, which may have
    been its own; "": none."""
    if rows(view.events):
        mine = (view.events["rank"] == number) & (view.events["kind"] == EventKind.REFUSED)
        if marks := _of_marks(view.events["text"][mine]):
            return marks
    for who in processes_of_ranks(view).get(number, []):
        life, events = view.process_lifetimes[who], view.watched.get(who.node, {})
        if rows(events):
            then = (events["end_ns"] >= life.first_ns) & (events["time_ns"] <= life.last_ns + SENT_WITHIN_NS)
            if marks := _of_marks(events["text"][then & (events["kind"] == EventKind.REFUSED)]):
                return marks
    return ""


def _of_marks(refused: NDArray[Any]) -> str:
    """The first of these texts that is about marks; "": none."""
    return next((text for text in map(str, refused.tolist()) if text.startswith(A_MARK)), "")


@once
def unreadable(view: JobView) -> Sequence[str]:
    """The kinds of evidence that may be absent because files are damaged or missing."""
    datasets = {path.split("/")[-2] for path in view.damaged}
    if "steps" in datasets:
        return KINDS
    names = {dataset.removeprefix("steps_").removeprefix("samples_") for dataset in datasets}
    kinds = {**HELD, **dict.fromkeys(DRAM, "dram"), **dict.fromkeys(ENERGY, "energy")}
    return sorted({kinds[name] for name in names & kinds.keys()})


def _reported(view: JobView, number: int, uses_gpu: bool) -> dict[str, str]:
    facts = view.facts.get(number, {})
    hooks = {name.removeprefix(HOOK): state for name, state in facts.items() if name.startswith(HOOK)}
    steps = {"steps": texts.no_step_marks(hooks, marks_refused(view, number), has_marked(view, number))}
    processes = processes_of_ranks(view).get(number, [])
    if not processes:
        return steps | dict.fromkeys(("cpu", "tcp", "flops", "dram", "energy"), texts.NO_AGENT)
    if is_recorded(view, number):
        kinds = ("cpu", "tcp", "flops", "perf", "dram", "energy")
        return {"steps": texts.NO_STEPS_IN_FILES} | dict.fromkeys(kinds, texts.NOT_IN_FILES)
    nodes = tuple(sorted({who.node for who in processes}))
    if uses_gpu:  # perf, or a wrapper for kernels of CPUs, would not help
        return steps | _of_sources(view, nodes, "") | {"flops": texts.GPU_NOT_RECORDED}
    wrapped = number in _wrapped(view)
    flops = texts.LIBRARIES_IDLE if wrapped else texts.NOT_WRAPPED
    if not wrapped and SAMPLED in facts:
        flops = texts.NO_SAMPLED_STEP
    return steps | _of_sources(view, nodes, flops)


@once
def _wrapped(view: JobView) -> set[int]:
    """Ranks that `roofline-agent run` started: their kernels would have been recorded."""
    events = view.events
    if not rows(events):
        return set()
    return set(np.unique(events["rank"][events["kind"] == EventKind.KERNELS_COVERED]).tolist())


@once
def _of_sources(view: JobView, nodes: Sequence[int], flops: str) -> dict[str, str]:
    """Of ranks on these nodes; flops: why theirs are not known."""
    sources = {source.name: source for node in nodes for source in view.machines[node].sources}
    reasons = {
        "flops": flops,
        "dram": _why_no(DRAM, sources, "DRAM traffic"),
        "energy": _why_no(ENERGY, sources, "energy"),
    }
    perf = sources.get("perf")
    if perf is not None and not perf.works:
        reasons["flops"] = joined(reasons["flops"], perf.reason)
        reasons["perf"] = perf.reason
    for kind, name in (("cpu", "process"), ("tcp", "tcp")):
        source = sources.get(name)
        if source is None:
            reasons[kind] = texts.not_configured(name)
        elif not source.works:
            reasons[kind] = source.reason
    return reasons


def _why_no(counters: Mapping[str, object], sources: Mapping[str, SourceStatus], what: str) -> str:
    """Why none of these counter sets gave a value."""
    known = [sources[name] for name in counters if name in sources]
    off = [(source.name, source.reason) for source in known if not source.works]
    if not known:
        return texts.no_source(what)
    return texts.not_shared_out(what) if len(off) < len(known) else texts.nothing_reads(what, off)
