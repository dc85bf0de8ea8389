"""Machines with their ceilings, now and before, as messages of the wire."""

from __future__ import annotations

from typing import Any

from roofline.v1 import machine_pb2
from roofline.v1 import models_pb2 as pb

from ..errors import UnknownHost
from ..records import Machine
from ..store.catalog.machines import Version
from ..store.store import Store
from . import messages

NOT_SENT = ("sources", "interval_ns")  # of a machine: what is no property of it


def answer(store: Store, host: str, history: bool) -> Any:
    """The answer to GetMachines. Raises UnknownHost."""
    known = store.machine_versions()
    if host:
        found = [version for version in known if version.machine.host == host]
        if not found:
            raise _unknown(host, known)
    else:
        found = known
    wanted = [version for version in found if history or not version.until_ns]
    return pb.GetMachinesResponse(machines=[_message(version) for version in wanted])


def _unknown(host: str, known: list[Version]) -> UnknownHost:
    hosts = sorted({version.machine.host for version in known})
    hint = f"known are {', '.join(hosts[:5])}" if hosts else "no agent has connected yet"
    return UnknownHost(f"this server has no host {host!r}; {hint}")


def _message(version: Version) -> Any:
    return pb.MachineVersion(**{**version._asdict(), "machine": _machine(version.machine)})


def _machine(machine: Machine) -> Any:
    message = machine_pb2.Machine()
    for name, value in machine._asdict().items():
        if name == "ceilings":
            for ceiling in value:
                messages.filled(message.ceilings.add(), ceiling)
        elif name not in NOT_SENT:
            setattr(message, name, value)
    return message
