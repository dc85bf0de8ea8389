"""What an agent reports of its node: hardware, ceilings, sources."""

from __future__ import annotations

from typing import Any

from roofline.answers.machines import Ceiling, SourceStatus
from roofline.answers.values import Provenance
from roofline.convert import from_message

from ..records import Machine
from .columns import printable


def decode_machine(hello: Any) -> Machine:
    """What a Hello reports of its node."""
    m = hello.machine
    ceilings = tuple(decode_ceiling(c) for c in m.ceilings)
    sources = tuple(from_message(SourceStatus, s) for s in hello.sources)
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


def decode_ceiling(message: Any) -> Ceiling:
    """A ceiling as an agent reported it; a provenance that it did not report is measured."""
    ceiling = from_message(Ceiling, message)
    return ceiling if ceiling.provenance else ceiling._replace(provenance=Provenance.MEASURED)
