"""A job as a line of the list of jobs."""

from __future__ import annotations

from roofline.answers.jobs import Job

from ...store.view import JobView
from .exits import rank_ends, state_of
from .members import extent, is_running, nodes_of, role_order


def summarize_job(view: JobView, now_ns: int) -> Job:
    begin, end = extent(view)
    roles: dict[str, int] = {}
    for key in view.ranks.values():
        roles[key.role] = roles.get(key.role, 0) + 1
    ordered = dict(sorted(roles.items(), key=lambda item: role_order(item[0])))
    hosts = sorted({view.machines[n].host for n in nodes_of(view)})
    return Job(
        view.job,
        begin,
        end,
        len(view.ranks),
        ordered,
        hosts,
        is_running(view, now_ns),
        dict(view.tags),
        state_of(view, rank_ends(view, now_ns)).words,
    )
