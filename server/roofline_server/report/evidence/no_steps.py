"""Why a rank has no steps."""

from __future__ import annotations

import numpy as np

from ...correlate.steps import SERVING_ROLES
from ...records import EventKind, rows
from ...sentences import steps as texts
from ...sentences.reasons import NO_STEPS_IN_FILES, ONE_MARK, UNREADABLE
from ...store.view import JobView
from ..ranks.unseen import unseen_ranks
from .reasons import HOOK, has_marked, is_recorded, marks_refused, unreadable


def why_none(view: JobView, number: int) -> str:
    """Why a rank has no steps, and what to do."""
    if "steps" in unreadable(view):
        return UNREADABLE
    if view.ranks[number].role in SERVING_ROLES:
        return texts.NOTHING_SERVED
    facts = view.facts.get(number, {})
    hooks = {name.removeprefix(HOOK): state for name, state in facts.items() if name.startswith(HOOK)}
    failed = [(name, state) for name, state in hooks.items() if state.startswith("failed")]
    if failed:
        return texts.failed_hooks(failed)
    if has_marked(view, number):
        return ONE_MARK
    if hooks and (unseen := unseen_ranks(view)):
        names = [name for one in unseen for name in one.ranks]
        return texts.may_wait_for(names, sum(one.missing for one in unseen))
    if hooks:
        return texts.idle_hooks(list(hooks))
    if not any(who.rank == number for who in view.process_lifetimes):
        return texts.NO_AGENT
    if is_recorded(view, number):
        return NO_STEPS_IN_FILES
    if marks := marks_refused(view, number):
        return texts.refused(marks)
    wrapped = rows(view.events) > 0 and bool(
        np.any((view.events["rank"] == number) & (view.events["kind"] == EventKind.KERNELS_COVERED))
    )
    return texts.NO_HOOK if wrapped else texts.NOT_MARKED
