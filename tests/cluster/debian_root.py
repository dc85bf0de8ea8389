"""The files of a made-up machine that a Debian package is installed on."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

# What dpkg and systemd-analyze keep for themselves.
BACKUPS = tuple(f"etc/{name}-" for name in ("passwd", "group", "shadow", "gshadow", "subuid", "subgid"))
OTHERS = ("var/lib/dpkg", "var/log", "var/cache/man", "run/", "etc/.pwd.lock", *BACKUPS)


class Root:
    """This machine's root, and above it what is written: nothing here sees it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.path, self.written = folder, folder / "root", folder / "written"

    def __enter__(self) -> Root:
        # An overlay cannot lie on an overlay, as the root of a container often is.
        run_command("mount", "-t", "tmpfs", "tmpfs", self._folder)
        for name in ("root", "written", "work"):
            (self._folder / name).mkdir()
        options = f"lowerdir=/,upperdir={self.written},workdir={self._folder / 'work'}"
        run_command("mount", "-t", "overlay", "overlay", "-o", options, self.path)
        run_command("mount", "-t", "proc", "proc", self.path / "proc")
        run_command("mount", "--bind", "/dev", self.path / "dev")
        return self

    def __exit__(self, *_: object) -> None:
        for place in (self.path / "dev", self.path / "proc", self.path, self._folder):
            subprocess.run(["umount", place], capture_output=True)

    def run(self, *words: str) -> str:
        return run_command("chroot", self.path, *words)

    def leftovers(self) -> set[str]:
        """Files that are there now and were not, or hold something else."""
        files = {path.relative_to(self.written) for path in self.written.rglob("*") if path.is_file()}
        changed = {str(name) for name in files if not _same(self.written / name, Path("/") / name)}
        return {name for name in changed if not name.startswith(OTHERS)}


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


def run_command(*words: Any) -> str:
    environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        [str(word) for word in words], env=environ, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout
