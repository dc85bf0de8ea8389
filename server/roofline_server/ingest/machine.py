"""What an agent says of its node: hardware, ceilings, sources."""

from __future__ import annotations

from typing import Any

from ..model.values import Provenance
from ..records import Ceiling, Machine, SourceStatus
from .columns import printable


def decode_machine(hello: Any) -> Machine:
    """What a Hello says of its node."""
    m = hello.machine
    ceilings = tuple(decode_ceiling(c) for c in m.ceilings)
    sources = tuple(SourceStatus(s.name, s.works, s.reason, s.advice, s.fills) for s in hello.sources)
    host = printable(m.host, "host")
    return Machine(
        host,
        m.cpu_model,
        m.sockets,
        m.cores,
        m.cpus,
        m.memory_bytes,
        m.kernel,
        ceilings,
        sources,
        hello.interval_ns,
    )


def decode_ceiling(c: Any) -> Ceiling:
    """A ceiling as an agent said it; what it did not say is None, a provenance it did not say measured."""
    said = {name: getattr(c, name) for name in Ceiling._fields}
    said |= {name: None for name in ("threads", "median", "clock_hz") if not c.HasField(name)}
    return Ceiling(**{**said, "provenance": c.provenance or int(Provenance.MEASURED)})
