"""Machines with their ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.answers.machines import MachineVersion

from ..tables.flat import Table
from .result import Framed, Shown


class Machines(list[MachineVersion], Shown, Framed):
    """Machines, by host, newest version first: a list of `MachineVersion`.

    Tables: machines (a row a version), ceilings (a row each; `unit` is that of `value` and `median`).
    """

    def text(self) -> Any:
        from ..tables import machines

        return machines.as_text(self)

    def _tables(self) -> Mapping[str, Table]:
        from ..tables import machines

        return machines.tables(self)
