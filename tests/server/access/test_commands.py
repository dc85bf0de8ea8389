"""What `roofline-server token` refuses."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from roofline.joining import load_servers
from roofline_server import access
from roofline_server.access import authority
from roofline_server.access.tokens import Tokens
from roofline_server.cli import app
from roofline_server.commands import tokens
from roofline_server.data_directory import lock_directory
from roofline_server.health import running
from roofline_server.health.running import Running
from typer.testing import CliRunner


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--role", "king"), "'king' is not a role: use agent, reader or admin"),
        (("--user", "alice"), "only readers can be limited"),
        (("--days", "3000000"), "'--days': 3e+06 must be at most 36500"),
        (("--days", "inf"), "'--days': inf must be at most 36500"),
        (("--days", "nan"), "'--days': "),
        (("--days", "0"), "a token for 0 days could never be used"),
    ],
)
def test_token_that_cannot_be_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], why: str
) -> None:
    monkeypatch.setattr(tokens, "access_of", lambda *_: tmp_path)
    done = CliRunner().invoke(app, ["token", "new", *options])
    assert done.exit_code == 2 and why in " ".join(done.output.split())
    assert Tokens(tmp_path).all() == []


def test_audit_names_whom_a_token_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "access_of", lambda *_: tmp_path)
    monkeypatch.setattr(tokens, "join_token", lambda *_: "")
    assert CliRunner().invoke(app, ["token", "new", "--role", "reader", "--user", "alice"]).exit_code == 0
    assert json.loads((tmp_path / "audit.log").read_text())["name"] == "alice"


@pytest.mark.parametrize("days", [3e6, 1e300, float("inf")])
def test_token_that_outlasts_the_calendar_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: float
) -> None:
    """A server of before could make such a token."""
    monkeypatch.setattr(tokens, "access_of", lambda *_: tmp_path)
    made, _ = Tokens(tmp_path).new("agent", "nodes", days=days)
    done = CliRunner().invoke(app, ["token", "list"])
    (line,) = (line for line in done.output.splitlines() if line.startswith(made.id))
    assert "valid" in line and "after 9999" in line


def test_the_line_to_copy_names_the_port_of_the_server_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROOFLINE_LISTEN", raising=False)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    data = tmp_path / "data"

    def joins_at(*command: str) -> str:
        done = CliRunner().invoke(app, [*command, "--data", str(data)])
        (found,) = re.findall(r"roofline-agent join \S+:(\d+) - <<<", done.output)
        return str(found)

    assert joins_at("init") == joins_at("token", "new") == "7642"
    running.write(data, Running(1, "0.0.0.0:9123", "", 0.0, ""))
    assert joins_at("token", "new") == "7642", "it was killed"
    lock = lock_directory(data)
    assert joins_at("init") == joins_at("token", "new") == "9123"
    os.close(lock)


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory of somebody whose home is empty."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "ROOFLINE_STATE"):
        monkeypatch.setenv(name, str(tmp_path))
    return tmp_path / "data"


@pytest.mark.parametrize("name", ["köln", "a b", "", "head:7642", "10.0.0.0/8", "[::1]", "head..cluster"])
def test_name_that_no_certificate_can_have_is_refused_before_anything_is_made(
    at_home: Path, name: str
) -> None:
    done = CliRunner().invoke(app, ["init", "head", name, "--data", str(at_home)])
    assert done.exit_code == 2 and "neither the name of a host nor an address" in " ".join(
        done.output.replace("│", " ").split()
    )
    assert not at_home.exists()


def test_names_and_addresses_are_taken(at_home: Path) -> None:
    names = ["head.cluster.example", "10.0.0.1", "fe80::1", "*.cluster", "gpu_01"]
    assert CliRunner().invoke(app, ["init", *names, "--data", str(at_home)]).exit_code == 0


def test_init_finishes_what_an_earlier_one_began(at_home: Path) -> None:
    folder = at_home / access.FOLDER
    authority.create(folder)
    before = authority.fingerprint(folder)
    (folder / access.CERTIFICATE).unlink()
    done = CliRunner().invoke(app, ["init", "--data", str(at_home)])
    assert done.exit_code == 0 and "TLS and tokens are on" in done.output
    assert (folder / access.CERTIFICATE).exists() and authority.fingerprint(folder) == before


@pytest.mark.parametrize(
    ("listen", "here", "others"),
    [
        ("10.0.0.7:9000", "10.0.0.7:9000", "10.0.0.7:9000"),
        ("[fd00::7]:9000", "[fd00::7]:9000", "[fd00::7]:9000"),
        ("0.0.0.0:9000", "127.0.0.1:9000", "head.example:9000"),
        ("127.0.0.1:9000", "127.0.0.1:9000", "head.example:9000"),
        ("", "127.0.0.1:7642", "head.example:7642"),
    ],
)
def test_this_machine_is_let_in_where_the_server_listens_and_others_are_told(
    at_home: Path, monkeypatch: pytest.MonkeyPatch, listen: str, here: str, others: str
) -> None:
    monkeypatch.setenv("ROOFLINE_LISTEN", listen)
    monkeypatch.setattr("socket.getfqdn", lambda: "head.example")
    done = CliRunner().invoke(app, ["init", "--data", str(at_home)])
    assert f"are let in, at {here}." in done.output
    assert f"roofline-agent join {others} - <<<" in done.output
    assert load_servers(at_home.parent / "roofline" / "servers.json").newest == here
