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
    return from_message(
        Machine,
        hello.machine,
        host=printable(hello.machine.host, "host"),
        ceilings=tuple(decode_ceiling(ceiling) for ceiling in hello.machine.ceilings),
        sources=tuple(from_message(SourceStatus, source) for source in hello.sources),
        interval_ns=hello.interval_ns,
    )


def decode_ceiling(message: Any) -> Ceiling:
    """A ceiling as an agent reported it; a provenance that it did not report is measured."""
    ceiling = from_message(Ceiling, message)
    return ceiling if ceiling.provenance else ceiling._replace(provenance=Provenance.MEASURED)
