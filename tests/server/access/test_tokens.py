"""Tokens: what is kept of them, what they are good for, and for how long."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from pathlib import Path

import pytest
from roofline_server.access import tokens as tokens_module
from roofline_server.access.audit import Audit
from roofline_server.access.tokens import DAY_S, FILE, KEPT_DAYS, ROLES, Tokens
from roofline_server.errors import BadRequest, ConfigError


def test_only_hashes_are_kept(tmp_path: Path) -> None:
    token, secret = Tokens(tmp_path).new("reader", "alice")
    text = (tmp_path / FILE).read_text()
    assert secret not in text and token.digest in text
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert Tokens(tmp_path).holder(secret) == token
    assert Tokens(tmp_path).holder(token.digest) is None, "a hash is no secret"


def test_join_token_gives_one_of_its_role(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    _, secret = tokens.new("agent", "nodes", joins=True)
    made = [tokens.join(secret, name) for name in ("node1", "node2")]
    assert [(one[0].role, one[0].name, one[0].joins) for one in made if one] == [
        ("agent", "node1", False),
        ("agent", "node2", False),
    ]
    assert made[0] and made[1] and made[0][1] != made[1][1]
    assert tokens.join(made[0][1], "node3") is None, "a token of one's own is not for joining"


def test_token_for_one_join_is_used_up(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    _, secret = tokens.new("reader", "", joins=True, once=True)
    assert tokens.join(secret, "alice") is not None
    assert tokens.join(secret, "mallory") is None
    assert tokens.holder(secret) is None


def test_token_for_one_join_is_not_used_up_by_who_cannot_join(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    _, secret = tokens.new("agent", "nodes", joins=True, once=True)
    with pytest.raises(BadRequest):
        tokens.join(secret, "n" * 201)
    assert tokens.join(secret, "node1") is not None
    assert tokens.join(secret, "node2") is None


def test_tokens_that_are_long_over_make_room_for_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_module, "MOST_TOKENS", 3)
    tokens = Tokens(tmp_path)
    old, recent, good = (tokens.new("agent", name)[0] for name in ("old", "recent", "good"))
    tokens.revoke(old.id)
    with pytest.raises(BadRequest, match="there are 3 tokens"):
        tokens.new("agent", "new")
    later = time.time() + (KEPT_DAYS + 1) * DAY_S
    monkeypatch.setattr(tokens_module.time, "time", lambda: later)
    tokens.revoke(recent.id)
    new, _ = tokens.new("agent", "new")
    assert {one.id for one in tokens.all()} == {recent.id, good.id, new.id}


def test_token_that_was_used_up_is_not_said_to_be_revoked(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    once, secret = tokens.new("reader", "", joins=True, once=True)
    other, _ = tokens.new("reader", "", joins=True, once=True)
    tokens.join(secret, "alice")
    tokens.revoke(other.id)
    states = {one.id: one.state(time.time()) for one in Tokens(tmp_path).all()}
    assert (states[once.id], states[other.id]) == ("used", "revoked")


def test_earlier_releases_can_read_the_file(tmp_path: Path) -> None:
    """They refuse rows with more than these."""
    tokens = Tokens(tmp_path)
    _, secret = tokens.new("reader", "", joins=True, once=True)
    tokens.join(secret, "alice")
    known = {"id", "role", "name", "digest", "created", "joins", "once", "expires", "revoked", "user", "jobs"}
    assert [set(row) for row in json.loads((tmp_path / FILE).read_text())["tokens"]] == [known] * 2


def test_token_for_another_role_is_not_used_up(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    _, secret = tokens.new("reader", "", joins=True, once=True)
    with pytest.raises(BadRequest, match="roofline-client"):
        tokens.join(secret, "node1", ["agent"])
    assert tokens.join(secret, "alice", ["reader"]) is not None


def test_many_who_join_at_once_all_have_their_token(tmp_path: Path) -> None:
    _, secret = Tokens(tmp_path).new("agent", "", joins=True)
    found = []

    def join(number: int) -> None:
        found.append(Tokens(tmp_path).join(secret, f"node{number}"))

    threads = [threading.Thread(target=join, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one[1] for one in found if one}) == 16
    assert len(Tokens(tmp_path).all()) == 17, "none has overwritten another"


def test_expired_and_revoked_tokens_are_worthless(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    token, secret = tokens.new("reader", "", days=1)
    assert tokens.holder(secret, token.created + DAY_S - 1) is not None
    assert tokens.holder(secret, token.created + DAY_S) is None
    assert tokens.valid_ids(token.created + DAY_S) == frozenset()
    other, own = tokens.new("reader", "")
    revoked = Tokens(tmp_path).revoke(other.id)  # by another process
    assert revoked.revoked is not None
    assert tokens.holder(own) is None, "seen without a restart"
    assert Tokens(tmp_path).revoke(other.id).revoked == revoked.revoked, "twice is once"


def test_who_joins_for_a_while_goes_when_another_of_his_name_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = Tokens(tmp_path)
    _, secret = tokens.new("reader", "", joins=True)
    now = time.time()
    monkeypatch.setattr("roofline_server.access.tokens.time.time", lambda: now)

    def join(name: str, lasts_s: float = 0.0) -> str:
        found = tokens.join(secret, name, lasts_s=lasts_s)
        assert found is not None
        return found[0].id

    stays, visits, other = join("alice"), join("a visitor", 60.0), join("another", 60.0)
    assert {stays, visits, other} <= tokens.valid_ids()
    now += 61
    again = join("a visitor", 60.0)
    known = {token.id for token in tokens.all()}
    assert visits not in known and {stays, other, again} <= known
    assert tokens.valid_ids() & {stays, visits, other, again} == {stays, again}


def test_bad_input_and_broken_files_are_said(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    for role, name in (("root", ""), ("reader", "a\nb"), ("reader", "x" * 201)):
        with pytest.raises(BadRequest):
            tokens.new(role, name)
    with pytest.raises(BadRequest, match="token list"):
        tokens.revoke("nothing")
    (tmp_path / FILE).write_text(json.dumps({"tokens": [{"id": 3}]}))
    with pytest.raises(ConfigError, match="cannot be read"):
        tokens.holder("anything")
    with pytest.raises(ConfigError, match="cannot be read"):
        tokens.new(ROLES[0], "")


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
def test_what_root_writes_the_user_of_the_server_reads(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    Tokens(tmp_path).new("reader", "alice")
    Audit(tmp_path).add("token new")
    assert {path.name: path.stat().st_uid for path in tmp_path.iterdir()} == {
        "tokens.json": 65534,
        "tokens.lock": 65534,
        "audit.log": 65534,
    }
