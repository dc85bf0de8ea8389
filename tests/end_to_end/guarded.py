"""A server that wants tokens, somebody who has them, and its live page."""

from __future__ import annotations

import http.client
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import free_port

from .conftest import COMMANDS, Site, wait_until


class Person:
    """Somebody with a home of their own, who runs our commands."""

    def __init__(self, home: Path, address: str) -> None:
        home.mkdir()
        self.home, self.address = home, address
        self.environ = {
            "HOME": str(home),
            "PATH": f"{COMMANDS}:/usr/bin:/bin",
            "ROOFLINE_LISTEN": address,  # of the server's commands
        }

    def run(self, *command: Any, stdin: str = "") -> subprocess.CompletedProcess[str]:
        words = [str(word) for word in command]
        return subprocess.run(
            words, env=self.environ, input=stdin, capture_output=True, text=True, timeout=60
        )

    def said(self, *command: Any, stdin: str = "") -> str:
        done = self.run(*command, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def token(self, *options: str) -> str:
        return self.said("roofline-server", "token", "new", *options).split()[-1]


def free_place() -> str:
    return f"127.0.0.1:{free_port()}"


def ask(place: str, path: str, method: str = "GET", body: str = "", **headers: str) -> Any:
    """Status, headers and text; None: nobody answers."""
    kind: Any = http.client.HTTPSConnection if headers.pop("tls", "") else http.client.HTTPConnection
    more = {"context": ssl._create_unverified_context()} if kind is http.client.HTTPSConnection else {}
    connection = kind(place, timeout=20, **more)
    try:
        connection.request(method, path, body or None, headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()
    except OSError:
        return None
    finally:
        connection.close()


@pytest.fixture
def guarded(site: Site, tmp_path: Path) -> tuple[Person, str]:
    """A server with tokens and a page."""
    owner = Person(tmp_path / "head", site.address)
    owner.said("roofline-server", "init")
    place = free_place()
    site.start([COMMANDS / "roofline-server", "--page", place], "server.log", **owner.environ)
    wait_until(lambda: ask(place, "/login"), 30, "the page answers")
    return owner, place
