"""From nothing to a protected server: init, join, data, questions; and each door that must be closed."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from roofline.joining import join_port
from roofline_agent.ranks.names import name_of

from .conftest import COMMANDS, TRAINING, Site, wait_until
from .guarded import Person

pytestmark = pytest.mark.slow
JOB = "guarded"


@pytest.fixture
def head(site: Site, tmp_path: Path) -> Person:
    """Who owns the server, which runs."""
    owner = Person(tmp_path / "head", site.address)
    said = owner.said("roofline-server", "init")
    assert "roofline-agent join" in said and "roofline1." in said
    site.start([COMMANDS / "roofline-server"], "server.log", **owner.environ)
    wait_until(site.answers, what="the server answers")
    return owner


@pytest.fixture
def node(head: Person, tmp_path: Path) -> Person:
    return Person(tmp_path / "node", head.address)


def start_agent(site: Site, who: Person, log: str = "agent.log") -> Any:
    """Without --server: it goes where it has joined."""
    environ = {**who.environ, "ROOFLINE_SOCKET": str(site.socket), "ROOFLINE_SERVER": ""}
    return site.start([COMMANDS / "roofline-agent", "--interval", "0.1"], log, **environ)


def line_of_server(node: Person) -> str:
    """What the doctor says of the server."""
    lines = node.said("roofline-agent", "doctor").splitlines()
    return next(line for line in lines if line[5:].startswith("server "))


def test_five_commands_from_nothing_to_a_report(
    site: Site, head: Person, node: Person, tmp_path: Path
) -> None:
    printed = head.said("roofline-server", "token", "new").split()
    assert printed[:2] == ["roofline-agent", "join"] and printed[3:5] == ["-", "<<<"]
    assert "joined" in node.said("bash", "-c", " ".join([*printed[:2], head.address, *printed[3:]]))
    start_agent(site, node)
    wait_until(lambda: "connected to server" in site.log("agent.log"), what="the agent is let in")
    run = ["roofline-agent", "run", "--job", JOB, "--", sys.executable, TRAINING, "30", "0.02", "4"]
    node.environ["ROOFLINE_SOCKET"] = str(site.socket)
    node.said(*run)
    known = ["roofline-client", "jobs", "--format", "json"]
    wait_until(lambda: JOB in head.said(*known), what="the job is known")
    reader = Person(tmp_path / "reader", head.address)
    refused = reader.run("roofline-client", "jobs", "--server", head.address)
    assert refused.returncode == 3 and "roofline-client join" in refused.stderr
    reader.said("roofline-client", "join", head.address, head.token("--role", "reader", "--name", "alice"))
    found = json.loads(reader.said("roofline-client", "report", "--job", JOB, "--format", "json", "--full"))
    assert found["ranks"][0]["rank"] == "worker:0"
    assert reader.run("roofline-client", "bench", "net", "--from", "a", "--to", "b").returncode == 3
    files = [
        node.home / ".local/state/roofline/agent/servers.json",
        reader.home / ".config/roofline/servers.json",
    ]
    assert {oct(file.stat().st_mode)[-3:] for file in files} == {"600"}


def test_reader_of_a_user_sees_what_this_user_submitted(
    site: Site, head: Person, node: Person, tmp_path: Path
) -> None:
    node.said("roofline-agent", "join", head.address, head.token())
    start_agent(site, node)
    wait_until(lambda: "connected to server" in site.log("agent.log"), what="the agent is let in")
    node.environ["ROOFLINE_SOCKET"] = str(site.socket)
    node.said("roofline-agent", "run", "--job", JOB, "--", sys.executable, TRAINING, "10", "0.02", "4")
    wait_until(lambda: JOB in head.said("roofline-client", "jobs"), what="the job is known")
    me = name_of(os.getuid())
    for user in (me, "somebody-else"):
        reader = Person(tmp_path / user, head.address)
        reader.said("roofline-client", "join", head.address, head.token("--role", "reader", "--user", user))
        jobs = reader.said("roofline-client", "jobs", "--format", "json")
        report = reader.run("roofline-client", "report", "--job", JOB)
        assert (JOB in jobs) == (user == me)
        assert report.returncode == (0 if user == me else 5)
    assert "it has no jobs yet" in report.stderr, "as where there is none at all"
    listed = head.said("roofline-server", "token", "list")
    assert "of somebody-else" in listed and "all" in listed
    refused = head.run("roofline-server", "token", "new", "--role", "admin", "--user", me)
    assert refused.returncode == 2 and "only readers" in refused.stderr
    empty = head.run("roofline-server", "token", "new", "--role", "reader", "--user", "")
    assert empty.returncode == 2, "a variable of a script that is empty shall not open all jobs"


def test_agent_whose_token_is_revoked_is_out_and_loses_nothing(
    site: Site, head: Person, node: Person
) -> None:
    node.said("roofline-agent", "join", head.address, head.token())
    agent = start_agent(site, node)
    wait_until(lambda: "connected to server" in site.log("agent.log"), what="the agent is let in")
    assert "and accepts this node" in line_of_server(node)
    tokens = json.loads(head.said("roofline-server", "token", "list", "--format", "json"))
    (own,) = [
        one
        for one in tokens
        if one["role"] == "agent" and not one["joins"] and one["name"] == socket.gethostname()
    ]
    assert "digest" not in own
    head.said("roofline-server", "token", "revoke", own["id"])
    wait_until(lambda: "revoked" in site.log("agent.log"), what="the agent says why it is out")
    assert "does not accept this node: this token is not known here" in line_of_server(node)
    run = ["roofline-agent", "run", "--job", JOB, "--", sys.executable, TRAINING, "10", "0.02", "4"]
    node.environ["ROOFLINE_SOCKET"] = str(site.socket)
    node.said(*run)  # the training goes on
    node.said("roofline-agent", "join", head.address, head.token())
    agent.terminate()
    agent.wait(30)
    start_agent(site, node, "again.log")
    known = ["roofline-client", "jobs", "--format", "json"]
    wait_until(lambda: JOB in head.said(*known), what="what waited in the spool is there")


def test_wrong_server_wrong_token_and_plain_agents_are_told(
    site: Site, head: Person, node: Person, tmp_path: Path
) -> None:
    other = Person(tmp_path / "other", head.address)
    other.said("roofline-server", "init")
    wrong = node.run("roofline-agent", "join", head.address, other.token())
    assert wrong.returncode == 4 and "not the one of this token" in wrong.stderr
    nonsense = node.run("roofline-agent", "join", head.address, "roofline1.abc.def")
    assert nonsense.returncode == 3 and "no join token" in nonsense.stderr
    reader = node.run("roofline-agent", "join", head.address, head.token("--role", "reader"))
    assert reader.returncode == 4 and "roofline-client join" in reader.stderr
    assert not (node.home / ".local/state/roofline/agent/servers.json").exists()
    plain = {**node.environ, "ROOFLINE_SOCKET": str(site.socket)}
    site.start([COMMANDS / "roofline-agent", "--server", head.address], "plain.log", **plain)
    wait_until(lambda: "roofline-agent join" in site.log("plain.log"), what="the agent says what to do")


def test_certificates_in_place_of_tokens(site: Site, tmp_path: Path) -> None:
    head = Person(tmp_path / "head", site.address)
    assert "certificates are on" in head.said("roofline-server", "init", "--mutual")
    joins_at = f"127.0.0.1:{join_port(int(site.address.rpartition(':')[2]))}"
    clash = head.run("roofline-server", "--http", joins_at)
    assert clash.returncode == 3 and f"--http {joins_at} is where agents and clients join" in clash.stderr
    site.start([COMMANDS / "roofline-server"], "server.log", **head.environ)
    wait_until(site.answers, what="the server answers")
    node, reader = Person(tmp_path / "node", head.address), Person(tmp_path / "reader", head.address)
    assert "joined" in node.said("roofline-agent", "join", head.address, head.token())
    start_agent(site, node)
    wait_until(lambda: "connected to server" in site.log("agent.log"), what="the agent is let in")
    node.environ["ROOFLINE_SOCKET"] = str(site.socket)
    node.said("roofline-agent", "run", "--job", JOB, "--", sys.executable, TRAINING, "10", "0.02", "4")
    wait_until(lambda: JOB in head.said("roofline-client", "jobs"), what="the head's own user is let in")
    assert reader.run("roofline-client", "jobs", "--server", head.address).returncode == 3
    reader.said("roofline-client", "join", head.address, head.token("--role", "reader"))
    # As it is in the last third of its life: the next command exchanges it.
    file = reader.home / ".config/roofline/servers.json"
    kept = json.loads(file.read_text())
    (own,) = kept["known"].values()
    assert own["certificate"] and own["key"] and not own["token"]
    file.write_text(json.dumps({**kept, "known": {head.address: {**own, "ends": time.time() + 60}}}))
    assert JOB in reader.said("roofline-client", "jobs")
    (newer,) = json.loads(file.read_text())["known"].values()
    assert newer["certificate"] != own["certificate"] and newer["ends"] > time.time() + 60
    assert JOB in reader.said("roofline-client", "jobs")
    file.write_text(
        json.dumps({**kept, "known": {head.address: {**own, "certificate": "", "token": "of before"}}})
    )
    before = reader.run("roofline-client", "jobs")
    assert before.returncode == 3 and "join again" in before.stderr
    tokens = json.loads(head.said("roofline-server", "token", "list", "--format", "json"))
    (agent,) = [one for one in tokens if one["name"] == socket.gethostname() and not one["joins"]]
    head.said("roofline-server", "token", "revoke", agent["id"])
    wait_until(lambda: "revoked" in site.log("agent.log"), what="the agent says why it is out")


def test_server_without_tls_is_told_apart(site: Site, tmp_path: Path) -> None:
    site.server()
    who, other = Person(tmp_path / "who", site.address), Person(tmp_path / "other", site.address)
    other.said("roofline-server", "init")
    found = who.run("roofline-agent", "join", site.address, other.token())
    assert found.returncode == 4 and "does not speak TLS" in found.stderr


def test_data_may_stand_before_or_behind_the_command(tmp_path: Path) -> None:
    who, data = Person(tmp_path / "who", "127.0.0.1:0"), tmp_path / "data"
    assert str(data) in who.said("roofline-server", "--data", data, "init")
    assert not (who.home / ".local/state/roofline/server").exists(), "not where it is by default"
    who.said("roofline-server", "--data", data, "token", "new")
    before = who.said("roofline-server", "--data", data, "token", "list")
    assert before == who.said("roofline-server", "token", "list", "--data", data)
    assert "for nodes to join" in before
    missing = who.run("roofline-server", "token", "list")
    assert missing.returncode == 3 and "roofline-server init" in missing.stderr


def test_address_others_can_reach_is_safe_after_init(tmp_path: Path) -> None:
    who = Person(tmp_path / "who", "127.0.0.1:0")
    refused = who.run("roofline-server", "--listen", "0.0.0.0:0")
    assert refused.returncode == 3 and "roofline-server init" in refused.stderr
    assert "were on already" not in who.said("roofline-server", "init")
    assert "were on already" in who.said("roofline-server", "init"), "and one more join token"
    assert who.run("roofline-server", "token", "revoke", "x").returncode == 1
    assert who.run("roofline-server", "token", "new", "--role", "root").returncode == 2
    assert os.listdir(tmp_path / "who" / ".local/state/roofline/server") == ["access"]
