"""What one user's processes name costs that user alone, and ends with the day."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from roofline_agent.ranks import known_names, new_names
from roofline_agent.ranks.discovery import Discovery
from roofline_agent.ranks.new_names import DAY_S, NewNames
from roofline_server.store.catalog.name_ids import MAX_BROUGHT

from tests.fakes import add_process


def bring(names: NewNames, user: int, words: str) -> str:
    return "".join(word for word in words if names.take(user, [word]))


def test_who_brings_all_that_can_be_leaves_half_to_the_others() -> None:
    names = NewNames(8)
    assert bring(names, 1, "abcdefgh") == "abcd"
    assert bring(names, 2, "ijkl") == "ij"
    assert bring(names, 3, "mn") == "m"
    assert bring(names, 1, "abcd") == "abcd", "what is known costs nothing"
    assert not names.take(3, ["m", "x"]), "all or none"


def test_next_day_there_is_room_again_and_what_is_known_costs_nothing() -> None:
    now = [0.0]
    names = NewNames(4, lambda: now[0])
    assert bring(names, 1, "abc") == "ab"
    now[0] = DAY_S
    assert bring(names, 1, "abcde") == "abcd"


def test_server_takes_twice_what_an_agent_brings() -> None:
    assert MAX_BROUGHT["ranks"] == 2 * new_names.RANKS
    assert MAX_BROUGHT["processes"] == 2 * new_names.PROCESSES
    assert MAX_BROUGHT["kernels"] == 2 * new_names.KERNELS


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to have a process of another user")
def test_flood_of_ranks_costs_the_others_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_names, "RANKS", 4)
    for pid in range(10, 20):
        add_process(
            tmp_path, pid, {"ROOFLINE_JOB": f"flood{pid}", "ROOFLINE_ROLE": "worker", "ROOFLINE_RANK": "0"}
        )
        os.chown(tmp_path / str(pid), 12345, -1)
    found = Discovery(str(tmp_path))
    found.scan()
    add_process(tmp_path, 30, {"ROOFLINE_JOB": "mine", "ROOFLINE_ROLE": "worker", "ROOFLINE_RANK": "0"})
    found.scan()
    assert sorted(rank.uid for rank in found.ranks.values()) == [0, 12345, 12345]
