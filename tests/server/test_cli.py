"""The real command as a process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from roofline.v1 import query_pb2
from roofline_server import __version__
from roofline_server.cli import main

from tests.fakes import free_port, inherited
from tests.in_process import run_here

from .command_line import SENT, SERVER, Process, deliver, refused, report, run
from .command_line import start as start
from .services import Agent

STEPS = 85  # of each rank: those that begin and end within the 60 s


def run_quickly(*options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """For what ends before anything is served."""
    return run_here(main, "roofline-server", *options, environ={**os.environ, **environ})


def steps_of(found: query_pb2.Report) -> dict[str, float]:
    return {r.rank: r.summary.values["steps"].value for r in found.ranks}


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"roofline-server {__version__}\n")


def test_help_says_what_and_how() -> None:
    done = run_quickly("--help", COLUMNS="200")
    assert done.returncode == 0
    for word in ("--listen", "--data", "--insecure", "Examples:", "Exit codes:"):
        assert word in done.stdout


def test_where_only_the_agent_is_installed_the_server_names_what_is_missing() -> None:
    code = "import sys; sys.modules['numpy'] = None; import roofline_server.__main__"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    said = "roofline-server: numpy is not installed; pip install 'roofline-profiler[server]'\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_unknown_option_is_a_usage_error() -> None:
    assert run_quickly("--nonsense").returncode == 2


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "192.0.2.7:7642", "[::]:0", "node1:7642"])
def test_address_others_can_reach_needs_insecure(tmp_path: Path, listen: str) -> None:
    refused(run_quickly("--listen", listen, "--data", str(tmp_path / "d")), 3, listen, "--insecure")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    "listen", ["7642", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:²", "127.0.0.1:65536", ":7642"]
)
def test_malformed_address_is_a_wrong_configuration(tmp_path: Path, listen: str) -> None:
    refused(run_quickly("--listen", listen, "--data", str(tmp_path)), 3, "HOST:PORT")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_one_line(tmp_path: Path, unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*SERVER, "status", "--data", str(tmp_path)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert (done.returncode, done.stderr) == (
        1,
        "roofline-server: the output cannot be written (No space left on device)\n",
    )


@pytest.mark.slow
def test_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused(run("--listen", address, "--data", str(tmp_path)), 6, address, "in use")


@pytest.mark.slow
def test_file_in_place_of_the_data_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(run("--listen", "127.0.0.1:0", "--data", str(tmp_path / "file")), 6, "file", "--data")
    refused(
        run_quickly("--listen", "127.0.0.1:0", "--data", str(tmp_path / "file/below")), 6, "below", "--data"
    )


@pytest.mark.slow
def test_data_directory_that_cannot_be_written() -> None:
    refused(run("--listen", "127.0.0.1:0", "--data", "/proc/roofline"), 6, "/proc/roofline", "--data")


@pytest.mark.slow
def test_data_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database at all" * 500)
    refused(run("--listen", "127.0.0.1:0", "--data", str(tmp_path)), 6, "not a database")


@pytest.mark.slow
def test_catalog_without_its_driver_is_one_clear_line(tmp_path: Path) -> None:
    url = "postgresql+psycopg2://nowhere/db"
    done = run("--listen", "127.0.0.1:0", "--data", str(tmp_path), "--catalog", url)
    assert done.returncode in (3, 6)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_second_server_on_the_same_data_is_refused(tmp_path: Path, start: Callable[..., Process]) -> None:
    start()
    refused(run("--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")), 6, "another roofline-server")


@pytest.mark.slow
def test_data_goes_to_the_state_directory_when_nobody_says(tmp_path: Path) -> None:
    (tmp_path / "roofline").write_text("in the way")
    done = run("--listen", "127.0.0.1:0", XDG_STATE_HOME=str(tmp_path), ROOFLINE_DATA="")
    refused(done, 6, str(tmp_path / "roofline/server"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_the_server_with_all_it_took(start: Callable[..., Process], number: int) -> None:
    with inherited(number, signal.SIG_DFL):
        server = start()
    deliver(server.address)
    before = report(server.address)
    assert server.end(number) == 0
    again = start()
    after = report(again.address)
    assert steps_of(after) == steps_of(before) == {"worker:0": STEPS, "worker:1": STEPS}
    assert deliver(again.address) == len(SENT)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_signal_that_was_ignored_at_the_start_does_not_end_the_server(
    start: Callable[..., Process], number: int
) -> None:
    with inherited(number, signal.SIG_IGN):
        server = start()
    server.send_signal(number)
    deliver(server.address)
    assert "stopping" not in server.log.read_text()
    assert server.end() == 0


@pytest.mark.slow
def test_nothing_is_left_in_the_inbox_after_a_signal(tmp_path: Path, start: Callable[..., Process]) -> None:
    server = start()
    deliver(server.address)
    assert server.end() == 0
    inbox = sqlite3.connect(tmp_path / "data/inbox.db")
    assert inbox.execute("select count(*) from batch").fetchone() == (0,)
    inbox.close()


@pytest.mark.slow
def test_signal_ends_a_server_with_open_streams(start: Callable[..., Process]) -> None:
    server = start()

    async def hold() -> None:
        async with grpc.aio.insecure_channel(server.address) as channel, Agent(channel) as agent:
            await agent.send(*SENT[:5])
            await agent.until(lambda: agent.acked == 5)
            assert await asyncio.to_thread(server.end) == 0

    asyncio.run(hold())


@pytest.mark.slow
@pytest.mark.parametrize("seal", ["30", "0.05"], ids=["unsealed", "while sealing"])
def test_killed_servers_lose_and_double_no_step(start: Callable[..., Process], seal: str) -> None:
    async def stream_until_killed(server: Process, kill_at: int) -> None:
        async with grpc.aio.insecure_channel(server.address) as channel, Agent(channel) as agent:
            welcome = agent.all("welcome")[0].acked
            for one in SENT:
                if one.sequence > welcome:
                    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                        await agent.send(one)
                if one.sequence == kill_at:
                    await agent.until(lambda: max(agent.acked, welcome) >= kill_at - 8)
                    assert await asyncio.to_thread(server.end, signal.SIGKILL) == -signal.SIGKILL
                    return
                await asyncio.sleep(0.005)  # spreads the batches over several sealings

    for kill_at in (20, 35, 50):
        asyncio.run(stream_until_killed(start("--seal", seal), kill_at))
    server = start("--seal", seal)
    assert deliver(server.address) >= 50 - 8
    for _ in range(2):
        found = report(server.address)
        assert steps_of(found) == {"worker:0": STEPS, "worker:1": STEPS}
        assert found.ranks[0].summary.values["flops_per_step"].coverage == 1
        assert found.gaps == []
        assert server.end() == 0
        server = start()


@pytest.mark.slow
def test_quiet_server_says_nothing_when_all_is_well(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [*SERVER, "--listen", address, "--data", str(tmp_path), "--quiet"], stderr=subprocess.PIPE, text=True
    )
    try:
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(30)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=30)[1] == ""
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
