"""What is printed under every picture: of which jobs, on which machines, when, and how well aligned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from roofline.answers.about import About, MachineAbout
from roofline.answers.values import Provenance, Scope, Value, value

from ..correlate.steps import OWN
from ..model.evidence import NS
from ..model.roofline.roofs import counts
from ..records import rows
from ..sentences import reasons
from ..store.view import JobView
from .ceilings.nodes import ROOFING, ceilings, hosts
from .evidence.gaps import alignment_of
from .evidence.tables import by_rank, where
from .ranks.exits import OF_RUNS
from .ranks.members import extent, nodes_of


def about(views: Sequence[JobView], experiment: str = "") -> About:
    """The caption of these jobs: tags that all of them have, each host once."""
    extents = [extent(view) for view in views]
    # The job is aligned as well as its worst node; not known as soon as that of one node is not.
    errors = [error for view in views for _, error in alignment_of(view)]
    unknown = [error for error in errors if error.value is None]
    if not errors:
        alignment = Value(None, "s", reason=reasons.NO_CLOCK)
    elif unknown:
        alignment = unknown[0]
    else:
        alignment = max(errors, key=lambda error: error.value or 0.0)
    tags = dict(views[0].tags) if views else {}
    return About(
        jobs=[view.job for view in views],
        experiment=experiment,
        begin_ns=min((begin for begin, _ in extents if begin), default=0),
        end_ns=max((end for _, end in extents), default=0),
        machines=_machines(views),
        alignment=alignment,
        step_time=_step_time(views),
        tags={
            name: text
            for name, text in tags.items()
            if not name.startswith(OF_RUNS) and all(view.tags.get(name) == text for view in views)
        },
    )


def _machines(views: Sequence[JobView]) -> list[MachineAbout]:
    """Of a host that several jobs ran on the newest calibration."""
    found: dict[str, MachineAbout] = {}
    for view in views:
        machines = {view.machines[node].host: view.machines[node] for node in sorted(nodes_of(view))}
        for host in hosts(view):
            measured = (c.time_ns for c in ceilings(view, host) if counts(c) and c.kind in ROOFING)
            when = max(measured, default=0)
            if host not in found or when > found[host].calibrated_ns:
                machine = machines[host]
                found[host] = MachineAbout(host, machine.cpu_model, machine.cpus, when)
    return [found[host] for host in sorted(found)]


def _step_time(views: Sequence[JobView]) -> Value:
    """The shortest median of a rank's own steps."""
    medians = []
    for view in views:
        steps = view.steps.get("steps", {})
        if not rows(steps):
            continue
        own = {name: steps[name] for name in ("rank", "window", "begin_ns", "end_ns")}
        for tables in by_rank({"steps": where(own, "window", OWN)}).values():
            mine = tables["steps"]
            medians.append(float(np.median(mine["end_ns"] - mine["begin_ns"])) / NS)
    shortest = min(medians, default=None)
    missing = reasons.NO_RANK_HAS_STEPS
    return value(shortest, "s", Provenance.MEASURED, Scope.PROCESS, missing=missing)
