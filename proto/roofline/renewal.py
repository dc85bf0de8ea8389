"""Certificates that are renewed while a server runs: who connects next is shown the new one."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

log = logging.getLogger(__name__)


class Renewal:
    """Looks whether a certificate was replaced."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Those that are shown now. Raises OSError."""
        self._certificate, self._key = certificate, key
        self._shown = certificate.stat().st_mtime_ns
        self._failures = 0

    def look(self, shows: ssl.SSLContext) -> None:
        """Have `shows` show the newest; the old one stays while that cannot be used."""
        try:
            found = self._certificate.stat().st_mtime_ns
            if found != self._shown:
                # Elsewhere first: a key of another certificate would leave `shows` with none.
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._certificate, self._key)
                shows.load_cert_chain(self._certificate, self._key)
                self._shown = found
            self._failures = 0
        except OSError as error:  # ssl.SSLError is one
            self._failures += 1
            if self._failures == 2:  # at one look the files may be about to be replaced
                log.warning(
                    "the certificate %s was replaced and the new one cannot be used (%s): the old one is "
                    "shown until it and its key %s belong together and this user can read them",
                    self._certificate,
                    getattr(error, "reason", None) or error.strerror or error,
                    self._key,
                )
