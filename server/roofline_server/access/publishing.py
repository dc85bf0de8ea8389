"""Tokens that are in Secrets of a Kubernetes cluster, so that nobody has to carry them: one for nodes to
join, one for Prometheus. One that is good stays, as nodes and Prometheus use it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from roofline.joining import CannotJoin, JoinToken, parse_token

from . import AUTHORITY, authority, is_mutual
from .tokens import Token, Tokens

DAYS = 3650.0  # as the authority: a node may be added at any time
TOKEN, TRUSTED = "token", "authority"  # keys of a Secret


class SecretStore(Protocol):
    """Secrets by name; see secrets.Secrets."""

    def read(self, name: str) -> dict[str, str]: ...

    def write(self, name: str, values: dict[str, str]) -> None: ...


def join_token(folder: Path, store: SecretStore, name: str) -> Token | None:
    """Keep a good join token for agents in this Secret; the one that was made for it, None where it had one.

    Raises Unavailable, ConfigError.
    """
    tokens, fingerprint = Tokens(folder), authority.fingerprint(folder)
    try:
        there = parse_token(store.read(name).get(TOKEN, ""))
        held = tokens.holder(there.secret) if there.fingerprint == fingerprint else None
        if held and held.joins and held.role == "agent" and there.mutual == is_mutual(folder):
            return None
    except CannotJoin:
        pass  # there is none
    made, secret = tokens.new("agent", f"Secret {name}", joins=True, days=DAYS)
    store.write(name, {TOKEN: str(JoinToken(fingerprint, secret, is_mutual(folder)))})
    _revoke_before(tokens, made)
    return made


def reader_token(folder: Path, store: SecretStore, name: str) -> Token | None:
    """Keep a good reader's token in this Secret, next to the certificate of the server's authority; the one
    that was made for it, None where it had one."""
    tokens, trusted = Tokens(folder), (folder / AUTHORITY).read_text()
    there = store.read(name)
    held = tokens.holder(there.get(TOKEN, ""))
    if held and held.role == "reader" and not held.joins and there.get(TRUSTED) == trusted:
        return None
    made, secret = tokens.new("reader", f"Secret {name}", days=DAYS)
    store.write(name, {TOKEN: secret, TRUSTED: trusted})
    _revoke_before(tokens, made)
    return made


def _revoke_before(tokens: Tokens, made: Token) -> None:
    for one in tokens.all():
        if (one.name, one.role) == (made.name, made.role) and one.id != made.id and one.revoked is None:
            tokens.revoke(one.id)
