"""Certificates that are renewed while a server runs."""

from __future__ import annotations

import os
import shutil
import ssl
from pathlib import Path

import pytest
from roofline.renewal import Renewal
from roofline_server.access import CERTIFICATE, KEY, authority


class Shown:
    """A context that tells what it was given."""

    def __init__(self) -> None:
        self.loaded = 0

    def load_cert_chain(self, certificate: Path, key: Path) -> None:
        self.loaded += 1  # a key of another certificate would leave it with none
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    authority.create(tmp_path / "one")
    return tmp_path / "one"


def look(renewal: Renewal, shown: Shown, times: int = 1) -> None:
    for _ in range(times):
        renewal.look(shown)  # type: ignore[arg-type]


def touched(path: Path) -> None:
    """As by something that is done later."""
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000_000))


def test_new_certificate_is_shown_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    renewal, shown = Renewal(folder / CERTIFICATE, folder / KEY), Shown()
    look(renewal, shown, 2)
    assert shown.loaded == 0
    authority.renew(folder, ())
    touched(folder / CERTIFICATE)
    look(renewal, shown, 2)
    assert shown.loaded == 1
    assert not caplog.records


@pytest.mark.parametrize("what", ["another key", "no certificate", "gone"])
def test_what_cannot_be_shown_leaves_the_old_one_and_is_logged_if_it_stays_so(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    renewal, shown = Renewal(folder / CERTIFICATE, folder / KEY), Shown()
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)
    if what == "another key":
        authority.create(tmp_path / "two")
        shutil.copy(tmp_path / "two" / KEY, folder / KEY)
        touched(folder / CERTIFICATE)
    elif what == "no certificate":
        (folder / CERTIFICATE).write_text("half of on")
        touched(folder / CERTIFICATE)
    else:
        (folder / CERTIFICATE).unlink()
    look(renewal, shown)
    assert not caplog.records, "the files may be about to be replaced"
    look(renewal, shown, 3)
    (said,) = caplog.messages
    assert str(folder / CERTIFICATE) in said and "the old one is shown until" in said
    assert shown.loaded == 0
    for name in (KEY, CERTIFICATE):
        shutil.copy(whole / name, folder / name)
    touched(folder / CERTIFICATE)
    look(renewal, shown)
    assert shown.loaded == 1
