"""What agents and clients keep of servers that they have joined."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from roofline import joining
from roofline.joining import (
    Access,
    CannotJoin,
    JoinToken,
    Servers,
    agent_file,
    check_can_save,
    client_file,
    load_servers,
    parse_token,
    save_servers,
    who,
)
from roofline_agent.cli import app as agent
from roofline_client.cli import app as client
from typer.testing import CliRunner


def test_token_comes_back_from_its_text() -> None:
    token = JoinToken(bytes(range(32)), "a.secret-with_all")
    assert parse_token(f" {token}\n") == token


@pytest.mark.parametrize(
    "text", ["", "roofline1", "roofline1.abc.def", "roofline2." + "A" * 43 + ".x", "ö.ö.ö"]
)
def test_what_is_no_token_is_said(text: str) -> None:
    with pytest.raises(CannotJoin, match="no join token"):
        parse_token(text)


def test_newest_server_is_the_default_and_others_stay(tmp_path: Path) -> None:
    file, first, second = tmp_path / "a" / "servers.json", Access("pem", "one"), Access("pem", "two")
    assert load_servers(file) == Servers("", {})
    save_servers(file, load_servers(file).joined("head:1", first))
    save_servers(file, load_servers(file).joined("head:2", second))
    assert load_servers(file) == Servers("head:2", {"head:1": first, "head:2": second})
    assert [path.name for path in file.parent.iterdir()] == ["servers.json"]
    for broken in ("no JSON", "[]", '{"newest": "x"}', '{"newest": "", "known": {"x": {"a": 1}}}'):
        file.write_text(broken)
        with pytest.raises(CannotJoin, match="join again"):
            load_servers(file)


@pytest.mark.parametrize("name", ["broken", "no folder"])
def test_no_token_is_used_up_where_nothing_can_be_kept(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "broken":
        for file in (client_file({"XDG_CONFIG_HOME": str(tmp_path)}), agent_file(tmp_path)):
            file.parent.mkdir(exist_ok=True)
            file.write_text("no JSON")
    else:
        tmp_path /= "file"
        tmp_path.touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    tried = []
    monkeypatch.setattr(joining, "enrol", lambda *_: tried.append("agent"))
    monkeypatch.setattr("roofline_client.channel.enrolled", lambda *_: tried.append("client"))
    token = str(JoinToken(bytes(range(32)), "secret"))
    for done in (
        CliRunner().invoke(agent, ["--state", str(tmp_path), "join", "head:7642", token]),
        CliRunner().invoke(client, ["join", "head:7642", token]),
    ):
        assert done.exit_code != 0 and str(tmp_path) in str(done.exception), done
    assert tried == []


def test_what_is_tried_before_joining_is_not_left(tmp_path: Path) -> None:
    file = tmp_path / "a" / "servers.json"
    check_can_save(file)
    assert list(file.parent.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="takes root, to become another user")
@pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
def test_what_root_joins_for_another_user_is_that_users(tmp_path: Path) -> None:
    state = tmp_path / "agent"
    state.mkdir(0o700)
    os.chown(state, 65534, 65533)
    save_servers(state / "servers.json", Servers("", {}).joined("a:1", Access("CA", "t")))
    found = (state / "servers.json").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (65534, 65533, 0o600)


def test_nothing_is_known_in_a_home_that_cannot_be_entered_and_an_unreadable_file_is_refused(
    tmp_path: Path,
) -> None:
    home, file = tmp_path / "home", tmp_path / "servers.json"
    home.mkdir(0o700)
    file.touch(0o600)
    for folder in (tmp_path, *tmp_path.parents):  # pytest's own may be entered by root alone
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        assert load_servers(home / "roofline" / "servers.json") == Servers("", {})
        with pytest.raises(CannotJoin, match="Permission denied"):
            load_servers(file)
    finally:
        os.seteuid(0)


def test_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as any user."""

    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(joining.pwd, "getpwuid", nobody)
    assert who({}) == f"{os.getuid()}@{socket.gethostname()}"
