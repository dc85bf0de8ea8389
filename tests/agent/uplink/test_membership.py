"""Certificates of agents are exchanged in time, next to what is sent, and again where that failed."""

from __future__ import annotations

from typing import Any

import pytest
from roofline.joining import RENEW_S, Access, CannotJoin
from roofline_agent.errors import AgentError
from roofline_agent.uplink import membership
from roofline_agent.uplink.membership import AGAIN_S, Membership

NOW = 1e9
OLD = Access("ca", "", "old", "key", NOW + RENEW_S)
NEW = Access("ca", "", "new", "key", NOW + 3 * RENEW_S)


class Time:
    now = NOW

    def __call__(self) -> float:
        return self.now


def wait(member: Membership) -> bool:
    """Whether it tries; returns when that is done."""
    thread = member.renew_if_due()
    if thread is not None:
        thread.join(30)
    return thread is not None


def test_exchanged_once_when_due_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Access] = []
    clock = Time()
    clock.now = NOW - 1
    monkeypatch.setattr(membership, "renewed", lambda grpc, server, access: NEW)
    member = Membership(None, "head:1", OLD, kept.append, clock=clock)
    assert not wait(member)
    clock.now = NOW
    assert wait(member) and not wait(member)
    assert (member.access, kept) == (NEW, [NEW])


@pytest.mark.parametrize(
    ("first", "later"),
    [(NOW, NOW + AGAIN_S), (NOW + 100 * AGAIN_S, NOW + 1)],
    ids=["after a while", "clock set back"],
)
def test_tried_again(monkeypatch: pytest.MonkeyPatch, first: float, later: float) -> None:
    def refused(*_: Any) -> Access:
        raise CannotJoin("away")

    monkeypatch.setattr(membership, "renewed", refused)
    clock = Time()
    member = Membership(None, "head:1", OLD, clock=clock)
    clock.now = first
    assert wait(member) and not wait(member)
    clock.now = later
    assert wait(member) and member.access == OLD


def test_one_that_cannot_be_written_is_exchanged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Access] = []
    full = [CannotJoin("cannot write servers.json: No space left on device")]

    def keep(access: Access) -> None:
        if full:
            raise full.pop()
        kept.append(access)

    monkeypatch.setattr(membership, "renewed", lambda grpc, server, access: NEW)
    clock = Time()
    member = Membership(None, "head:1", OLD, keep, clock=clock)
    assert wait(member) and not wait(member)
    clock.now += AGAIN_S
    assert wait(member) and (member.access, kept) == (NEW, [NEW])


@pytest.mark.parametrize("access", [None, Access("ca", "token")])
def test_tokens_need_none(access: Access | None) -> None:
    assert not wait(Membership(None, "head:1", access, clock=Time()))


def test_who_joins_again_is_let_in_without_a_restart() -> None:
    kept: list[Access | AgentError] = [OLD]

    def load() -> Access | None:
        if isinstance(kept[0], AgentError):
            raise kept[0]
        return kept[0]

    member = Membership(None, "head:1", OLD, load=load)
    kept[0] = NEW
    member.look_again()
    assert member.access == NEW
    kept[0] = AgentError("servers.json cannot be read")
    member.look_again()
    assert member.access == NEW, "a file that is broken changes nothing"
