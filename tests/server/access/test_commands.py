"""What `roofline-server token` refuses."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
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
        (("--role", "king"), "no role 'king': there are agent, reader, admin"),
        (("--user", "alice"), "only readers can be limited"),
        (("--days", "3000000"), "'--days': 3e+06 must be at most 36500"),
        (("--days", "inf"), "'--days': inf must be at most 36500"),
        (("--days", "nan"), "'--days': "),
    ],
)
def test_token_that_cannot_be_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], why: str
) -> None:
    monkeypatch.setattr(tokens, "access_of", lambda *_: tmp_path)
    done = CliRunner().invoke(app, ["token", "new", *options])
    assert done.exit_code == 2 and why in " ".join(done.output.split())
    assert Tokens(tmp_path).all() == []


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
