"""Machines with their ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.answers.machines import Ceiling, Machine, MachineVersion

from ..tables import flat
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
        machines = flat.table(Machine, [version.machine for version in self])
        each = [
            flat.table(Ceiling, version.machine.ceilings).wider(
                host=version.machine.host, version=version.version
            )
            for version in self
        ]
        return {
            "machines": flat.beside(machines, flat.table(MachineVersion, self)),
            "ceilings": flat.joined(each, flat.table(Ceiling, ()).wider(host="", version=0)),
        }
