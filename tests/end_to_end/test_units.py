"""The systemd units: well-formed, narrow, and programs that work with what the units leave them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.fakes import free_port

from .conftest import COMMANDS, REPOSITORY, Site, wait_until

pytestmark = pytest.mark.slow
UNITS = REPOSITORY / "deploy" / "systemd"
MOST_EXPOSED = 29  # of 100, in systemd's count
NOBODY, SOMEBODY = 65534, 4321
SETPRIORITY = {"x86_64": 141, "aarch64": 140}  # number of the system call
# As MemoryDenyWriteExecute does: no memory becomes executable that could be written (prctl(2), 65). As
# SystemCallFilter=~@resources does of setpriority(2): a seccomp filter (prctl(2), 22) answers EPERM.
NARROW = f"""
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
libc.prctl(65, 1, 0, 0, 0)
number = {SETPRIORITY}.get(os.uname().machine, -1)
rules = (0x20, 0, 0, 0), (0x15, 0, 1, number & 0xFFFFFFFF), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)
filtered = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HP", len(rules), ctypes.addressof(filtered)))
if libc.prctl(22, 2, program, 0, 0):
    sys.exit("no seccomp filter")
os.umask(0o077)
os.execv(sys.argv[1], sys.argv[1:])
"""

systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="this machine has no systemd-analyze"
)
as_root = pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("setpriv"), reason="takes root, and setpriv of util-linux"
)


def settings(unit: str) -> dict[str, str]:
    """Of a unit; of a setting that is there several times the last."""
    lines = (UNITS / unit).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def with_capabilities_of(unit: str, uid: int) -> list[object]:
    """How to start a command as another user with just what the unit gives it."""
    names = settings(unit)["CapabilityBoundingSet"].split()
    assert names == settings(unit)["AmbientCapabilities"].split()
    some = ",".join(["-all", *(f"+{name.removeprefix('CAP_').lower()}" for name in names)])
    sets = [f"--{kind}={some}" for kind in ("bounding-set", "inh-caps", "ambient-caps")]
    who = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]
    return ["setpriv", *who, *sets, sys.executable, "-c", NARROW]


def page_answers(place: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(urllib.request.urlopen(f"http://{place}/", timeout=20).status == 200)
    return False


@systemd
@pytest.mark.parametrize("unit", ["roofline-server.service", "roofline-agent.service"])
def test_unit_is_well_formed_and_narrow(unit: str, tmp_path: Path) -> None:
    text = (UNITS / unit).read_text()
    (tmp_path / unit).write_text(text.replace("/opt/roofline/bin/", f"{COMMANDS}/"))
    checked = subprocess.run(["systemd-analyze", "verify", tmp_path / unit], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}"]
    done = subprocess.run([*command, tmp_path / unit], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_server_has_no_capability_and_the_agent_what_it_says() -> None:
    assert settings("roofline-server.service")["CapabilityBoundingSet"] == ""
    names = settings("roofline-agent.service")["CapabilityBoundingSet"]
    assert names == "CAP_PERFMON CAP_SYS_PTRACE CAP_DAC_READ_SEARCH"


def test_containers_keep_the_directory_of_the_socket_when_the_agent_is_started_anew() -> None:
    agent = settings("roofline-agent.service")
    assert f"/run/{agent['RuntimeDirectory']}/agent.sock" in agent["ExecStart"]
    assert agent["RuntimeDirectoryPreserve"] == "yes"


@as_root
def test_programs_work_with_what_their_units_leave_them(site: Site) -> None:
    """A server with its page and no capability, an agent that is not root, and a rank of a third user."""
    data, state, place = (site.folder / name for name in ("data", "state", "place"))
    for folder in (state, place):
        folder.mkdir()
        os.chown(folder, NOBODY, NOBODY)
    hidden = site.folder / "home"  # as ProtectHome hides it
    hidden.mkdir(0)
    narrow = with_capabilities_of("roofline-server.service", os.getuid())
    server = [
        *narrow,
        COMMANDS / "roofline-server",
        "--data",
        data,
        "--listen",
        site.address,
        "--seal",
        "0.2",
        "--page",
        page := f"127.0.0.1:{free_port()}",
    ]
    site.start(server, "server.log", HOME=str(hidden), XDG_CONFIG_HOME="")
    wait_until(site.answers, what="the server answers")
    wait_until(lambda: page_answers(page), what="the live page answers")
    narrow = with_capabilities_of("roofline-agent.service", NOBODY)
    agent = [*narrow, COMMANDS / "roofline-agent", "--state", state, "--socket", place / "agent.sock"]
    site.start([*agent, "--interval", "0.1"], "agent.log", TMPDIR=str(state))
    wait_until(lambda: "connected to server" in site.log("agent.log"), what="the agent is connected")
    rank = ["setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups"]
    task = json.dumps({"cluster": {"worker": ["h:1"]}, "task": {"type": "worker", "index": 0}})
    environ = {"TF_CONFIG": task, "ROOFLINE_JOB": "narrow", "ROOFLINE_SOCKET": "/nowhere"}
    site.start([*rank, "sleep", "600"], "rank.log", **environ)
    wait_until(lambda: "narrow" in site.ask("jobs").stdout, what="the rank of another user is found")
    wait_until(lambda: list((data / "segments").rglob("*.parquet")), what="data are sealed")
    found = site.ask("report", "--job", "narrow")
    assert found.returncode == 0 and "1 worker" in found.stdout, found.stderr
