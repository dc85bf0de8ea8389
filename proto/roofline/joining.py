"""How agents and clients reach a server that asks for tokens or certificates: what it gave them when they
joined, and channels.

Such a server has an authority of its own, that signs its certificate and those that it gives. Its fingerprint
is in the join token, so the first connection is to the right server or to none. Certificates are for
SERVER_NAME, whatever address or alias a server is reached by.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
import pwd
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .places import home

SERVER_NAME = "roofline-server"
PREFIX, MUTUAL_PREFIX = "roofline1", "roofline1m"
RENEW_S = 30 * 86400.0  # before the end of a certificate that was given
# Why a connection may fail though there is a server that was joined.
OUT = "the certificate has expired, or the server has a new authority or now asks for certificates"
TIMEOUT_S, LOOK_S = 10.0, 2.0
# The code of OpenSSL where a clock shows a time before a certificate begins.
NOT_YET_VALID = 9


def agent_file(state: Path) -> Path:
    """What an agent knows of servers. state: its state directory."""
    return state / "servers.json"


def client_file(environ: Mapping[str, str]) -> Path:
    """What this user's clients know of them."""
    base = Path(environ.get("XDG_CONFIG_HOME") or home(environ) / ".config")
    return base / "roofline" / "servers.json"


def who(environ: Mapping[str, str]) -> str:
    """USER@HOST of the caller; of a user whom the machine has no name for, as in containers, the number."""
    name = environ.get("USER") or str(os.getuid())
    with contextlib.suppress(KeyError):
        name = pwd.getpwuid(os.getuid()).pw_name
    return f"{name}@{socket.gethostname()}"


class CannotJoin(Exception):
    """The text says what happened, why, and what to do."""


class JoinToken(NamedTuple):
    """As text "roofline1.FINGERPRINT.SECRET": SHA-256 of the authority's certificate, and a secret.

    mutual ("roofline1m."): who joins gets a certificate, and joins at the next port, as the server's own
    takes no connection from who has none.
    """

    fingerprint: bytes
    secret: str
    mutual: bool = False

    def __str__(self) -> str:
        return f"{MUTUAL_PREFIX if self.mutual else PREFIX}.{_text(self.fingerprint)}.{self.secret}"


def parse_token(text: str) -> JoinToken:
    """Raises CannotJoin for what is no join token."""
    prefix, _, rest = text.strip().partition(".")
    fingerprint, _, secret = rest.partition(".")
    try:
        known = base64.urlsafe_b64decode(fingerprint + "=")
    except (binascii.Error, ValueError):
        known = b""
    if prefix not in (PREFIX, MUTUAL_PREFIX) or len(known) != hashlib.sha256().digest_size or not secret:
        raise CannotJoin(
            f"this is no join token ({PREFIX}.….…): `roofline-server token new` on the head node prints one"
        )
    return JoinToken(known, secret, prefix == MUTUAL_PREFIX)


def join_port(port: int) -> int:
    """Where a server listens for those who have no certificate yet, that takes others only at this port."""
    return port + 1 if port < 65535 else port - 1


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Access(NamedTuple):
    """What to reach a server with: a token, or a certificate and its key."""

    authority: str  # its certificate, PEM
    token: str
    certificate: str = ""  # PEM
    key: str = ""  # PEM
    ends: float = 0.0  # of the certificate, UNIX time, s

    def is_due(self, now: float) -> bool:
        """Whether its certificate is to be exchanged for a new one."""
        return bool(self.certificate) and now >= self.ends - RENEW_S


class Servers(NamedTuple):
    """The servers that were joined; `newest` is the address where none is named, "": none was."""

    newest: str
    known: dict[str, Access]

    def joined(self, server: str, access: Access) -> Servers:
        return Servers(server, {**self.known, server: access})


def load_servers(path: Path) -> Servers:
    """What `save_servers` has put there; nothing where it has not, nor where this user cannot look, as in a
    home that a service has no access to. Raises CannotJoin for a broken file."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return Servers("", {})
    try:
        data = json.loads(path.read_text())
        return Servers(data["newest"], {name: Access(**one) for name, one in data["known"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no file of ours"
        raise CannotJoin(f"{path} cannot be read ({why}); remove it and join again") from None


def save_servers(path: Path, servers: Servers) -> None:
    """For the eyes of the folder's owner only, also where root joins for that user. Raises CannotJoin."""
    try:
        os.replace(_written(path, servers), path)
    except OSError as error:
        raise CannotJoin(f"cannot write {path}: {error.strerror}") from None


def check_can_save(path: Path) -> None:
    """Raises CannotJoin where `save_servers` would: to be asked before a token is used up."""
    try:
        os.unlink(_written(path, load_servers(path)))
    except OSError as error:
        raise CannotJoin(f"cannot write {path}: {error.strerror}") from None


def _written(path: Path, servers: Servers) -> Path:
    """A file next to this one that may take its place. Raises OSError."""
    data = {"newest": servers.newest, "known": {name: one._asdict() for name, one in servers.known.items()}}
    new = path.with_name(f"{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(data, file, indent=1)
            if os.geteuid() == 0:
                owner = path.parent.stat()
                with contextlib.suppress(PermissionError):  # root without CAP_CHOWN, as in containers
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
    except OSError:  # a full disk
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
    return new


def replace_access(path: Path, server: str, access: Access) -> None:
    """Keep what a server that was joined is reached with from now on. Raises CannotJoin."""
    servers = load_servers(path)
    save_servers(path, servers._replace(known={**servers.known, server: access}))


def open_channel(grpc: Any, server: str, access: Access | None, options: Sequence[tuple[str, Any]]) -> Any:
    """A channel of this gRPC module to HOST:PORT; access None: plain, without a token."""
    if access is None:
        return grpc.insecure_channel(server, options=options)
    trusted = access.authority.encode()
    if access.certificate:
        own = access.key.encode(), access.certificate.encode()
        credentials = grpc.ssl_channel_credentials(trusted, *own)
    else:
        credentials = grpc.composite_channel_credentials(
            grpc.ssl_channel_credentials(trusted), grpc.access_token_call_credentials(access.token)
        )
    named = (*options, ("grpc.ssl_target_name_override", SERVER_NAME))
    return grpc.secure_channel(server, credentials, options=named)


def authority_of(server: str, fingerprint: bytes) -> str:
    """The certificate of the authority of the server at HOST:PORT, PEM. Raises CannotJoin if it has another
    one than this, or does not answer."""
    try:
        with _secured(server, TIMEOUT_S) as connection:
            chain = _chain(connection)
    except ssl.SSLError:
        raise CannotJoin(
            f"what listens at {server} does not speak TLS: run `roofline-server init` there, and start it "
            "again"
        ) from None
    except OSError as error:
        raise CannotJoin(
            f"no roofline-server answers at {server} ({error.strerror or error}); start it there, and look "
            "at the address and firewalls between"
        ) from None
    for certificate in chain:
        if hashlib.sha256(certificate).digest() == fingerprint:
            return ssl.DER_cert_to_PEM_cert(certificate)
    raise CannotJoin(
        f"the server at {server} is not the one of this token: the address or the token is that of another "
        "server, or somebody stands between"
    )


def speaks_tls(server: str) -> bool | None:
    """Whether what listens at HOST:PORT does; None: nothing answers there."""
    try:
        with _secured(server, LOOK_S):
            return True
    except ssl.SSLEOFError:  # it closed the connection at once, as a forwarded port whose server is down
        return None
    except ssl.SSLError:
        return False
    except (OSError, ValueError):
        return None


def clock_behind(server: str, access: Access | None) -> str:
    """What is wrong and what to do where this machine's clock shows a time before the certificate of the
    server at HOST:PORT begins; "" where that is not so. To join again would not help."""
    try:
        _secured(server, LOOK_S, access.authority if access else "").close()
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == NOT_YET_VALID:
            now = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
            return (
                f"this machine's clock is behind: it shows {now} UTC, which is before the server's "
                "certificate begins; set the clock (timedatectl, chronyc makestep)"
            )
    except (OSError, ValueError):
        pass
    return ""


def _secured(server: str, timeout_s: float, trusted: str = "") -> ssl.SSLSocket:
    """A TLS connection over which nothing is sent, as nothing is trusted: whoever it is, its certificates are
    looked at alone. trusted: an authority that they must be of, PEM. Raises OSError."""
    host, _, port = server.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if trusted:
        context.load_verify_locations(cadata=trusted)
    else:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    plain = socket.create_connection((host.strip("[]"), int(port)), timeout_s)
    try:
        return context.wrap_socket(plain, server_hostname=SERVER_NAME)
    except BaseException:
        plain.close()
        raise


def _chain(secured: ssl.SSLSocket) -> list[bytes]:
    """All certificates that the other end has shown, DER."""
    if hasattr(secured, "get_unverified_chain"):  # Python 3.13
        return list(secured.get_unverified_chain())
    inner: Any = getattr(secured, "_sslobj", None)
    # Private before Python 3.13, but there since 3.10. 2: DER.
    return [one.public_bytes(2) for one in inner.get_unverified_chain() or ()]


def enrol(
    grpc: Any, server: str, token: JoinToken, name: str, roles: Sequence[str], lasts_s: int = 0
) -> tuple[Access, str]:
    """Join the server at HOST:PORT as one of these roles: what to reach it with from now on (lasts_s: for so
    long; 0: for good), and which of them it is. Raises CannotJoin."""
    if token.mutual:
        host, _, port = server.rpartition(":")
        server = f"{host}:{join_port(int(port))}"
    try:
        authority = authority_of(server, token.fingerprint)
    except CannotJoin as error:
        if not token.mutual:
            raise
        raise CannotJoin(
            f"{error}. To join a server that asks for certificates takes the port next to its own, "
            f"{join_port(int(port))}: open it in firewalls, or forward it, too"
        ) from None
    return _enrolled(grpc, server, Access(authority, token.secret), name, roles, lasts_s)


def renewed(grpc: Any, server: str, access: Access) -> Access:
    """What to reach the server with, with a new certificate, for which the old one is shown. Raises
    CannotJoin."""
    return _enrolled(grpc, server, access, "", ())[0]


def _enrolled(
    grpc: Any, server: str, access: Access, name: str, roles: Sequence[str], lasts_s: int = 0
) -> tuple[Access, str]:
    from roofline.v1 import access_pb2, access_pb2_grpc

    with open_channel(grpc, server, access, (("grpc.enable_http_proxy", 0),)) as opened:
        try:
            stub = access_pb2_grpc.AccessStub(opened)
            request = access_pb2.EnrolRequest(name=name, roles=roles, lasts_s=lasts_s)
            answer = stub.Enrol(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE and (why := clock_behind(server, access)):
                raise CannotJoin(f"the server at {server} cannot be trusted: {why}") from None
            raise CannotJoin(f"the server at {server} refuses: {error.details()}") from None
    own = answer.token, answer.certificate, answer.key, float(answer.ends)
    return Access(access.authority, *own), answer.role
