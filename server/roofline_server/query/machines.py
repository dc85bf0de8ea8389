"""Machines with their ceilings, now and before."""

from __future__ import annotations

from roofline.answers import machines

from ..errors import UnknownHost
from ..store.store import Store


def machine_versions(store: Store, host: str, history: bool) -> list[machines.MachineVersion]:
    """Versions of a host, or of all; history: also versions that hold no longer. Raises UnknownHost."""
    known = store.machine_versions()
    if host and not any(version.machine.host == host for version in known):
        hosts = sorted({version.machine.host for version in known})
        hint = f"known are {', '.join(hosts[:5])}" if hosts else "no agent has connected yet"
        raise UnknownHost(f"this server has no host {host!r}; {hint}")
    found = []
    for version in known:
        if (host and version.machine.host != host) or (version.until_ns and not history):
            continue
        # An agent also reports sources and interval, which are no property of its machine.
        reported = version.machine._asdict()
        hardware = machines.Machine(**{name: reported[name] for name in machines.Machine._fields})
        found.append(machines.MachineVersion(**{**version._asdict(), "machine": hardware}))
    return found
