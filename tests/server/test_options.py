"""Options that several commands share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from roofline_server.cli import app
from roofline_server.errors import Unavailable
from roofline_server.ingest.service import decode_entry
from roofline_server.store.store import Store
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


def test_check_and_backup_say_what_holds_for_a_catalog_in_another_database(tmp_path: Path) -> None:
    root, url = tmp_path / "data", f"sqlite:///{tmp_path}/catalog.db"
    Store(root, decode_entry, url).close()
    found = run("check", "--data", str(root), "--catalog", url)
    assert found.exit_code == 0
    assert "`backup` does not copy" in found.stderr and "no problems found" in found.stdout
    refused = run("backup", str(tmp_path / "copy"), "--data", str(root), ROOFLINE_CATALOG=url)
    assert "in another database" in str(refused.exception)
    without = run("check", "--data", str(root))
    assert "say with --catalog" in str(without.exception)
    assert not (root / "catalog.db").exists()


@pytest.mark.parametrize("option", ["--keep-days", "--keep-gb"])
def test_retention_has_a_limit_that_can_be_counted_or_none(tmp_path: Path, option: str) -> None:
    for number in ("1e300", "nan", "-1"):
        found = run(option, number, "--data", str(tmp_path), "status")
        assert found.exit_code == 2 and option in found.output
    assert run(option, "inf", "--data", str(tmp_path), "status").exit_code == 3  # not running


@pytest.mark.skipif(os.getuid() != 0, reason="takes root")
@pytest.mark.parametrize("command", ["check", "check --repair", "prune --job 42", "backup copy"])
def test_root_leaves_no_file_in_a_directory_of_the_servers_user(tmp_path: Path, command: str) -> None:
    root = tmp_path / "data"
    Store(root, decode_entry).close()
    for path in (root, *root.rglob("*")):
        os.chown(path, 65534, 65534)
    before = sorted(root.rglob("*"))
    done = run(*command.split(), "--data", str(root))
    assert done.exit_code == 1 and isinstance(done.exception, Unavailable)
    assert f"the data in {root} belong to user nobody: run this as that user" in str(done.exception)
    assert sorted(root.rglob("*")) == before
    os.chown(root, 0, 0)  # as the root of a volume is, which the server may write to by its group
    assert isinstance(run(*command.split(), "--data", str(root)).exception, Unavailable)


# Root without what makes it root is kept out of another user's directory as anybody is.
@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="takes root, and setpriv")
@pytest.mark.parametrize("command", ["status", "check", "prune --job 42", "backup copy"])
def test_a_directory_of_another_user_is_not_available(tmp_path: Path, command: str) -> None:
    data = tmp_path / "data"
    data.mkdir(0o700)
    os.chown(data, 65534, 65534)
    narrow = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    server = [sys.executable, "-m", "roofline_server", *command.split(), "--data", str(data)]
    done = subprocess.run([*narrow, *server], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr == (
        f"roofline-server: cannot read the data directory {data}: Permission denied; run this as the user "
        "of the server\n"
    )
