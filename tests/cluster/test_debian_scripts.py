"""The package's scripts where the node is not as they expect: dpkg must get through all the same.

The package is a hollow one, of the scripts and what they need alone, which is made and installed in a second.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .debian_root import Root

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, ("dpkg-deb", "systemd-sysusers"))),
        reason="takes root, and Debian with systemd",
    ),
]
DEBIAN = Path(__file__).parents[2] / "deploy" / "debian"
CONTROL = "Package: roofline\nVersion: {}\nArchitecture: all\nMaintainer: nobody\nDescription: scripts\n"
REMOVED = "1 deinstall ok config-files"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    (tmp_path / "over").mkdir()
    with Root(tmp_path / "over") as made:
        for version in ("1", "2"):
            subprocess.run(["dpkg-deb", "--build", hollow(tmp_path, version), made.path], check=True)
        made.run("dpkg", "-i", "/roofline_1_all.deb")
        yield made


def hollow(folder: Path, version: str) -> Path:
    tree = folder / version
    for place in ("DEBIAN", "opt/roofline/lib", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d"):
        (tree / place).mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(CONTROL.format(version))
    for script in ("postinst", "prerm", "postrm"):
        shutil.copy(DEBIAN / script, tree / "DEBIAN")
        (tree / "DEBIAN" / script).chmod(0o755)
    shutil.copy(DEBIAN / "roofline.sysusers", tree / "usr/lib/sysusers.d/roofline.conf")
    shutil.copy(DEBIAN / "roofline.tmpfiles", tree / "usr/lib/tmpfiles.d/roofline.conf")
    return tree


def state(root: Root) -> str:
    """Version and state of the package, as dpkg has them."""
    return root.run("dpkg-query", "-W", "-f", "${Version} ${Status}", "roofline")


def users(root: Root) -> list[str]:
    lines = (root.path / "etc/passwd").read_text().splitlines()
    return [line.partition(":")[0] for line in lines if line.startswith("roofline")]


def systemd(root: Root, fails: str) -> None:
    """A systemctl that fails where its arguments match that pattern, as of a node that systemd runs."""
    (root.path / "run/systemd/system").mkdir(parents=True, exist_ok=True)
    command = root.path / "usr/bin/systemctl"
    command.unlink(missing_ok=True)
    command.write_text(f'#!/bin/sh\necho "$@" >> /called\ncase "$*" in {fails}) exit 1 ;; esac\n')
    command.chmod(0o755)


@pytest.mark.parametrize(
    ("how", "then"),
    [(("--remove", "roofline"), REMOVED), (("-i", "/roofline_2_all.deb"), "2 install ok installed")],
)
def test_package_whose_programs_are_gone_is_removed_and_upgraded(
    root: Root, how: tuple[str, str], then: str
) -> None:
    root.run("rm", "-r", "/opt/roofline")
    root.run("dpkg", *how)
    assert state(root) == then


def test_purge_ends_where_the_data_are_a_volume_of_their_own(root: Root) -> None:
    data = root.path / "var/lib/roofline/server"
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", data], check=True)
    try:
        (data / "catalog.db").write_text("data")
        assert "/var/lib/roofline" in root.run("sh", "-c", "dpkg --purge roofline 2>&1")
        assert not (data / "catalog.db").exists()
    finally:
        subprocess.run(["umount", data], check=True)
    assert users(root) == []


def test_purge_ends_where_a_process_of_a_user_still_runs(root: Root) -> None:
    left = ["chroot", root.path, "setpriv", "--reuid=roofline", "--clear-groups", "sleep", "100"]
    process = subprocess.Popen(left)
    try:
        said = root.run(
            *("sh", "-c", "until pgrep -u roofline sleep; do sleep 0.1; done; dpkg --purge roofline 2>&1")
        )
    finally:
        process.kill()
        process.wait()
    assert "user roofline is left" in said
    assert users(root) == ["roofline"]
    assert not (root.path / "var/lib/roofline").exists()


def test_upgrade_ends_where_a_service_does_not_start_again(root: Root) -> None:
    systemd(root, fails="*restart*roofline-server*")
    said = root.run("sh", "-c", "dpkg -i /roofline_2_all.deb 2>&1")
    assert "roofline-server did not start again" in said and "journalctl -u roofline-server" in said
    assert state(root) == "2 install ok installed"
    assert "try-restart roofline-agent.service" in (root.path / "called").read_text()


def test_package_is_removed_where_a_service_does_not_stop(root: Root) -> None:
    systemd(root, fails="disable*")
    root.run("dpkg", "--remove", "roofline")
    assert state(root) == REMOVED


def test_upgrade_ends_where_the_data_are_elsewhere(root: Root) -> None:
    root.run("mv", "/var/lib/roofline/server", "/srv/roofline")
    root.run("ln", "-s", "/srv/roofline", "/var/lib/roofline/server")
    root.run("dpkg", "-i", "/roofline_2_all.deb")
    assert root.run("stat", "-c", "%U %a", "/srv/roofline") == "roofline 700\n"
