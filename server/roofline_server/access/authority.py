"""The server's own authority, and what it signs: the server's certificate, and those of nodes and users where
they have one in place of a token.

Keys are on the curve P-256. A certificate is valid for a year and is renewed a month before its end; the
authority is valid for ten, and with it every join token.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from roofline.joining import SERVER_NAME

from ..errors import ConfigError
from . import AUTHORITY, CERTIFICATE, KEY
from .owner import locked, make_private, open_private
from .tokens import Token

AUTHORITY_DAYS, CERTIFICATE_DAYS, RENEW_DAYS = 3650, 365, 30
MEMBER_DAYS = 90  # of nodes and users, who exchange theirs in its last third
MOST_OF_SUBJECT = 64  # characters of each part, by X.520
MOST_OF_NAME = 253  # characters
_HOST = re.compile(
    r"(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?",
    re.I | re.A,
)
BEFORE = datetime.timedelta(days=1)  # clocks of nodes differ, and some show another zone's time
AUTHORITY_KEY, LOCK = "authority.key", "server.lock"


class Identity(NamedTuple):
    """What a server shows: its key and the chain of its certificate, PEM."""

    key: bytes
    chain: bytes


class Certified(NamedTuple):
    """What a node or user shows: its key and certificate, PEM, and when that ends, UNIX time, s."""

    key: str
    certificate: str
    ends: float


def create(folder: Path, names: Sequence[str] = (), now: datetime.datetime | None = None) -> None:
    """A new authority and certificate. Raises OSError."""
    now = now or _now()
    key = ec.generate_private_key(ec.SECP256R1())
    name = f"roofline authority of {socket.gethostname()}"[:MOST_OF_SUBJECT]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        _builder(subject, subject, key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    make_private(folder)
    _write(folder / AUTHORITY_KEY, _key_pem(key))
    _write(folder / AUTHORITY, certificate.public_bytes(serialization.Encoding.PEM))
    renew(folder, names, now)


def renew(folder: Path, names: Sequence[str] = (), now: datetime.datetime | None = None) -> None:
    """A new certificate of the server. names: more names and addresses it is reached by; the machine's own
    and those of the certificate before are in it. Raises OSError, and ConfigError for an authority that
    cannot be read."""
    with locked(folder / LOCK):
        _renew(folder, names, now or _now())


def _renew(folder: Path, names: Sequence[str], now: datetime.datetime) -> None:
    authority, signer = _signer(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SERVER_NAME)])
    every = dict.fromkeys((SERVER_NAME, *own_names(), *_names_before(folder), *names))
    certificate = (
        _builder(subject, authority.subject, key, now, CERTIFICATE_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in every]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    # The certificate last: who sees that it is another one finds its key.
    _write(folder / KEY, _key_pem(key))
    _write(folder / CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM))


def certify(folder: Path, token: Token, now: datetime.datetime | None = None) -> Certified:
    """A certificate and its key for who has this entry in the list of tokens, with its role, name and limit.

    Raises ConfigError."""
    now = now or _now()
    authority, signer = _signer(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    parts = (
        (NameOID.COMMON_NAME, token.name),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, token.role),
        (NameOID.USER_ID, token.user),
        (NameOID.SERIAL_NUMBER, token.id),
    )
    subject = x509.Name([x509.NameAttribute(oid, text[:MOST_OF_SUBJECT]) for oid, text in parts if text])
    # A name of its own kind, so that none takes the common name for that of a server.
    name = x509.UniformResourceIdentifier(f"roofline:{token.role}:{token.id}")
    certificate = (
        _builder(subject, authority.subject, key, now, MEMBER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=True)
        .add_extension(x509.SubjectAlternativeName([name]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    text = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return Certified(_key_pem(key).decode(), text, certificate.not_valid_after_utc.timestamp())


def holder_of(certificate: bytes) -> tuple[str, str]:
    """The id and the role in a certificate of `certify`, which TLS has verified; "" where there are none."""
    subject = x509.load_pem_x509_certificate(certificate).subject
    found = (NameOID.SERIAL_NUMBER, NameOID.ORGANIZATIONAL_UNIT_NAME)
    number, role = (
        next((str(part.value) for part in subject.get_attributes_for_oid(oid)), "") for oid in found
    )
    return number, role


def _signer(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """The authority's certificate and key. Raises ConfigError."""
    try:
        authority = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
        signer = serialization.load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), None)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the server's authority in {folder} cannot be read: {error}") from None
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    return authority, signer


def identity(folder: Path, now: datetime.datetime | None = None) -> Identity:
    """What to show; renewed first where it ends soon. Raises ConfigError."""
    now = now or _now()
    try:
        with locked(folder / LOCK):
            certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
            if certificate.not_valid_after_utc - now < datetime.timedelta(days=RENEW_DAYS):
                _renew(folder, (), now)
            chain = (folder / CERTIFICATE).read_bytes() + (folder / AUTHORITY).read_bytes()
            return Identity((folder / KEY).read_bytes(), chain)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the server's certificate in {folder} cannot be read: {error}; `roofline-server init --renew` "
            "makes a new one"
        ) from None


def fingerprint(folder: Path) -> bytes:
    """SHA-256 of the authority's certificate."""
    certificate = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).digest()


def own_names() -> list[str]:
    """What this machine is called."""
    called = filter(can_name, (socket.gethostname(), socket.getfqdn()))
    return list(dict.fromkeys(("localhost", "127.0.0.1", "::1", *called)))


def can_name(name: str) -> bool:
    """Whether a certificate can be for this: a host, all hosts of a domain ("*.cluster") or an address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return len(name) <= MOST_OF_NAME and _HOST.fullmatch(name) is not None
    return True


def _names_before(folder: Path) -> list[str]:
    try:
        certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return []
    return [str(name.value) for name in names]


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BEFORE)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, data: bytes) -> None:
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(open_private(new, os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
