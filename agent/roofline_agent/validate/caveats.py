"""What a kept validation says against metrics of this node's sources. Pure but for `load`."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from ..machine import Machine
from ..sampler import Caveats
from . import kept
from .errors import ValidationError
from .validation import Check, Validation

log = logging.getLogger(__name__)


def caveats_of(validation: Validation | None, machine: Machine) -> dict[tuple[str, str], str]:
    """Of each metric that was off what speaks against it; none by a validation of another machine."""
    if validation is None or not is_of(validation, machine):
        return {}
    found: dict[tuple[str, str], str] = {}
    for check in validation.off:
        place = check.source, check.metric
        found[place] = "; ".join(filter(None, (found.get(place), described(check))))
    return found


def is_of(validation: Validation, machine: Machine) -> bool:
    return (validation.host, validation.cpu_model) == (machine.host, machine.cpu_model)


def described(check: Check) -> str:
    """ "flops.f32.512 was 20 % too low on 2026-11-25 (fused multiply-adds ...; tolerance 2 %)"."""
    how = "too high" if check.median > 0 else "too low"
    day = time.strftime("%Y-%m-%d", time.localtime(check.time_ns / 1e9))
    return (
        f"{check.metric} was {percent(abs(check.median))} {how} by `roofline-agent validate` on {day} "
        f"({check.work}; tolerance {percent(check.tolerance)})"
    )


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


class KeptCaveats:
    """The caveats of the validation that the daemon keeps now."""

    def __init__(self, state: Path, machine: Machine) -> None:
        self._state, self._machine = state, machine
        self._modified = 0.0
        self.now: Caveats = {}
        self.read()

    def read(self) -> bool:
        """Load what `validate` has kept; True when it is new since the last call."""
        try:
            modified = kept.path_in(self._state).stat().st_mtime
        except OSError:
            modified = 0.0
        if modified == self._modified:
            return False
        self._modified = modified
        try:
            self.now = caveats_of(kept.load(self._state), self._machine)
        except ValidationError as error:
            log.warning("the validation is not used: %s", error)
            return False
        return True
