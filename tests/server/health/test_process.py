"""Health of a real server process, as machines and people see it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.v1 import health_pb2 as pb
from roofline.v1 import health_pb2_grpc
from roofline_server.access.tokens import Tokens
from roofline_server.cli import main
from roofline_server.health.running import FILE, SOCKET

from tests.fakes import ended, wait_for
from tests.in_process import run_here

from ..command_line import SENT, SERVER, Process, deliver, refused, report, run, start
from .samples import samples

__all__ = ["start"]

pytestmark = pytest.mark.slow


def status(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run_here(main, "roofline-server", "status", "--data", str(data), *options, environ={**os.environ})


def url(server: Process) -> str:
    found: dict[str, Any] = json.loads((server.log.with_suffix("") / FILE).read_text())
    return str(found["http"])


def get(address: str, secret: str = "", context: ssl.SSLContext | None = None) -> tuple[int, str]:
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {secret}"} if secret else {})
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_server_shows_how_it_does(tmp_path: Path, start: Callable[..., Process]) -> None:
    data = tmp_path / "data"
    server = start("--http", "127.0.0.1:0", "--seal", "0.1")
    at = url(server)
    assert get(f"{at}/healthz") == get(f"{at}/readyz") == (200, "ok\n")
    deliver(server.address)

    def sealed() -> dict[str, float] | None:
        found = samples(get(f"{at}/metrics")[1])
        return found if found["roofline_unsealed_bytes"] == 0 else None

    found = wait_for(sealed, "a sealing")
    assert found["roofline_batches_total"] == len(SENT)
    assert found["roofline_rows_total"] > len(SENT)
    assert found["roofline_seal_seconds_count"] >= 1
    assert found["roofline_commit_seconds_count"] >= 1
    done = status(data)
    assert done.returncode == 0, done.stderr
    assert server.address in done.stdout and f"{len(SENT)} batches" in done.stdout
    told = json.loads(status(data, "--format", "json").stdout)
    assert (told["state"], told["condition"]["batches"]) == ("ready", len(SENT))
    assert {(data / name).stat().st_mode & 0o777 for name in (FILE, SOCKET)} == {0o600}

    with grpc.insecure_channel(server.address) as channel:
        watching = health_pb2_grpc.HealthStub(channel).Watch(pb.HealthCheckRequest(), timeout=60)
        assert next(watching).status == pb.HealthCheckResponse.SERVING
        assert server.end() == 0
        assert next(watching).status == pb.HealthCheckResponse.NOT_SERVING
    assert not (data / FILE).exists() and not (data / SOCKET).exists()
    assert status(data).returncode == 3


def test_server_that_was_killed_or_hangs_is_told_from_one_that_runs(
    tmp_path: Path, start: Callable[..., Process]
) -> None:
    data = tmp_path / "data"
    server = start()
    server._process.send_signal(signal.SIGSTOP)
    done = status(data, "--timeout", "0.2")
    assert (done.returncode, "does not answer" in done.stdout) == (1, True)
    server.end(signal.SIGKILL)
    done = status(data)
    assert (done.returncode, "was killed" in done.stdout) == (3, True)
    start()
    assert status(data).returncode == 0
    assert status(tmp_path / "nothing").returncode == 3


def test_damaged_and_unknown_files_are_shown_with_what_to_do(
    tmp_path: Path, start: Callable[..., Process]
) -> None:
    data = tmp_path / "data"
    server = start()
    deliver(server.address)
    assert server.end() == 0
    segments = list((data / "segments").rglob("*.parquet"))
    damaged = next(path for path in segments if path.parent.name == "steps")
    damaged.write_bytes(damaged.read_bytes()[:-9])
    unknown = data / "segments" / "other" / "000000000001.parquet"
    unknown.parent.mkdir()
    unknown.write_bytes(b"somebody's data")

    server = start()
    report(server.address)
    done = status(data)
    assert done.returncode == 0  # it takes batches
    assert "damaged and left out of reports: segments/" in done.stdout
    assert "1 file is set apart" in done.stdout and "README.txt" in done.stdout
    found = json.loads(status(data, "--format", "json").stdout)
    assert found["condition"]["damaged"] == [str(damaged.relative_to(data))]
    assert found["quarantined"] == 1 and len(found["warnings"]) == 2


def test_port_that_is_taken(tmp_path: Path, start: Callable[..., Process]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        refused(run("--listen", "127.0.0.1:0", "--data", str(tmp_path / "a"), "--http", at), 6, at, "--http")
    # Its default it does without, whoever has it: this test, or a server that runs here, and may end.
    for _ in range(10):
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                taken.bind(("127.0.0.1", 7643))
                taken.listen()
            server = start("--http", "")
            if "no HTTP (health, metrics): 127.0.0.1:7643 is not available" in server.log.read_text():
                assert status(tmp_path / "data").returncode == 0
                return
            assert server.end() == 0
    pytest.fail("it never did without")


@pytest.mark.parametrize("at", ["7643", "host", "0.0.0.0:0", "192.0.2.7:7643"])
def test_address_that_is_malformed_or_open_to_others(tmp_path: Path, at: str) -> None:
    refused(run("--data", str(tmp_path / "d"), "--http", at), 3, "--http", at)
    assert not (tmp_path / "d").exists()


def test_from_elsewhere_it_takes_tls_and_a_token(tmp_path: Path) -> None:
    data = tmp_path / "data"
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    assert run("init", "--data", str(data), **environ).returncode == 0
    options = ("--listen", "127.0.0.1:0", "--data", str(data), "--http", "0.0.0.0:0")
    with ended(subprocess.Popen([*SERVER, *options], stderr=subprocess.DEVNULL)):
        wait_for((data / FILE).exists, "the server")
        found = json.loads((data / FILE).read_text())
        _ask_from_elsewhere(data, found["http"].replace("0.0.0.0", "localhost"))
        assert status(data).returncode == 0


def _ask_from_elsewhere(data: Path, at: str) -> None:
    context = ssl.create_default_context(cafile=str(data / "access" / "authority.pem"))
    assert at.startswith("https://")
    assert get(f"{at}/readyz", context=context) == (200, "ok\n")
    assert get(f"{at}/metrics", context=context)[0] == 401
    _, secret = Tokens(data / "access").new("reader", "prometheus")
    code, text = get(f"{at}/metrics", secret, context)
    assert (code, samples(text)["roofline_refused_calls_total"]) == (200, 1)
    refused = json.loads((data / "access" / "audit.log").read_text().splitlines()[-1])
    assert refused["event"] == "refused" and refused["peer"].startswith("ipv4:127.0.0.1:")
    with pytest.raises(OSError):
        get(f"{at.replace('https', 'http')}/metrics", secret)


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        yield listening


def until(listening: socket.socket, wanted: str) -> list[str]:
    """What came up to this message."""
    found = [listening.recv(4096).decode()]
    while found[-1] != wanted:
        found.append(listening.recv(4096).decode())
    return found


def test_systemd_is_told(tmp_path: Path, systemd: socket.socket) -> None:
    environ = {**os.environ, "NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "800000"}
    command = [*SERVER, "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)
    try:
        said = [one for one in until(systemd, "READY=1") if one.startswith("STATUS=")]
        assert said[-1] == "STATUS=0 agents"  # whoever waits for the start sees no server that is starting
        for _ in range(3):
            until(systemd, "WATCHDOG=1")
        process.send_signal(signal.SIGTERM)
        until(systemd, "STOPPING=1")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def test_agent_tells_systemd_too(tmp_path: Path, systemd: socket.socket) -> None:
    environ = {**os.environ, "NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "8000000"}
    state = ["--state", str(tmp_path / "state"), "--socket", str(tmp_path / "marks")]
    command = [sys.executable, "-m", "roofline_agent", *state, "--server", "127.0.0.1:1"]
    process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)
    try:
        until(systemd, "READY=1")
        assert "STATUS=0 ranks" in until(systemd, "WATCHDOG=1") + until(systemd, "WATCHDOG=1")
        process.send_signal(signal.SIGTERM)
        until(systemd, "STOPPING=1")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
