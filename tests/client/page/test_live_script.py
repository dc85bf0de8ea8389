"""What live.js says of errors and does in a hidden tab, in node; the browser is a double."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import roofline_client.page

SCRIPT = Path(roofline_client.page.__file__).parent / "static" / "live.js"
BROWSER = """
const link = { textContent: "" };
let source, changed, opened = 0;
globalThis.document = {
  hidden: false, getElementById: () => link, addEventListener: (_, call) => { changed = call; },
};
globalThis.EventSource = class {
  constructor() { source = this; opened += 1; }
  close() { opened -= this.closed ? 0 : 1; this.closed = true; }
};
"""
HIDE = """
const ask = follow(() => "/events/job", () => {});
const seen = [true, false, true].map((hidden) => { document.hidden = hidden; changed(); return opened; });
ask();  // somebody picked in a tab that is hidden by now
console.log(JSON.stringify([...seen, opened]));
"""
SEND = """
follow(() => "/events/job", () => {});
const said = EVENTS.map(([feed, data]) => {
  if (feed) source.onmessage({ lastEventId: feed, data: JSON.stringify(data) });
  else source.onopen();
  return link.textContent;
});
console.log(JSON.stringify(said));
"""
AWAY = """
follow(() => "/events/job", () => {});
source.readyState = 0;
const said = [];
const note = () => said.push(link.textContent);
source.onerror(); note();
source.onmessage({ lastEventId: "steps", data: "{}" });
Date.now = () => 1700000000000;
source.onerror(); note();
Date.now = () => 1700000009000;
source.onerror(); note();
source.onopen(); note();
console.log(JSON.stringify(said));
"""

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")


def test_error_of_a_feed_stays_until_that_feed_has_an_answer() -> None:
    fine, busy, gone = {}, {"error": "busy"}, {"error": "gone"}
    events = [
        ("verdict", busy),
        ("steps", fine),
        ("late", busy),
        ("late", gone),
        ("verdict", fine),
        ("late", fine),
        ("verdict", busy),
        ("", fine),  # the connection is new, and every feed sends what it has
        ("steps", fine),
    ]
    assert said(SEND.replace("EVENTS", json.dumps(events))) == [
        "busy",
        "busy",
        "busy",
        "busy; gone",
        "gone",
        "",
        "busy",
        "",
        "",
    ]


def test_what_is_old_is_said_with_its_time_and_why_it_is() -> None:
    then = 1_700_000_000_000
    events = [
        ("verdict", {"error": "busy", "answered_ms": then + 5000}),
        ("steps", {"error": "busy", "answered_ms": then}),
        ("late", {"error": "gone"}),
        ("steps", {}),
    ]
    old, newer = (f"as of {at(ms)}, as the last question failed: busy" for ms in (then, then + 5000))
    assert said(SEND.replace("EVENTS", json.dumps(events))) == [
        f"verdict {newer}",
        f"verdict, steps {old}",
        f"verdict, steps {old}; gone",
        f"verdict {newer}; gone",
    ]


def test_of_when_is_what_was_shown_as_the_server_went_away() -> None:
    away = "the server is away; trying again"
    assert said(AWAY) == [away, *[f"{away}; what is shown is of {at(1_700_000_000_000)}"] * 2, ""]


def at(time_ms: int) -> str:
    """As a clock on the wall shows it."""
    return time.strftime("%H:%M:%S", time.localtime(time_ms // 1000))


def test_a_hidden_tab_follows_nothing() -> None:
    assert said(HIDE) == [0, 1, 0, 0]


def said(more: str) -> Any:
    script = BROWSER + SCRIPT.read_text() + more
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True, timeout=20)
    return json.loads(done.stdout)
