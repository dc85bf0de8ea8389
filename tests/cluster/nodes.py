"""Some nodes on this machine that reach one another by ssh: a head and others, without Slurm.

They are the nodes of examples/papers (namespaces, between them a bridge of this machine), and each has a home
and an sshd of its own; nothing of this machine's own ssh or accounts is changed or seen.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

from ..end_to_end.conftest import REPOSITORY
from .slurm_cluster import wait_until

HEAD = "head"
PROGRAMS = ("sshd", "ssh", "ssh-keygen", "ip", "unshare", "nsenter")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

SSHD = """\
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
Subsystem sftp internal-sftp
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
SetEnv {variables}
"""
SSH = """\
IdentityFile {folder}/key
UserKnownHostsFile {folder}/known_hosts
LogLevel ERROR
"""


def missing_programs() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


def are_allowed() -> bool:
    """Whether this machine lets one make networks and mounts of one's own, as many containers do not."""
    setup = "mount -t tmpfs none /run && ip link add name eth0 type bridge"
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "sh", "-c", setup]
    return subprocess.run(command, capture_output=True).returncode == 0


class Nodes:
    """Start them with `start`, end them with `stop`. Takes root.

    variables: what a shell on each node has in addition to PATH.
    """

    def __init__(self, folder: Path, names: tuple[str, ...] = ("n1", "n2"), **variables: str) -> None:
        self.folder, self.names = folder, (HEAD, *names)
        self.variables = {"PATH": PATH, "LC_ALL": "C.UTF-8", **variables}
        self.own: list[Path] = []  # folders of which each node has its own, empty at first
        self._home = folder / "home"
        self._nodes: dict[str, Any] = {}
        self._up = contextlib.ExitStack()
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Returns when the head reaches all by ssh."""
        self._write()
        own = [f"mkdir -p {place} && mount -t tmpfs none {place}" for place in self.own]
        bound = {self.folder / "passwd": "/etc/passwd", self.folder / "homes" / "{name}": self._home}
        setup = [f"mount --bind {mine} {place}" for mine, place in bound.items()]
        cluster = _example().cluster(self.names, "", ["mkdir /run/sshd", *setup, *own])
        self._nodes = self._up.enter_context(cluster)
        self._write_known()
        for name in self.names:
            sshd = ["/usr/sbin/sshd", "-D", "-e", "-f", str(self.folder / "sshd_config")]
            self._spawn(self._inside(name, sshd), f"sshd-{name}")
        for name in self.names:
            wait_until(lambda name=name: self._answers(name), what=f"sshd of {name}")

    def home(self, name: str) -> Path:
        """Where a node's home lies; on the node itself it is `self._home`, the same path on all."""
        return self.folder / "homes" / name

    def run(self, script: str, folder: Path, seconds: float) -> str:
        """What a shell on the head says that runs `script` in `folder`; fails if the shell does."""
        command = self._inside(HEAD, ["bash", "-c", f"cd {folder}; {script}"])
        with open(self.folder / "shell.out", "wb") as file:
            done = subprocess.Popen(
                command, env=self._environ(), stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        self._started.append(done)
        try:
            code = done.wait(seconds)
        except subprocess.TimeoutExpired:
            code = -1
        said = (self.folder / "shell.out").read_text(errors="replace")
        assert code == 0, f"{'out of time' if code < 0 else code}:\n{said}"
        return said

    def stop(self) -> None:
        """Ends all, with what runs there."""
        self._up.close()
        for process in self._started:
            process.wait(timeout=10)
        for place in self.own:
            with contextlib.suppress(OSError):
                place.rmdir()  # what others have in it stays

    def _write(self) -> None:
        for name in self.names:
            (self.home(name) / ".ssh").mkdir(parents=True, mode=0o700)
            (self.home(name) / ".ssh" / "config").write_text(SSH.format(folder=self.folder))
        self._home.mkdir()
        accounts = Path("/etc/passwd").read_text()
        (self.folder / "passwd").write_text(_with_home(accounts, self._home))
        for file in ("key", "host_key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / file)]
            subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        variables = " ".join(f'"{name}={text}"' for name, text in self.variables.items())
        (self.folder / "sshd_config").write_text(SSHD.format(folder=self.folder, variables=variables))

    def _write_known(self) -> None:
        public = (self.folder / "host_key.pub").read_text()
        known = [f"{name},{node.address} {public}" for name, node in self._nodes.items()]
        (self.folder / "known_hosts").write_text("".join(known))

    def _answers(self, name: str) -> bool:
        command = self._inside(HEAD, ["ssh", "-o", "BatchMode=yes", name, "true"])
        return subprocess.run(command, env=self._environ(), stderr=subprocess.DEVNULL).returncode == 0

    def _inside(self, name: str, command: list[str]) -> list[str]:
        return list(self._nodes[name].inside(*command))

    def _environ(self) -> dict[str, str]:
        return {**self.variables, "HOME": str(self._home), "USER": "root"}

    def _spawn(self, command: list[str], log: str) -> Any:
        with open(self.folder / f"{log}.out", "ab") as file:
            process = subprocess.Popen(
                command, env=self._environ(), stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        self._started.append(process)
        return process


def _example() -> ModuleType:
    """examples/papers/nodes.py."""
    path = REPOSITORY / "examples" / "papers" / "nodes.py"
    spec = importlib.util.spec_from_file_location("papers_nodes", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _with_home(accounts: str, home: Path) -> str:
    """The lines of /etc/passwd with another home for root: ssh and sshd know no other place to ask."""
    lines = [line.split(":") for line in accounts.splitlines()]
    made = [[*line[:5], str(home), "/bin/bash"] if line[0] == "root" else line for line in lines]
    return "".join(":".join(line) + "\n" for line in made)
