"""The trace that a rank was started in, as its variable TRACEPARENT has it. No I/O.

Tools that trace commands hand their span on by it (OpenTelemetry, "Environment Variables as Context
Propagation Carriers"; the format is that of the header of W3C's Trace Context, level 1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

VARIABLE, TAG = "TRACEPARENT", "otel.traceparent"
_FORMAT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def attributes(environ: Mapping[str, str]) -> dict[str, str]:
    """A tag of the job; none where the variable is missing or names no span."""
    found = environ.get(VARIABLE, "")
    return {TAG: found} if _FORMAT.fullmatch(found) else {}
