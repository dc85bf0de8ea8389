"""The ceilings of this node that its agent reports: from `calibrate` and from network benchmarks."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from .calibrate import store
from .calibrate.calibration import Ceiling
from .calibrate.errors import CalibrationError
from .calibrate.origin import is_of_other_cpu, of_this_node
from .machine import Machine
from .netbench import kept

log = logging.getLogger(__name__)


def ceilings_path(state: Path) -> Path:
    """Where `calibrate` keeps this node's ceilings and the daemon looks for them."""
    return state / "ceilings.json"


class Ceilings:
    """Both kinds, from one state directory."""

    def __init__(self, state: Path, machine: Machine) -> None:
        self._state, self._machine = state, machine
        self._path = os.fspath(ceilings_path(state))
        self._modified = 0.0
        self._measured: tuple[Ceiling, ...] = ()
        self._net: tuple[Ceiling, ...] = ()
        self.read()
        try:
            self._net = kept.load(state, machine)
        except CalibrationError as error:
            log.warning("network ceilings are not used: %s", error)

    @property
    def measured(self) -> bool:
        """Whether there are some of `calibrate`."""
        return bool(self._measured)

    def all(self) -> tuple[Ceiling, ...]:
        return (*self._measured, *self._net)

    def read(self) -> bool:
        """Load what `calibrate` has kept; True when it is new since the last call."""
        try:
            modified = os.stat(self._path).st_mtime
        except OSError:
            return False
        if modified == self._modified:
            return False
        self._modified = modified
        try:
            calibration = store.load(Path(self._path))
        except CalibrationError as error:
            log.warning("ceilings are not used: %s", error)
            return False
        if calibration and (why := is_of_other_cpu(calibration, self._machine)):
            log.warning("the ceilings in %s are not used: %s; calibrate this node", self._path, why)
        self._measured = of_this_node(calibration, self._machine) if calibration else ()
        return True

    def keep_net(self, new: Sequence[Ceiling]) -> None:
        """Keep the ceilings of a network benchmark that has ended. Called from another thread."""
        # Replaced whole, so that `all` never sees half of it.
        self._net = kept.keep(self._state, self._machine, new)
