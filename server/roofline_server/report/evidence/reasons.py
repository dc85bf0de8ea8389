"""Why a kind of evidence of a rank is absent, in words for its owner."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from roofline.answers.machines import SourceStatus

from ...records import RECORDED, EventKind, rows
from ...store.view import JobView
from .node_counters import DRAM, ENERGY

# Of evidence whose absence has a reason.
KINDS = ("steps", "phases", "wait", "examples", "flops", "perf", "cpu", "tcp", "dram", "energy")


def reasons_of(view: JobView, number: int) -> dict[str, str]:
    hooks = _why_no_steps(view.facts.get(number, {}))
    return {**hooks, **_reasons_of_sources(view, number)}


def _why_no_steps(facts: Mapping[str, str]) -> dict[str, str]:
    """What its hooks say of a rank whose steps, or phases, were not seen."""
    hooks = {name.removeprefix("hook."): said for name, said in facts.items() if name.startswith("hook.")}
    advice = "mark them with roofline_step, or give `roofline-agent run --step-regex`"
    if not hooks:
        return {"steps": f"no step marks were received, and no framework with a hook was imported; {advice}"}
    told = ", ".join(f"{name} {said}" for name, said in sorted(hooks.items()))
    return {"steps": f"no step marks were received (hooks: {told}); {advice}"}


def _reasons_of_sources(view: JobView, number: int) -> dict[str, str]:
    nodes = {who.node for who in view.process_lifetimes if who.rank == number}
    if not nodes:
        elsewhere = "only its coordinator spoke of it: no agent watches its process"
        return dict.fromkeys(("cpu", "tcp", "flops", "dram", "energy"), elsewhere)
    lives = [who for who in view.process_lifetimes if who.rank == number]
    if all(who.framework == RECORDED for who in lives):
        return dict.fromkeys(
            ("cpu", "tcp", "flops", "perf", "dram", "energy"),
            "the recorded files do not hold it, or not of this rank",
        )
    events = view.events
    covered = rows(events) and (events["rank"] == number) & (events["kind"] == EventKind.KERNELS_COVERED)
    wrapped = bool(np.any(covered))
    status = {s.name: s for n in nodes for s in view.machines[n].sources}
    reasons = {
        "flops": "its oneDNN and MKL executed nothing"
        if wrapped
        else "not started by `roofline-agent run`: no kernels",
        "dram": _why_no(DRAM, status, "DRAM traffic"),
        "energy": _why_no(ENERGY, status, "energy"),
    }
    perf = status.get("perf")
    if perf is not None and not perf.works:
        reasons["flops"] += f"; {perf.reason}"
        reasons["perf"] = perf.reason
    for kind, source in (("cpu", "process"), ("tcp", "tcp")):
        state = status.get(source)
        if state is None:
            reasons[kind] = f"source {source} is not configured"
        elif not state.works:
            reasons[kind] = state.reason
    return reasons


def _why_no(counters: Mapping[str, object], status: Mapping[str, SourceStatus], what: str) -> str:
    """Why none of these sources gave a value."""
    known = [status[name] for name in counters if name in status]
    off = [f"{s.name}: {s.reason}" for s in known if not s.works]
    if not known:
        return f"no source on this node reads {what}"
    if len(off) < len(known):
        return f"{what} was read, but there are no steps, or no CPU times, to share it out by"
    return f"nothing reads {what} on this node ({'; '.join(off)})"
