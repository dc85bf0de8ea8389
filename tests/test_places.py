"""Where a user's files are."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from roofline.joining import client_file
from roofline.places import home, state_home
from roofline_agent.config import default_state
from roofline_server.data_directory import default_data


def test_places_that_the_environment_names() -> None:
    assert home({"HOME": "/h"}) == Path("/h")
    assert state_home({"HOME": "/h"}) == Path("/h/.local/state")
    assert state_home({"HOME": "/h", "XDG_STATE_HOME": "/s"}) == Path("/s")


@pytest.mark.parametrize("environ", [{}, {"HOME": "", "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": ""}])
def test_without_home_the_user_database_says_where_it_is(environ: dict[str, str]) -> None:
    own = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert default_state(environ) == own / ".local/state/roofline/agent"
    assert default_data(environ) == own / ".local/state/roofline/server"
    assert client_file(environ) == own / ".config/roofline/servers.json"


def test_user_without_a_name_and_without_home_has_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert home({}) == Path("/")
