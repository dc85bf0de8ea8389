"""The roofs of the machines a job ran on."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.answers.roofline import Roof

from ...model.roofline.roofs import (
    CACHES,
    NETWORK,
    counts,
    is_theory_alone,
    lines,
    main_memory,
    of_node,
    part_of,
)
from ...sentences import rooflines as texts
from ...store.view import JobView
from .network import of_network
from .nodes import ROOFING, ceilings, cpus_of, devices, hosts, machines_of


def roofs(view: JobView, *precisions: str, kind: str = "classic") -> list[Roof]:
    """One roof per host and device, in order, with the compute ceilings of these precisions.

    kind: "classic": main memory binds, caches are drawn; "hierarchical": every level binds; "network": only
    the network does, and only it is drawn. Without precisions all are drawn and none binds. A host that
    nobody calibrated has a roof without lines.
    """
    asked = tuple(dict.fromkeys(p for p in precisions if p))
    return [_roof(view, host, device, asked, kind) for host in hosts(view) for device in devices(view, host)]


def _roof(view: JobView, host: str, device: str, precisions: Sequence[str], kind: str) -> Roof:
    # Each kind draws other ceilings of the same host and lets other levels bind.
    known = ceilings(view, host)
    mine = [c for c in known if c.device == device]
    drawn = [c for c in mine if c.kind != "network"]
    binding: tuple[str, ...] = (main_memory(device),)
    if kind == "network":
        drawn = [c for c in drawn if c.kind != "memory"]
        binding = (NETWORK,)
    elif kind != "classic":
        binding = (*CACHES, main_memory(device), NETWORK)
    if kind != "classic":
        drawn += of_network(view, host, known)
    if device:
        note = texts.roof_of_gpu(device, host, is_theory_alone(mine))
    else:
        machine = machines_of(view, host)[-1]
        part = part_of(of_node(known), cpus_of(view, host))
        note = texts.roof_of_cpus(machine.cpu_model, machine.cpus, part)
    calibrated = max((c.time_ns for c in mine if counts(c) and c.kind in ROOFING), default=0)
    return Roof(host, note, lines(drawn, precisions, binding), mine, device, calibrated)
