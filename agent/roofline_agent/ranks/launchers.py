"""Recognises command lines that only start ranks: shells, MPI launchers, `roofline-agent run`. No I/O."""

from __future__ import annotations

import os
from collections.abc import Iterable

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


def is_launcher(arguments: Iterable[bytes]) -> bool:
    """Whether a command line only starts ranks: a shell, an MPI launcher, `roofline-agent run`."""
    words = [os.path.basename(word).decode(errors="replace") for word in arguments]
    if not words:
        return False
    if words[0].lstrip("-") in LAUNCHERS:
        return True
    # What an interpreter runs: python /usr/bin/torchrun, python -m MODULE.
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-m":
            return at + 1 < len(words) and words[at + 1] in LAUNCHER_MODULES
        at += 2 if words[at] in INTERPRETER_FLAGS_WITH_VALUE else 1
    return at < len(words) and words[at] in LAUNCHERS
