"""The live page of a site in a real browser."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import sync_playwright

from tests.fakes import free_port

from .conftest import COMMANDS, Site, wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE_MS = 30_000


class Browser:
    """A tab, and what went wrong in it."""

    def __init__(self, tab: Any, home: str) -> None:
        self.tab, self.home = tab, home
        self.problems: list[str] = []
        self.elsewhere: list[str] = []
        tab.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        tab.on("pageerror", lambda error: self.problems.append(str(error)))
        tab.on("request", self._requested)

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def text(self, place: str) -> str:
        return str(self.tab.inner_text(place))

    def waits_for(self, place: str, words: str, milliseconds: int = PATIENCE_MS) -> None:
        self.tab.locator(place).filter(has_text=re.compile(words)).first.wait_for(timeout=milliseconds)


@contextlib.contextmanager
def looking(site: Site) -> Iterator[Browser]:
    """A tab at the list of jobs of the site's server."""
    home = f"http://127.0.0.1:{free_port()}"
    site.start([COMMANDS / "roofline-client", "page", "--listen", home.removeprefix("http://")], "page.log")
    wait_until(lambda: connects(home), what="the page listens")
    with tab_at(home) as found:
        yield found


@contextlib.contextmanager
def tab_at(home: str) -> Iterator[Browser]:
    """A tab at a page that is served already."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 1000})
        found = Browser(tab, home)
        tab.goto(home)
        yield found
        browser.close()


def connects(home: str) -> bool:
    host, _, port = home.removeprefix("http://").partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
