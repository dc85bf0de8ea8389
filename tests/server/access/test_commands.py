"""What `roofline-server token` refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_server.access.tokens import Tokens
from roofline_server.cli import app
from roofline_server.commands import tokens
from typer.testing import CliRunner


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--role", "king"), "no role 'king': there are agent, reader, admin"),
        (("--user", "alice"), "only readers can be limited"),
    ],
)
def test_token_that_cannot_be_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], why: str
) -> None:
    monkeypatch.setattr(tokens, "access_of", lambda *_: tmp_path)
    done = CliRunner().invoke(app, ["token", "new", *options])
    assert done.exit_code == 2 and why in " ".join(done.output.split())
    assert Tokens(tmp_path).all() == []
