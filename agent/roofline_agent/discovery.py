"""Finds the training ranks of this node in /proc, from the variables their launchers set.

Names are matched exactly. A launcher (shell, mpirun, our own wrapper) or a child of a rank (a data-loader
process) carries the same variables and is no rank: of each tree of processes with one identity the topmost
that is no launcher counts.
"""

from __future__ import annotations

import itertools
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from .records import Rank

ROLES = ("ps", "worker", "chief", "evaluator", "horovod", "ddp")
# fmt: off
LAUNCHERS = frozenset([
    "sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox",
    "env", "time", "timeout", "nice", "ionice", "nohup", "setsid", "stdbuf", "script",
    "numactl", "taskset", "chrt", "sudo", "su", "gosu", "xargs", "ssh", "tini", "dumb-init",
    "perf", "strace", "ltrace", "gdb", "nsys", "ncu",
    "unshare", "nsenter", "chroot", "bwrap", "docker", "podman", "runc", "crun", "enroot", "shifter",
    "uv", "conda", "mamba", "micromamba", "poetry", "pixi", "apptainer", "singularity",
    "srun", "mpirun", "mpiexec", "orterun", "orted", "prted", "prterun", "hydra_pmi_proxy",
    "torchrun", "horovodrun", "accelerate", "deepspeed", "roofline-agent", "roofline_agent",
])
LAUNCHER_MODULES = frozenset([
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch",
    "horovod.runner.launch", "roofline_agent",
])
# fmt: on
INTERPRETER_FLAGS_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")
# A process is looked at again while young: between fork and exec it shows its parent's variables.
YOUNG_SCANS = 4
# A shell may set the variables itself and then become the training: all are looked at again now and then.
LOOK_AGAIN_SCANS = 16
MAX_NAME = 128
MAX_INDEX = 2**31 - 1
SLURM_FIRST_SPECIAL_STEP = 0xFFFFFFF0  # batch, extern and interactive steps lie above it


class Identity(NamedTuple):
    """Which rank of which job a set of environment variables describes."""

    job: str
    role: str
    index: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
    world: int
    framework: str
    name: str = ""


class Candidate(NamedTuple):
    """A process that carries an identity."""

    pid: int
    parent: int
    start_ticks: int
    uid: int
    launcher: bool
    identity: Identity


def identify(environ: Mapping[str, str], default_job: str = "") -> Identity | None:
    """The rank these variables describe, or None. Malformed values describe nothing."""
    for reader in (_from_tf_config, _from_horovod, _from_openmpi, _from_torchrun, _from_pmix, _from_slurm):
        found = reader(environ)
        if found is not None:
            break
    else:
        found = None
    return _override(environ, found, default_job)


def _override(environ: Mapping[str, str], found: Identity | None, default_job: str) -> Identity | None:
    # What the user says about a rank goes before what a launcher says.
    said = "ROOFLINE_ROLE" in environ or "ROOFLINE_RANK" in environ or "ROOFLINE_WRAPPED" in environ
    if found is None and not said:
        return None
    base = found or Identity("", "worker", 0, 0, "roofline")
    index = _number(environ.get("ROOFLINE_RANK"))
    job = environ.get("ROOFLINE_JOB") or _scheduler_job(environ) or default_job or base.job or "default"
    return base._replace(
        job=job[:MAX_NAME],
        role=(environ.get("ROOFLINE_ROLE") or base.role)[:MAX_NAME],
        index=base.index if index is None else index,
        name=environ.get("ROOFLINE_NAME", "")[:MAX_NAME],
    )


def _scheduler_job(environ: Mapping[str, str]) -> str:
    if environ.get("SLURM_JOB_ID"):
        return environ["SLURM_JOB_ID"]
    run_id = environ.get("TORCHELASTIC_RUN_ID", "")
    # torchrun's default for a job nobody named.
    if run_id and run_id != "none":
        return run_id
    return environ.get("PMIX_NAMESPACE", "")


def _from_tf_config(environ: Mapping[str, str]) -> Identity | None:
    try:
        config = json.loads(environ.get("TF_CONFIG", "null"))
        role, index = str(config["task"]["type"]), int(config["task"]["index"])
        cluster = config.get("cluster", {})
        world = len(cluster.get(role, ()))
        job = f"tf-{zlib.crc32(json.dumps(cluster, sort_keys=True).encode()):08x}"
        role.encode()  # half a surrogate pair is valid JSON and no text
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    if not 0 <= index <= MAX_INDEX:
        return None
    return Identity(job, "chief" if role == "master" else role, index, world, "tf_config")


def _from_horovod(environ: Mapping[str, str]) -> Identity | None:
    port = environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT", "")
    return _numbered(environ, "HOROVOD_RANK", "HOROVOD_SIZE", "horovod", "horovod", f"horovod-{port}")


def _from_openmpi(environ: Mapping[str, str]) -> Identity | None:
    return _numbered(environ, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "horovod", "openmpi", "openmpi")


def _from_torchrun(environ: Mapping[str, str]) -> Identity | None:
    # RANK alone is a common word; torch's launchers always set the meeting point too.
    if "MASTER_ADDR" not in environ or "WORLD_SIZE" not in environ:
        return None
    meeting = f"ddp-{environ['MASTER_ADDR']}-{environ.get('MASTER_PORT', '')}"
    return _numbered(environ, "RANK", "WORLD_SIZE", "ddp", "torchrun", meeting)


def _from_pmix(environ: Mapping[str, str]) -> Identity | None:
    return _numbered(environ, "PMIX_RANK", "PMIX_SIZE", "horovod", "pmix", "pmix")


def _from_slurm(environ: Mapping[str, str]) -> Identity | None:
    step = _number(environ.get("SLURM_STEP_ID"))
    if step is None or step >= SLURM_FIRST_SPECIAL_STEP:
        return None
    return _numbered(environ, "SLURM_PROCID", "SLURM_NTASKS", "worker", "slurm", "slurm")


def _numbered(
    environ: Mapping[str, str], rank: str, size: str, role: str, framework: str, job: str
) -> Identity | None:
    index = _number(environ.get(rank))
    if index is None:
        return None
    return Identity(job, role, index, _number(environ.get(size)) or 0, framework)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None


def choose(candidates: Mapping[int, Candidate]) -> list[Candidate]:
    """The ranks among the candidates: no launchers, no children of a rank with the same identity."""
    return [c for c in candidates.values() if not c.launcher and not _has_rank_above(c, candidates)]


def _has_rank_above(candidate: Candidate, candidates: Mapping[int, Candidate]) -> bool:
    above = candidates.get(candidate.parent)
    while above is not None and above.identity == candidate.identity:
        if not above.launcher:
            return True
        above = candidates.get(above.parent)
    return False


class Discovery:
    """Keeps the list of ranks of one node up to date at the cost of listing /proc."""

    def __init__(self, proc: str = "/proc", default_job: str = "", socket: Path | None = None) -> None:
        """socket: where this agent listens; ranks that were told another agent's are left to that."""
        self.proc = Path(proc)
        self._socket = socket
        self._default_job = default_job
        self._scans = 0
        self._seen: dict[int, int] = {}  # pid -> scans since first seen
        self._candidates: dict[int, Candidate] = {}
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._ranks: dict[int, Rank] = {}
        self._reported: dict[int, Rank] = {}

    @property
    def ranks(self) -> dict[int, Rank]:
        """The ranks found by the last scan, by pid."""
        return self._ranks

    def scan(self) -> tuple[list[Rank], list[Rank]]:
        """Look again: (ranks that are new, ranks that have gone) since the last scan."""
        self.scan_young()
        before, self._reported = self._reported, dict(self._ranks)
        started = [rank for pid, rank in self._ranks.items() if before.get(pid) != rank]
        gone = [rank for pid, rank in before.items() if self._ranks.get(pid) != rank]
        return started, gone

    def scan_young(self) -> None:
        """Look at processes that are new, young, launchers or due again, and forget those that have gone."""
        self._scans += 1
        self._forget_changed()
        pids = {int(name) for name in os.listdir(self.proc) if name.isdigit()}
        for pid in (self._seen.keys() | self._candidates.keys()) - pids:
            self._seen.pop(pid, None)
            self._candidates.pop(pid, None)
        for pid in pids:
            age = self._seen.get(pid, 0)
            if age < YOUNG_SCANS:
                self._seen[pid] = age + 1
                self._look(pid)
            elif self._is_due_again(pid):
                self._look(pid)
        self._update()

    def _forget_changed(self) -> None:
        # A zombie is no rank any more, and a number used again is another process.
        for pid, candidate in list(self._candidates.items()):
            status = self._stat(pid)
            if status is None or status[1] != candidate.start_ticks:
                self._seen.pop(pid, None)
                del self._candidates[pid]

    def _is_due_again(self, pid: int) -> bool:
        candidate = self._candidates.get(pid)
        if candidate is not None:
            return candidate.launcher
        return (pid + self._scans) % LOOK_AGAIN_SCANS == 0

    def look_at(self, pid: int) -> Rank | None:
        """The rank that process `pid` is or belongs to, looked up now; None if it is none."""
        if pid in self._ranks:
            return self._ranks[pid]
        ancestry = self._ancestry(pid)
        for one in ancestry:
            self._look(one)
        self._update()
        return next((self._ranks[one] for one in ancestry if one in self._ranks), None)

    def _ancestry(self, pid: int) -> list[int]:
        """The process, its parent, and so on, without init."""
        found: list[int] = []
        while pid > 1 and len(found) < 64:
            found.append(pid)
            status = self._stat(pid)
            if status is None:
                break
            pid = status[0]
        return found

    def ranks_below(self, pid: int) -> list[Rank]:
        """The ranks that process `pid` is or has started, looked up now."""
        self._look(pid)
        self.scan_young()
        return [rank for rank in self._ranks.values() if pid in self._ancestry(rank.pid)]

    def environment(self, rank: Rank) -> dict[str, str]:
        """The variables a rank was started with; empty when it has gone or is not ours to read."""
        try:
            return parse_environ((self.proc / str(rank.pid) / "environ").read_bytes())
        except OSError:
            return {}

    def child_called(self, number: int, parent: int) -> int | None:
        """The process that `parent` has started and knows as `number`, by the number that it has for us.

        In a container processes have numbers of their own; None when there is no such child.
        """
        if len(self._numbers(parent)) <= 1:
            return number
        for pid in (int(name) for name in os.listdir(self.proc) if name.isdigit()):
            status = self._stat(pid)
            if status is not None and status[0] == parent and self._numbers(pid)[-1:] == [number]:
                return pid
        return None

    def _numbers(self, pid: int) -> list[int]:
        """What a process is called in each PID namespace from ours to its own."""
        try:
            status = (self.proc / str(pid) / "status").read_text()
        except OSError:
            return []
        lines = [line for line in status.splitlines() if line.startswith("NSpid:")]
        return [int(word) for line in lines for word in line.split()[1:]]

    def is_alive(self, rank: Rank) -> bool:
        """Whether this incarnation of a rank still runs, looked up now."""
        status = self._stat(rank.pid)
        return status is not None and self._start_ns(status[1]) == rank.start_ns

    def adopt(self, pid: int, uid: int) -> Rank | None:
        """Make a rank of a process that marks steps though no launcher's variable names it."""
        status = self._stat(pid)
        if status is None:
            return None
        job = self._default_job or f"local-{pid}"
        taken = {rank.index for rank in self._ranks.values() if (rank.job, rank.role) == (job, "worker")}
        index = next(number for number in itertools.count() if number not in taken)
        identity = Identity(job, "worker", index, 0, "marks")
        self._candidates[pid] = Candidate(pid, status[0], status[1], uid, False, identity)
        self._seen[pid] = YOUNG_SCANS
        self._update()
        return self._ranks.get(pid)

    def _start_ns(self, start_ticks: int) -> int:
        # Since boot, as the kernel has it: on another clock it would differ after an agent's restart.
        return start_ticks * 1_000_000_000 // self._ticks

    def _update(self) -> None:
        self._ranks = {c.pid: self._rank(c) for c in choose(self._candidates)}

    def _rank(self, c: Candidate) -> Rank:
        who = c.identity
        start = self._start_ns(c.start_ticks)
        return Rank(who.job, who.role, who.index, c.pid, start, who.name, who.world, who.framework, c.uid)

    def _look(self, pid: int) -> None:
        # Another user's process cannot be read and is simply not ours to profile.
        try:
            directory = self.proc / str(pid)
            environ = parse_environ((directory / "environ").read_bytes())
            identity = identify(environ, self._default_job)
            status = self._stat(pid)
            if identity is None or status is None or self._is_of_another(environ):
                self._candidates.pop(pid, None)
                return
            arguments = (directory / "cmdline").read_bytes().split(b"\0")
            uid = directory.stat().st_uid
        except OSError:
            self._candidates.pop(pid, None)
            return
        parent, start_ticks = status
        self._candidates[pid] = Candidate(pid, parent, start_ticks, uid, is_launcher(arguments), identity)

    def _is_of_another(self, environ: Mapping[str, str]) -> bool:
        """Whether a process was told the socket of another agent on this machine. A path that is none here is
        one of a container, which may well be ours."""
        told = environ.get("ROOFLINE_SOCKET", "")
        if not told or self._socket is None or not os.path.isabs(told):
            return False
        return os.path.realpath(told) != os.path.realpath(self._socket) and Path(told).is_socket()

    def _stat(self, pid: int) -> tuple[int, int] | None:
        """(parent pid, start in ticks since boot) of a process; None if it has gone or is a zombie."""
        try:
            text = (self.proc / str(pid) / "stat").read_text()
        except OSError:
            return None
        # The name in parentheses may hold anything, also parentheses.
        fields = text[text.rindex(")") + 2 :].split()
        return None if fields[0] in "ZX" else (int(fields[1]), int(fields[19]))


def is_launcher(arguments: Iterable[bytes]) -> bool:
    """Whether a command line only starts ranks: a shell, an MPI launcher, `roofline-agent run`."""
    words = [os.path.basename(word).decode(errors="replace") for word in arguments]
    if not words:
        return False
    if words[0].lstrip("-") in LAUNCHERS:
        return True
    return _interpreted(words[1:])


def _interpreted(words: list[str]) -> bool:
    """Whether an interpreter's arguments run a launcher: python /usr/bin/torchrun, python -m MODULE."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-m":
            return at + 1 < len(words) and words[at + 1] in LAUNCHER_MODULES
        at += 2 if words[at] in INTERPRETER_FLAGS_WITH_VALUE else 1
    return at < len(words) and words[at] in LAUNCHERS


def parse_environ(data: bytes) -> dict[str, str]:
    """The variables in /proc/PID/environ."""
    pairs = (entry.partition(b"=") for entry in data.split(b"\0"))
    return {
        name.decode(errors="replace"): value.decode(errors="replace") for name, mid, value in pairs if mid
    }
