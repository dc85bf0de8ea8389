"""With which certificate a server is reached, where that is due to be renewed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from roofline.joining import RENEW_S, Access, CannotJoin, Servers, client_file, load_servers, save_servers
from roofline_client import channel

SERVER = "head:7642"
DAY_S = 86400.0


def due(days: float) -> Access:
    return Access("ca", "", "old", "key", time.time() + days * DAY_S)


def refused(grpc: object, server: str, access: Access) -> Access:
    raise CannotJoin(f"the server at {server} refuses: its disk is full")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(channel, "_warned", set())
    return client_file({"XDG_CONFIG_HOME": str(tmp_path)})


def test_renewed_certificate_is_kept_and_nothing_is_said(
    kept: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    new = Access("ca", "", "new", "key", time.time() + 3 * RENEW_S)
    save_servers(kept, Servers(SERVER, {SERVER: due(5)}))
    monkeypatch.setattr(channel, "renewed", lambda grpc, server, access: new)
    assert channel._in_time(SERVER, due(5)) == new
    assert load_servers(kept).known == {SERVER: new}
    assert not caplog.messages


def test_certificate_that_was_not_renewed_is_said_once_with_the_day_and_what_to_do(
    kept: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(channel, "renewed", refused)
    access = Access("ca", "", "old", "key", 4e9)
    monkeypatch.setattr(time, "time", lambda: 4e9 - DAY_S)
    assert [channel._in_time(SERVER, access) for _ in range(2)] == [access, access]
    (said,) = caplog.messages
    assert "ends on 2096-10-02 07:06:40 UTC and was not renewed" in said and "its disk is full" in said
    assert f"`roofline-client join {SERVER} - <<< TOKEN`" in said


def test_of_a_certificate_that_is_over_only_the_question_says_so(
    kept: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(channel, "renewed", refused)
    channel._in_time(SERVER, due(-1))
    assert not caplog.messages


def test_it_is_said_on_stderr_where_nobody_set_up_logging() -> None:
    code = """
import time
from roofline.joining import Access, CannotJoin
from roofline_client import channel

def refused(*_):
    raise CannotJoin("it refuses")

channel.renewed = refused
channel._in_time("head:1", Access("ca", "", "old", "key", time.time() + 3600))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("roofline-client: ")]
    assert "was not renewed" in said and done.stdout == ""
