"""Tokens: who holds one may do what its role allows. The file has their hashes only.

Secrets have 256 random bits, so one round of SHA-256 hides them; no two are compared in a time that depends
on where they differ. Whoever changes the file holds its lock; a server notices the change by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import BadRequest, ConfigError
from ..later_release import of_later_release
from ..records import Limit
from .owner import locked, open_private

ROLES = ("agent", "reader", "admin")
FILE = "tokens.json"
FORMAT = 1
DAY_S = 86400.0
LONGEST_NAME = 200
CERTIFICATE = "certificate:"  # in place of a hash, with the id: no secret has this hash
MOST_TOKENS, KEPT_DAYS = 100_000, 30  # those that are over go later where there are as many


@dataclass(frozen=True)
class Token:
    """joins: it is good for joining alone, which gives a token of its role and limit. Times are UNIX time, s.

    user, jobs: of readers that do not see all jobs, see Limit.
    """

    id: str
    role: str
    name: str
    digest: str  # SHA-256 of the secret, hex; see CERTIFICATE
    created: float
    joins: bool = False
    once: bool = False  # of one that joins: the first to use it uses it up
    expires: float | None = None
    revoked: float | None = None
    user: str = ""
    jobs: str = ""
    used: bool = False  # it was revoked because who joined has used it up

    @property
    def limit(self) -> Limit | None:
        """None: there is none."""
        return Limit(self.user, self.jobs) if self.user or self.jobs else None

    def state(self, now: float) -> str:
        if self.revoked is not None:
            return "used" if self.used else "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "valid"

    def over_s(self, now: float) -> float:
        """For how long it has not been good any more."""
        ended = self.expires if self.revoked is None else self.revoked
        return 0.0 if ended is None else max(0.0, now - ended)


class Tokens:
    """The tokens in the file of a folder, as they are now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE
        self._reading = threading.Lock()  # calls, and those that join in threads, read it at the same time
        self._read: tuple[int, int, int] | None = None  # which version of the file
        self._known: dict[str, Token] = {}  # by digest

    def all(self) -> list[Token]:
        """The oldest first. Raises ConfigError for a file that cannot be read."""
        self._refresh()
        return sorted(self._known.values(), key=lambda token: token.created)

    def holder(self, secret: str, now: float | None = None) -> Token | None:
        """The valid token of this secret."""
        self._refresh()
        digest = _digest(secret)
        found = self._known.get(digest)
        if found is None or not hmac.compare_digest(found.digest, digest):
            return None
        return found if found.state(time.time() if now is None else now) == "valid" else None

    def certified(self, number: str, role: str, now: float | None = None) -> Token | None:
        """The valid entry of who has shown a certificate with this id and role."""
        self._refresh()
        found = self._known.get(f"{CERTIFICATE}{number}")
        if found is None or found.role != role:
            return None
        return found if found.state(time.time() if now is None else now) == "valid" else None

    def extend(self, number: str, ends: float) -> None:
        """The certificate of this entry ends later."""
        with self._changing() as known:
            key = f"{CERTIFICATE}{number}"
            if key in known:
                known[key] = replace(known[key], expires=ends)

    def valid_ids(self, now: float | None = None) -> frozenset[str]:
        """Ids of the tokens that are good now. Raises ConfigError."""
        self._refresh()
        now = time.time() if now is None else now
        return frozenset(one.id for one in self._known.values() if one.state(now) == "valid")

    def new(
        self,
        role: str,
        name: str,
        joins: bool = False,
        once: bool = False,
        days: float | None = None,
        limit: Limit | None = None,
        certified: bool = False,
    ) -> tuple[Token, str]:
        """A new token and its secret, which is known to nobody else; certified: an entry without one. Raises
        BadRequest, ConfigError."""
        with self._changing() as known:
            return _added(known, role, name, joins, once, days, limit or Limit(), certified)

    def join(
        self,
        secret: str,
        name: str,
        roles: Collection[str] = ROLES,
        certified: bool = False,
        lasts_s: float = 0.0,
    ) -> tuple[Token, str] | None:
        """The own token of who joins with this secret, as one of these roles; None where that is not good for
        it. lasts_s: it is good for so long, and then goes when another of its name joins; 0: for good. Raises
        BadRequest where it is for another role."""
        with self._changing() as known:
            for digest, one in list(known.items()):
                if lasts_s and one.name == name and not one.joins and one.state(time.time()) == "expired":
                    del known[digest]
            token = known.get(_digest(secret))
            if token is None or not token.joins or token.state(time.time()) != "valid":
                return None
            if token.role not in roles:
                program = "roofline-agent" if token.role == "agent" else "roofline-client"
                raise BadRequest(f"this token is for a role of {token.role}: `{program} join` takes it")
            days = lasts_s / DAY_S if lasts_s else None
            own = _added(known, token.role, name, False, False, days, token.limit or Limit(), certified)
            if token.once:  # whoever could not join may try again
                known[token.digest] = replace(token, revoked=time.time(), used=True)
            return own

    def revoke(self, number: str) -> Token:
        """Raises BadRequest where there is no such token."""
        with self._changing() as known:
            for digest, token in known.items():
                if token.id == number:
                    known[digest] = token if token.revoked else replace(token, revoked=time.time())
                    return known[digest]
        raise BadRequest(f"no token {number!r}: `roofline-server token list` shows them")

    def _refresh(self) -> None:
        with self._reading:
            self._read_new()

    def _read_new(self) -> None:
        try:
            status = os.stat(self._path)
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            if version == self._read:
                return
            data = json.loads(self._path.read_text())
            if (found := data.get("format", 1)) > FORMAT:
                what = f"the list of tokens {self._path}"
                raise ConfigError(of_later_release(what, found, FORMAT, data.get("release")))
            used = set(data.get("used", ()))
            self._known = {row["digest"]: Token(**row, used=row["id"] in used) for row in data["tokens"]}
            self._read = version
        except FileNotFoundError:
            self._known, self._read = {}, None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"the tokens in {self._path} cannot be read: {error}") from None

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        """The tokens, to be changed while nobody else changes them. Raises ConfigError."""
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(locked(self._folder / "tokens.lock"))
            except OSError as error:
                raise ConfigError(
                    f"the tokens in {self._folder} cannot be changed: {error.strerror}"
                ) from None
            self._refresh()
            known = dict(self._known)
            yield known
            self._write(known)

    def _write(self, known: dict[str, Token]) -> None:
        new = self._path.with_name(f"{FILE}.new")
        try:
            with os.fdopen(open_private(new, os.O_WRONLY | os.O_TRUNC), "w") as file:
                json.dump(_document(known.values()), file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._path)
        except OSError as error:
            raise ConfigError(f"the tokens in {self._folder} cannot be changed: {error.strerror}") from None
        with self._reading:
            self._read = None  # its times may be those of the one before


def _document(tokens: Iterable[Token]) -> dict[str, Any]:
    """What the file holds. Which ones are used up is not in their rows: earlier releases refuse rows with
    more than they know."""
    rows = [asdict(token) for token in tokens]
    used = [row["id"] for row in rows if row.pop("used")]
    return {"format": FORMAT, "release": __version__, "tokens": rows, "used": used}


def _added(
    known: dict[str, Token],
    role: str,
    name: str,
    joins: bool,
    once: bool,
    days: float | None,
    limit: Limit,
    certified: bool,
) -> tuple[Token, str]:
    """A new token among those that are known, and its secret. Raises BadRequest."""
    _check(role, name, limit)
    secret, now = secrets.token_urlsafe(32), time.time()
    if len(known) >= MOST_TOKENS:
        for digest in [d for d, one in known.items() if one.over_s(now) > KEPT_DAYS * DAY_S]:
            del known[digest]
    if len(known) >= MOST_TOKENS:
        raise BadRequest(f"there are {MOST_TOKENS} tokens: revoke some; after {KEPT_DAYS} days they go")
    number = secrets.token_hex(4)
    digest = f"{CERTIFICATE}{number}" if certified else _digest(secret)
    expires = None if days is None else now + days * DAY_S
    token = Token(number, role, name, digest, now, joins, once, expires, None, *limit)
    known[token.digest] = token
    return token, "" if certified else secret


def _check(role: str, name: str, limit: Limit) -> None:
    if role not in ROLES:
        raise BadRequest(f"{role!r} is not a role: use {', '.join(ROLES[:-1])} or {ROLES[-1]}")
    for text in (name, *limit):
        if not text.isprintable() or len(text) > LONGEST_NAME:
            raise BadRequest(
                f"names and patterns of a token have at most {LONGEST_NAME} printable characters"
            )
    if any(limit) and role != "reader":
        raise BadRequest(f"only readers can be limited to jobs, and this token is of role {role}")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
