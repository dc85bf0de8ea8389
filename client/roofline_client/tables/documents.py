"""Answers as JSON documents."""

from __future__ import annotations

import json
from typing import Any

from ..errors import ClientError

VERSION = 1


def document(**parts: Any) -> str:
    """Records as one JSON object, its version first. Raises ClientError for a number JSON cannot hold."""
    try:
        return json.dumps({"version": VERSION, **_plain(parts)}, indent=2, allow_nan=False)
    except ValueError:
        raise ClientError(
            "the answer holds NaN or an infinity, which JSON cannot represent; --format csv shows where"
        ) from None


def _plain(thing: Any) -> Any:
    if hasattr(thing, "_asdict"):
        return {name: _plain(value) for name, value in thing._asdict().items()}
    if isinstance(thing, dict):
        return {name: _plain(value) for name, value in thing.items()}
    if isinstance(thing, list):
        return [_plain(value) for value in thing]
    return thing
