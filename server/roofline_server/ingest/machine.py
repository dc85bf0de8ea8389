"""What an agent reports of its node: hardware, ceilings, sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.answers.machines import Ceiling, SourceStatus
from roofline.answers.values import Provenance
from roofline.convert import from_message
from roofline.limits import MAX_NAME

from ..records import Machine
from .columns import printable

MAX_TEXT = 1024  # characters of how a source works, or why not
MAX_SOURCES, MAX_CEILINGS = 256, 1024


def decode_machine(hello: Any) -> Machine:
    """What a Hello reports of its node. Texts and lists that are longer than any node needs are cut: they are
    shown to people only, and kept for good."""
    return from_message(
        Machine,
        hello.machine,
        host=printable(hello.machine.host, "host"),
        cpu_model=_short(hello.machine.cpu_model),
        kernel=_short(hello.machine.kernel),
        ceilings=tuple(decode_ceiling(ceiling) for ceiling in hello.machine.ceilings[:MAX_CEILINGS]),
        sources=tuple(_decode_source(source) for source in hello.sources[:MAX_SOURCES]),
        interval_ns=hello.interval_ns,
    )


def _decode_source(message: Any) -> SourceStatus:
    source = from_message(SourceStatus, message)
    return source._replace(**_short_texts(source._asdict()))


def _short_texts(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[:MAX_TEXT] for name, value in fields.items() if type(value) is str}


def _short(text: str) -> str:
    return text[:MAX_NAME]


def decode_ceiling(message: Any) -> Ceiling:
    """A ceiling as an agent reported it; a provenance that it did not report is measured."""
    ceiling = from_message(Ceiling, message)
    ceiling = ceiling._replace(**_short_texts(ceiling._asdict()))
    return ceiling if ceiling.provenance else ceiling._replace(provenance=Provenance.MEASURED)
