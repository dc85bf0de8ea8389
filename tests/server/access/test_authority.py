"""The server's authority and its certificate: what is in them, and when they are renewed."""

from __future__ import annotations

import datetime
import hashlib
import ssl
import stat
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from roofline.joining import SERVER_NAME
from roofline_server.access import AUTHORITY, CERTIFICATE, authority
from roofline_server.errors import ConfigError

NOW = datetime.datetime(2027, 1, 1, tzinfo=datetime.timezone.utc)
DAY = datetime.timedelta(days=1)


def certificate(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())


def test_certificate_is_signed_by_the_authority_for_the_name_that_is_asked_for(tmp_path: Path) -> None:
    authority.create(tmp_path, ["head.example", "10.0.0.7"], NOW)
    root = x509.load_pem_x509_certificate((tmp_path / AUTHORITY).read_bytes())
    certificate(tmp_path).verify_directly_issued_by(root)
    names = certificate(tmp_path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {SERVER_NAME, "head.example", "localhost"} <= set(names.get_values_for_type(x509.DNSName))
    assert "10.0.0.7" in map(str, names.get_values_for_type(x509.IPAddress))
    der = ssl.PEM_cert_to_DER_cert((tmp_path / AUTHORITY).read_text())
    assert authority.fingerprint(tmp_path) == hashlib.sha256(der).digest()


def test_machine_may_have_the_longest_name_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = "ip-10-0-0-7." + "x" * 52
    monkeypatch.setattr(authority.socket, "gethostname", lambda: longest)
    authority.create(tmp_path, (), NOW)
    root = x509.load_pem_x509_certificate((tmp_path / AUTHORITY).read_bytes())
    assert root.subject.rfc4514_string() == f"CN=roofline authority of {longest}"[:67]
    names = certificate(tmp_path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert longest in names.get_values_for_type(x509.DNSName)


def test_nobody_else_reads_the_keys(tmp_path: Path) -> None:
    authority.create(tmp_path / "access")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "access").iterdir()}
    assert set(modes.values()) == {0o600} and len(modes) == 5
    assert stat.S_IMODE((tmp_path / "access").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("days", "renewed"),
    [
        (authority.CERTIFICATE_DAYS - authority.RENEW_DAYS - 1, False),
        (authority.CERTIFICATE_DAYS - 1, True),
        (authority.CERTIFICATE_DAYS + 100, True),
    ],
)
def test_certificate_is_made_anew_before_it_ends(tmp_path: Path, days: int, renewed: bool) -> None:
    authority.create(tmp_path, ["head.example"], NOW)
    before, root = certificate(tmp_path), authority.fingerprint(tmp_path)
    shown = authority.identity(tmp_path, NOW + days * DAY)
    after = x509.load_pem_x509_certificates(shown.chain)[0]
    assert (after != before) is renewed
    assert after.not_valid_after_utc > NOW + days * DAY
    names = after.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "head.example" in names.get_values_for_type(x509.DNSName), "names that were given stay"
    assert authority.fingerprint(tmp_path) == root, "nobody has to join again"


def test_broken_certificate_is_said(tmp_path: Path) -> None:
    authority.create(tmp_path)
    (tmp_path / CERTIFICATE).write_text("no certificate")
    with pytest.raises(ConfigError, match="init --renew"):
        authority.identity(tmp_path)
    (tmp_path / authority.AUTHORITY_KEY).write_text("no key")
    with pytest.raises(ConfigError, match="authority"):
        authority.renew(tmp_path)


def show_all_the_time(folder: Path, stop: threading.Event) -> None:
    while not stop.is_set():
        shown = authority.identity(folder, NOW)
        key = serialization.load_pem_private_key(shown.key, None)
        assert key.public_key() == x509.load_pem_x509_certificates(shown.chain)[0].public_key()


def test_renewals_at_the_same_time_lose_no_name_and_show_no_key_of_another(tmp_path: Path) -> None:
    authority.create(tmp_path, (), NOW)
    names, stop = [f"name-{number}.example" for number in range(16)], threading.Event()
    with ThreadPoolExecutor(8) as pool:
        shown = pool.submit(show_all_the_time, tmp_path, stop)
        renewed = [pool.submit(authority.renew, tmp_path, [name], NOW) for name in names]
        wait(renewed)
        stop.set()
        shown.result()
        for one in renewed:
            one.result()
    found = certificate(tmp_path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names) <= set(found.get_values_for_type(x509.DNSName))


def test_two_who_see_that_a_certificate_ends_renew_it_once(tmp_path: Path) -> None:
    authority.create(tmp_path, (), NOW)
    late = NOW + (authority.CERTIFICATE_DAYS - 1) * DAY
    with ThreadPoolExecutor(8) as pool:
        shown = set(pool.map(lambda _: authority.identity(tmp_path, late), range(8)))
    assert len(shown) == 1
