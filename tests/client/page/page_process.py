"""`roofline-client page` as a process, and what a browser asks it."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.fakes import free_port

COMMAND = Path(sys.executable).parent / "roofline-client"


class Page(NamedTuple):
    port: int
    process: subprocess.Popen[str]

    def ask(self, path: str, method: str = "GET", body: str = "", **headers: str) -> tuple[int, str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            return response.status, response.read().decode(), response.headers
        finally:
            connection.close()

    def close(self) -> int:
        """End the process; its exit code."""
        self.process.terminate()
        self.process.communicate(timeout=20)
        return self.process.returncode

    def event(self, path: str) -> dict[str, Any]:
        """The first event."""
        return self.events(path, 1)[0]

    def events(self, path: str, count: int) -> list[dict[str, Any]]:
        """So many of them."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            assert response.headers["Content-Type"].startswith("text/event-stream")
            found: list[dict[str, Any]] = []
            while len(found) < count:
                line = response.readline()
                assert line, f"the stream ended after {len(found)} of {count} events"
                if line.startswith(b"data:"):
                    found.append(json.loads(line[5:]))
            return found
        finally:
            connection.close()


def started(server: str, folder: Path, *options: str) -> Page:
    port = free_port()
    command = [COMMAND, "page", "--server", server, "--listen", f"127.0.0.1:{port}", *options]
    environ = {**os.environ, "XDG_CONFIG_HOME": str(folder)}
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True, env=environ)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                return Page(port, process)
        time.sleep(0.05)
    process.kill()
    raise AssertionError(process.communicate())
