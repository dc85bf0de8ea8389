"""Data of a later release are refused in one line, and stay as they are, byte by byte."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from roofline_server import __version__, access
from roofline_server.access import authority, tokens
from roofline_server.errors import ConfigError, Unavailable
from roofline_server.serve import Options, serve
from roofline_server.store.backup import back_up
from roofline_server.store.catalog.versions import FORMAT as CATALOG_FORMAT
from roofline_server.store.check.reading import check
from roofline_server.store.intake.inbox import FORMAT as INBOX_FORMAT
from roofline_server.store.intake.inbox import Inbox
from roofline_server.upkeep import Keep

from .builders import catalog_of, open_store
from .store.histories import filled

LATER = {
    "catalog.db": ("the catalog of .*", CATALOG_FORMAT),
    "inbox.db": ("the inbox of .*", INBOX_FORMAT),
}


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def rewrite(root: Path, name: str) -> str:
    """As a later release would have left a file; what is said of it then, as a pattern."""
    what, known = LATER[name]
    said = {"format": str(known + 1), "release": "9.9.9"}
    if name == "catalog.db":
        with catalog_of(root) as catalog:
            catalog.put_states(said)
    else:
        inbox = Inbox(root / name)
        assert inbox.about()["format"] == str(known)
        inbox.put_about(said)
        inbox.close()
    return (
        f"{what} has format {known + 1} and was written by roofline-server 9[.]9[.]9; this roofline-server, "
        f"{re.escape(__version__)}, reads formats up to {known}[.] Nothing was changed"
    )


@pytest.mark.parametrize("name", LATER)
@pytest.mark.parametrize("use", [open_store, check, lambda root: back_up(root, root.with_name("copy"))])
def test_data_of_a_later_release_are_refused_and_left_as_they_are(
    tmp_path: Path, name: str, use: Callable[[Path], object]
) -> None:
    root = tmp_path / "data"
    filled(root)
    expected = rewrite(root, name)
    before = contents(root)
    with pytest.raises(Unavailable, match=expected) as raised:
        use(root)
    assert "\n" not in str(raised.value)
    assert contents(root) == before
    assert not root.with_name("copy").exists()


def test_tokens_of_a_later_release_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    tokens.Tokens(tmp_path).new("reader", "alice")
    path = tmp_path / tokens.FILE
    data = json.loads(path.read_text())
    assert (data["format"], data["release"]) == (tokens.FORMAT, __version__)
    path.write_text(json.dumps({**data, "format": tokens.FORMAT + 1, "release": "9.9.9"}))
    before = path.read_bytes()
    for use in (
        tokens.Tokens(tmp_path).all,
        lambda: tokens.Tokens(tmp_path).new("reader", "bob"),
    ):
        with pytest.raises(ConfigError, match=f"format {tokens.FORMAT + 1} .* roofline-server 9[.]9[.]9"):
            use()
    assert path.read_bytes() == before


def test_tokens_of_before_formats_are_read(tmp_path: Path) -> None:
    _, secret = tokens.Tokens(tmp_path).new("reader", "alice")
    path = tmp_path / tokens.FILE
    path.write_text(json.dumps({"tokens": json.loads(path.read_text())["tokens"]}))
    held = tokens.Tokens(tmp_path).holder(secret)
    assert held is not None and held.name == "alice"


def test_server_does_not_start_with_tokens_of_a_later_release(tmp_path: Path) -> None:
    folder = tmp_path / access.FOLDER
    authority.create(folder, ())
    (folder / tokens.FILE).write_text(json.dumps({"format": tokens.FORMAT + 1, "tokens": []}))
    options = Options("127.0.0.1:0", tmp_path, "", False, 30.0, "off", "off", Keep(None, None, ()))
    with pytest.raises(ConfigError, match="written by a later release"):
        asyncio.run(serve(options))
    assert {path.name for path in tmp_path.iterdir()} == {access.FOLDER}
