"""What live.js says of errors, in node: a browser's EventSource and its page are doubles."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import roofline_client.page

SCRIPT = Path(roofline_client.page.__file__).parent / "static" / "live.js"
BROWSER = """
const link = { textContent: "" };
let source;
globalThis.document = { getElementById: () => link };
globalThis.EventSource = class { constructor() { source = this; } close() {} };
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


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
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
    script = BROWSER + SCRIPT.read_text() + SEND.replace("EVENTS", json.dumps(events))
    said = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True, timeout=20)
    assert json.loads(said.stdout) == ["busy", "busy", "busy", "busy; gone", "gone", "", "busy", "", ""]
