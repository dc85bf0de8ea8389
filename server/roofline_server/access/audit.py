"""Who was let in, who was refused, and who changed that: lines of JSON, of bounded size."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path

from .owner import open_private
from .tokens import Token

log = logging.getLogger(__name__)

FILE, MOST_BYTES = "audit.log", 10 << 20
REFUSALS_EVERY_S = 1.0  # one line; the others are counted in the next


class Audit:
    """Appends to a file of the folder. Never raises: a full disk must not keep anybody out."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._refused_at = 0.0
        self._unlogged = 0  # refusals since the last line
        self.refusals = 0  # since the start

    def add(self, event: str, **facts: object) -> None:
        line = json.dumps({"time": round(time.time(), 3), "event": event, **facts}) + "\n"
        try:
            if self._path.exists() and self._path.stat().st_size > MOST_BYTES:
                os.replace(self._path, self._path.with_name(f"{FILE}.1"))
            with os.fdopen(open_private(self._path, os.O_WRONLY | os.O_APPEND), "w") as file:
                file.write(line)
        except OSError as error:
            log.warning("%s is not written: %s", self._path, error.strerror)

    def refused(self, method: str, token: Token | None, why: str, peer: str) -> None:
        """A call was refused; a flood of them is one line a second. peer: where it came from."""
        self.refusals += 1
        now = time.time()
        if now - self._refused_at < REFUSALS_EVERY_S:
            self._unlogged += 1
            return
        who = {} if token is None else {"token": token.id, "name": token.name}
        more = {"more_before": self._unlogged} if self._unlogged else {}
        self._refused_at, self._unlogged = now, 0
        self.add("refused", method=method, why=why, peer=peer, **who, **more)
