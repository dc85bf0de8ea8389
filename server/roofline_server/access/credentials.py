"""What the server shows to those who connect: its newest certificate, without a restart."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

import grpc

from ..errors import ServerError
from . import AUTHORITY, CERTIFICATE, authority

log = logging.getLogger(__name__)

LOOK_S = 3600.0  # for a certificate that ends soon; one that was renewed is seen at once


def credentials(folder: Path, mutual: bool = False) -> Any:
    """For a port of gRPC; mutual: that takes connections only from who shows a certificate of our authority.
    gRPC for Python has no port that merely asks for one. Raises ConfigError."""
    newest = _Newest(folder, mutual)
    first = newest.configuration()
    return grpc.dynamic_ssl_server_credentials(first, newest.changed, require_client_authentication=mutual)


class _Newest:
    def __init__(self, folder: Path, mutual: bool) -> None:
        self._folder = folder
        self._trusted = (folder / AUTHORITY).read_bytes() if mutual else None
        self._shown: int | None = None  # which version of the file
        self._looked = 0.0

    def configuration(self) -> Any:
        identity = authority.identity(self._folder)
        self._shown, self._looked = self._version(), time.monotonic()
        return grpc.ssl_server_certificate_configuration([(identity.key, identity.chain)], self._trusted)

    def changed(self) -> Any:
        """At each handshake: what to show from now on; None: what was shown before."""
        try:
            if self._version() == self._shown and time.monotonic() - self._looked < LOOK_S:
                return None
            return self.configuration()
        except (ServerError, OSError) as error:
            log.error("the certificate before is shown: %s", error)
            return None

    def _version(self) -> int:
        return os.stat(self._folder / CERTIFICATE).st_mtime_ns
