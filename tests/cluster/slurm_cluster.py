"""A real Slurm on this machine: munged, slurmctld and a slurmd a node.

Each node has its own host name, processes and /run/roofline (namespaces of unshare(1)), so it works with any
build of Slurm, and an agent on it sees the ranks of its node alone, as on a cluster.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from roofline_agent.ranks.slurm import parse_shown

from tests.fakes import free_port

NODES = ("n1", "n2")
CPUS = 8  # that Slurm believes a node to have
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "unshare", "nsenter", "setpriv")
NOBODY = 65534

CONFIG = """\
ClusterName=roofline-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
MpiDefault=none
ReturnToService=2
KillWait=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=100000
GresTypes=gpu
{more}
{nodes}
PartitionName=short Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def missing_programs() -> list[str]:
    """What of a Slurm this machine lacks."""
    return [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class SlurmCluster:
    """Start it with `start`, end it with `stop`. Takes root."""

    def __init__(self, folder: Path, settings: str = "", nodes: Sequence[str] = NODES) -> None:
        """settings: further lines of slurm.conf."""
        self.folder, self.nodes = folder, nodes
        self.controller, self._ports = free_port(), {name: free_port() for name in nodes}
        self.environ = {**os.environ, "PATH": _path(), "SLURM_CONF": str(folder / "slurm.conf")}
        self._started: list[subprocess.Popen[bytes]] = []
        self._inits: dict[str, int] = {}  # the first process of each node
        self._write(settings)

    def _write(self, settings: str) -> None:
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        about = f"NodeAddr=127.0.0.1 CPUs={CPUS} RealMemory=1000 Gres=gpu:2"
        nodes = [f"NodeName={name} Port={self._ports[name]} {about}" for name in self.nodes]
        text = CONFIG.format(
            host=socket.gethostname(),
            controller=self.controller,
            folder=self.folder,
            nodes="\n".join(nodes),
            more=settings,
        )
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "gres.conf").write_text("Name=gpu File=/dev/zero\nName=gpu File=/dev/null\n")
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost {' '.join(self.nodes)}\n")
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)

    def start(self) -> None:
        """Returns when jobs can be submitted."""
        options = [
            f"--{name}={self.folder / f'munge.{name}'}" for name in ("pid-file", "log-file", "seed-file")
        ]
        self.run(
            [
                *("munged", "--foreground", "--force", f"--key-file={self.folder / 'munge.key'}"),
                *(f"--socket={self.folder / 'munge.sock'}", *options),
            ],
            "munged",
        )
        wait_until((self.folder / "munge.sock").exists, what="munged listens")
        self.run(["slurmctld", "-D"], "slurmctld")
        for name in self.nodes:
            self._start_node(name)
        wait_until(self._ready, what="all nodes are idle")

    def _start_node(self, name: str) -> None:
        """A slurmd in namespaces of its own, below a shell that sets them up."""
        setup = (
            f"hostname {name}; for place in roofline roofline-slurm; do mkdir -p /run/$place"
            " && mount -t tmpfs -o mode=755 none /run/$place; done;"
            f" mount --bind {self.folder}/hosts /etc/hosts; exec slurmd -D -N {name}"
        )
        command = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        made = self.run([*command, "sh", "-c", setup], f"slurmd-{name}-out")
        children = Path(f"/proc/{made.pid}/task/{made.pid}/children")
        self._inits[name] = int(wait_until(children.read_text, what=f"node {name}"))

    def _ready(self) -> bool:
        done = self.command("sinfo", "-h", "-N", "-o", "%T", check=False)
        states = done.stdout.split()
        return len(states) == len(self.nodes) and set(states) == {"idle"}

    def run(self, command: Sequence[str], log: str, environ: Mapping[str, str] = {}) -> Any:
        with open(self.folder / f"{log}.out", "ab") as file:
            process = subprocess.Popen(
                command,
                env={**self.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self._started.append(process)
        return process

    def on_node(self, name: str, *command: Any, log: str = "", **environ: str) -> Any:
        """Start a program on a node, in the background."""
        inside = ["nsenter", "-t", str(self._inits[name]), "-m", "-u", "-p", "--", *map(str, command)]
        return self.run(inside, log or f"{name}-{Path(str(command[0])).name}", environ)

    def command(
        self, *command: Any, uid: int = 0, check: bool = True, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """A command of Slurm's, run to its end."""
        who = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
        return subprocess.run(
            [*who, *map(str, command)],
            env={**self.environ, **environ},
            check=check,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def sbatch(self, script: str | Path, *options: Any, uid: int = 0, after: Any = (), **environ: str) -> str:
        """Submit a script; its number. after: what follows the script's name."""
        file = script if isinstance(script, Path) else self.folder / f"job-{time.monotonic_ns()}.sh"
        if isinstance(script, str):
            file.write_text(f"#!/bin/sh\n{script}\n")
            file.chmod(0o755)
        place = self.folder / f"out-{uid}"
        if not place.exists():
            place.mkdir()
            os.chown(place, uid, uid)
        done = self.command(
            "sbatch",
            "--parsable",
            "--chdir",
            place,
            "-o",
            f"{place}/%j.out",
            *options,
            file,
            *after,
            uid=uid,
            **environ,
        )
        return done.stdout.strip()

    def output(self, job: str, uid: int = 0) -> str:
        return (self.folder / f"out-{uid}" / f"{job}.out").read_text()

    def show(self, job: str) -> dict[str, str]:
        """What Slurm says of a job."""
        text = self.command("scontrol", "-o", "show", "job", job, check=False).stdout
        return parse_shown(text, job)

    def wait(self, job: str, seconds: float = 60) -> dict[str, str]:
        """Until a job has ended and its epilog is done; what Slurm says of it."""

        def ended() -> dict[str, str] | None:
            about = self.show(job)
            going_on = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", None)
            return None if about.get("JobState") in going_on else about

        found: dict[str, str] = wait_until(ended, seconds, what=f"the end of job {job}")
        return found

    def stop(self) -> None:
        """Ends all, the nodes with what runs there."""
        for init in self._inits.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(init, signal.SIGKILL)
        for process in reversed(self._started):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in reversed(self._started):
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until(condition: Callable[[], Any], seconds: float = 60, what: str = "") -> Any:
    """The first true result of `condition`; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if result := condition():
                return result
        time.sleep(0.1)
    raise AssertionError(f"still not so after {seconds} s: {what or condition}")
