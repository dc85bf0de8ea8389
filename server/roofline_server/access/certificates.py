"""Nodes and users who show a certificate in place of a token: who they are, and new certificates for them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from ..errors import ServerError
from . import authority
from .tokens import Token, Tokens

log = logging.getLogger(__name__)


class Certificates:
    """The certificates of one authority. Who has one is in the list of tokens, without a secret: it is
    revoked there."""

    def __init__(self, folder: Path, tokens: Tokens) -> None:
        self._folder = folder
        self._tokens = tokens

    def holder(self, context: Any) -> Token | None:
        """Who makes this call, by the certificate that its connection was made with; None: nobody we know."""
        shown = context.auth_context().get("x509_pem_cert")
        return self.holder_of(shown[0]) if shown else None

    def holder_of(self, certificate: bytes) -> Token | None:
        """Whose certificate this is (PEM), which TLS has verified."""
        try:
            return self._tokens.certified(*authority.holder_of(certificate))
        except (ServerError, ValueError) as error:
            log.error("nobody is let in: %s", error)
            return None

    def issue(self, token: Token) -> authority.Certified:
        """Raises ConfigError."""
        return authority.certify(self._folder, token)
