"""The Debian package: built, installed, tried and purged on a throw-away copy of this machine's root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from roofline_client import __version__

from tests.fakes import free_port

from .debian_root import Root, run_command

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
REPOSITORY = Path(__file__).parents[2]
PROGRAMS = ("roofline-agent", "roofline-server", "roofline-client")
UNIT = "lib/systemd/system/roofline-agent.service"
DATA = "/var/lib/roofline/server"
FIRST = "88d0df68"  # the first commit that makes a package
RECORDING = REPOSITORY / "tests" / "data" / "recorded" / "horovod" / "mpi_3ranks_never_closed.json"
AS_SERVER = ("setpriv", "--reuid=roofline", "--regid=roofline", "--clear-groups", "env", f"HOME={DATA}")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    missing = [tool for tool in ("dpkg-deb", "systemd-sysusers") if not shutil.which(tool)]
    if os.geteuid() or missing:
        pytest.skip(f"takes root, and Debian with {', '.join(missing) or 'dpkg'}")
    return built(REPOSITORY, tmp_path_factory.mktemp("deb"))


def built(sources: Path, out: Path) -> Path:
    command = ["sh", sources / "deploy" / "debian" / "build.sh", sys.executable, out]
    subprocess.run(command, check=True, timeout=600)
    (made,) = out.glob("*.deb")
    return made


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    with Root(tmp_path) as made:
        yield made


def test_package_is_installed_tried_and_purged_without_leftovers(package: Path, root: Root) -> None:
    users = (root.path / "etc/passwd").read_text()
    shutil.copy(package, root.path / "roofline.deb")
    root.run("dpkg", "-i", "/roofline.deb")
    (root.path / "roofline.deb").unlink()
    for program in PROGRAMS:
        assert root.run(program, "--version") == f"{program} {__version__}\n"
    assert "the server" in root.run("roofline-client", "report", "--help")
    for manual in ("roofline-client-report", "roofline-server-token", "roofline-server-token-new"):
        assert (root.path / f"usr/share/man/man1/{manual}.1.gz").is_file()
    kept = root.path / "var/lib/roofline/server"
    assert kept.stat().st_mode & 0o777 == 0o700
    assert root.run("stat", "-c", "%U", "/var/lib/roofline/agent") == "roofline-agent\n"
    root.run("systemd-analyze", "verify", "/lib/systemd/system/roofline-server.service")
    (kept / "catalog.db").write_text("data of somebody")
    root.run("dpkg", "--remove", "roofline")
    assert (kept / "catalog.db").is_file() and not (root.path / "opt/roofline").exists()
    root.run("dpkg", "--purge", "roofline")
    assert (root.path / "etc/passwd").read_text() == users
    assert root.leftovers() == set()


def older(package: Path, folder: Path) -> Path:
    """An earlier package: the same, but for its version, a line of a unit, and a module that is gone now."""
    tree = folder / "older"
    run_command("dpkg-deb", "--raw-extract", package, tree)
    unit = tree / UNIT
    unit.write_text(f"# of before\n{unit.read_text()}")
    (agent,) = tree.glob("opt/roofline/lib/python3*/site-packages/roofline_agent")
    (agent / "of_before.py").write_text("")
    return packed_as_older(tree, folder)


def packed_as_older(tree: Path, folder: Path) -> Path:
    control = tree / "DEBIAN" / "control"
    control.write_text(control.read_text().replace(f"Version: {__version__}", "Version: 0.0.1"))
    run_command("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, folder)
    (made,) = folder.glob("roofline_0.0.1_*.deb")
    return made


def contents(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def serve(root: Root, meanwhile: str = ":", port: int = 0) -> str:
    """A server of the package on its data, until it takes batches; what a line of shell prints then."""
    served = f"roofline-server --data {DATA} --listen 127.0.0.1:{port} --http off --no-page --quiet"
    script = f"""{served} & server=$!
        for try in $(seq 300); do roofline-server status --data {DATA} >/dev/null && break; sleep 0.2; done
        roofline-server status --data {DATA} >&2 && {meanwhile} && kill $server && wait $server"""
    return root.run(*AS_SERVER, "sh", "-c", script)


def test_upgrade_keeps_data_and_settings_and_replaces_programs_and_units(
    package: Path, root: Root, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = older(package, tmp_path_factory.mktemp("older"))
    shutil.copy(before, root.path / "older.deb")
    shutil.copy(package, root.path / "newer.deb")
    root.run("dpkg", "-i", "/older.deb")
    assert (root.path / UNIT).read_text().startswith("# of before\n")
    root.run(*AS_SERVER, "roofline-server", "init", "--data", DATA)
    serve(root)
    own = root.path / "etc/systemd/system/roofline-agent.service.d/override.conf"
    own.parent.mkdir(parents=True)
    own.write_text("[Service]\nUser=root\n")
    kept = contents(root.path / "var/lib/roofline")
    assert {"server/catalog.db", "server/inbox.db", "server/access/tokens.json"} <= set(kept)
    root.run("dpkg", "-i", "/newer.deb")
    assert contents(root.path / "var/lib/roofline") == kept
    assert own.read_text() == "[Service]\nUser=root\n"
    assert root.run("dpkg-query", "-W", "-f", "${Version}:${Conffiles}", "roofline") == f"{__version__}:"
    assert not (root.path / UNIT).read_text().startswith("# of before\n")
    assert not list((root.path / "opt/roofline").rglob("of_before*"))
    serve(root)
    assert "no problems found" in root.run(*AS_SERVER, "roofline-server", "check", "--data", DATA)


def test_job_that_the_package_of_an_earlier_commit_kept_is_there_after_the_upgrade(
    package: Path, root: Root, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("first")
    archive = subprocess.run(["git", "-C", REPOSITORY, "archive", FIRST], capture_output=True)
    if archive.returncode:
        pytest.skip(f"the history has no commit {FIRST}, as in a shallow clone")
    (folder / "sources").mkdir()
    subprocess.run(["tar", "-x", "-C", folder / "sources"], input=archive.stdout, check=True)
    tree = folder / "tree"
    run_command("dpkg-deb", "--raw-extract", built(folder / "sources", folder / "built"), tree)
    shutil.copy(packed_as_older(tree, folder), root.path / "older.deb")
    shutil.copy(package, root.path / "newer.deb")
    (root.path / "recording.json").write_bytes(RECORDING.read_bytes())
    port = free_port()
    environ = f"ROOFLINE_LISTEN=127.0.0.1:{port} ROOFLINE_SERVER=127.0.0.1:{port}"
    root.run("dpkg", "-i", "/older.deb")
    root.run(*AS_SERVER, *environ.split(), "roofline-server", "init", "--data", DATA)
    ask = f"{environ} roofline-client jobs --format json"
    recorded = f"{environ} roofline-agent import --job 7 /recording.json"
    before = json.loads(serve(root, f"{recorded} >&2 && sleep 2 && {ask}", port))["jobs"]
    assert [(job["job"], job["roles"]) for job in before] == [("7", {"worker": 1})]
    root.run("dpkg", "-i", "/newer.deb")
    after = json.loads(serve(root, ask, port))["jobs"]
    assert [(job["job"], job["roles"], job["begin_ns"]) for job in after] == [
        ("7", {"worker": 1}, before[0]["begin_ns"])
    ]
    assert "no problems found" in root.run(*AS_SERVER, "roofline-server", "check", "--data", DATA)
