"""What live.js says of errors and does in a hidden tab, in node; the browser is a double."""

from __future__ import annotations

import json
import shutil
import subprocess
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


def test_a_hidden_tab_follows_nothing() -> None:
    assert said(HIDE) == [0, 1, 0, 0]


def said(more: str) -> Any:
    script = BROWSER + SCRIPT.read_text() + more
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True, timeout=20)
    return json.loads(done.stdout)
