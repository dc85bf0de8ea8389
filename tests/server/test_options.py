"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_server.cli import app
from typer.testing import CliRunner, Result


def run(*given: str, **environ: str) -> Result:
    return CliRunner().invoke(app, given, env=environ)


@pytest.mark.parametrize("command", ["status", "check", "prune --job 42", "token list"])
def test_commands_take_the_same_formats(tmp_path: Path, command: str) -> None:
    found = run(*command.split(), "--data", str(tmp_path), "--format", "xml")
    assert found.exit_code == 2
    assert "'xml' is not one of text, json" in found.output
    assert "--format" in found.output


@pytest.mark.parametrize("command", ["", "check", "prune"])
def test_commands_take_the_catalog_from_the_environment_too(command: str) -> None:
    found = run(*command.split(), "--help")
    assert "--catalog" in found.output and "ROOFLINE_CATALOG" in found.output
