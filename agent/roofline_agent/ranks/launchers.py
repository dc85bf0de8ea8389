"""Recognises command lines that only start ranks: shells, MPI launchers, `roofline-agent run`. No I/O."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from itertools import pairwise

# fmt: off
LAUNCHERS = frozenset([
    "sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox",
    "env", "time", "timeout", "nice", "ionice", "nohup", "setsid", "stdbuf", "script",
    "numactl", "taskset", "chrt", "sudo", "su", "gosu", "xargs", "ssh", "tini", "dumb-init",
    "perf", "strace", "ltrace", "gdb", "nsys", "ncu", "py-spy",
    "make", "gmake", "parallel", "tmux", "screen", "SCREEN", "wandb",
    "unshare", "nsenter", "chroot", "bwrap", "docker", "podman", "runc", "crun", "enroot", "shifter",
    "uv", "conda", "mamba", "micromamba", "poetry", "pixi", "apptainer", "singularity",
    "Apptainer runtime parent", "Singularity runtime parent", "appinit", "sinit",
    "srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "orted", "prted", "prterun", "hydra_pmi_proxy",
    "hydra_bstrap_proxy",
    "torchrun", "horovodrun", "accelerate", "accelerate-launch", "deepspeed",
    "roofline-agent", "roofline_agent", "roofline-server", "roofline-client",
    "signal-witness",  # of `roofline-agent run` (run/witness.py); until it has this title it looks like that
])
OWN_PACKAGES = ("roofline_server", "roofline_client")  # python -m roofline_server.store.sealing
LAUNCHER_MODULES = frozenset([
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch",
    "deepspeed.launcher.launch", "deepspeed.launcher.runner", "horovod.runner.launch", "roofline_agent",
])
# What starts ranks again that fail: all its ranks are one run of a job.
RESTARTING = frozenset([
    "torchrun", "horovodrun", "accelerate", "accelerate-launch", "deepspeed",
    "roofline-agent", "roofline_agent",
])
RESTARTING_MODULES = LAUNCHER_MODULES
# What starts all ranks of a job on a node, or all there are.
STARTING = frozenset([
    "torchrun", "horovodrun", "accelerate", "accelerate-launch", "deepspeed",
    "srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun",
])
STARTING_MODULES = LAUNCHER_MODULES - {"roofline_agent"}
# fmt: on
# What a program's own processes run that Python's multiprocessing starts: `python -c "from ..."`.
HELPER_CODE = "from multiprocessing."
INTERPRETER_FLAGS_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")


def is_launcher(arguments: Iterable[bytes]) -> bool:
    """Whether a command line only starts ranks: a shell, an MPI launcher, `roofline-agent run`."""
    return _runs(arguments, LAUNCHERS, LAUNCHER_MODULES, OWN_PACKAGES)


def starts_again(arguments: Iterable[bytes]) -> bool:
    """Whether it starts ranks again that fail, or stands for a command that may."""
    return _runs(arguments, RESTARTING, RESTARTING_MODULES)


def starts_all(arguments: Iterable[bytes]) -> bool:
    """Whether it starts several ranks of one job."""
    return _runs(arguments, STARTING, STARTING_MODULES)


def is_helper(arguments: Iterable[bytes]) -> bool:
    """Whether it is a process of the program that started it, by Python's multiprocessing. horovodrun has one
    for each rank it starts."""
    words = [word.decode(errors="replace") for word in arguments]
    return any(flag == "-c" and code.startswith(HELPER_CODE) for flag, code in pairwise(words))


def _runs(
    arguments: Iterable[bytes],
    programs: Collection[str],
    modules: Collection[str],
    packages: Collection[str] = (),
) -> bool:
    words = [os.path.basename(word).decode(errors="replace") for word in arguments]
    if not words:
        return False
    if words[0].lstrip("-") in programs:
        return True
    # What an interpreter runs: python /usr/bin/torchrun, python -m MODULE.
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-m":
            module = words[at + 1] if at + 1 < len(words) else ""
            return module in modules or module.partition(".")[0] in packages
        at += 2 if words[at] in INTERPRETER_FLAGS_WITH_VALUE else 1
    return at < len(words) and words[at] in programs
