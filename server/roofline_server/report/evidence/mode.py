"""How the ranks of a job step: together, or each for itself."""

from __future__ import annotations

import numpy as np

from ...correlate import windows as step_windows
from ...correlate.steps import OWN
from ...records import rows, take
from ...store.view import JobView, once
from .tables import where


@once
def mode_of(view: JobView) -> str:
    """ "synchronous", "asynchronous", "" where no steps were seen: judged by all steps of the ranks that
    train, whichever are asked for."""
    own = where(view.steps.get("steps", {}), "window", OWN)
    aside = [number for number, key in view.ranks.items() if key.role == "evaluator"]
    if rows(own) and aside:
        own = take(own, ~np.isin(own["rank"], aside))
    if not rows(own):
        return ""
    return "synchronous" if step_windows.synchronous(own) else "asynchronous"
