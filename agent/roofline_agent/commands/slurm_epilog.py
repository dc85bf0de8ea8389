"""`roofline-agent slurm-epilog`: what deploy/slurm/epilog.sh runs when a job of Slurm's has ended."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import typer

from .options import load_config

ANSWER_S = 5.0  # for which Slurm's controller may take to answer

Shown = Callable[[str], str]


def slurm_epilog(context: typer.Context) -> None:
    """Tell this node's agent how a job of Slurm's ended: for an epilog, which deploy/slurm has.

    It reads the epilog's variables (SLURM_JOB_ID, ...) and, on the job's first node, asks `scontrol show job`
    once. An epilog that fails drains its node, so this exits with 0 whatever happens, within seconds.
    """
    config = load_config(context)
    with contextlib.suppress(OSError):
        tell(os.environ, config.socket_path(), scontrol)


def tell(environ: Mapping[str, str], agent: Path, show: Shown) -> None:
    """Send the end of an epilog's job to the agent. show: what `scontrol show job` says of a number. Raises
    OSError where no agent listens."""
    from roofline_step.packets import pack_fact

    from ..ranks import slurm

    job = environ.get("SLURM_JOB_ID", "")
    if not job:
        return
    shown = slurm.parse_shown(show(job), job)
    end = slurm.ended(environ, shown, environ.get("ROOFLINE_SLURM_RESTARTS", ""))
    if end is None:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(1)
        connection.connect(str(agent))
        connection.send(pack_fact(slurm.ENDED, slurm.packed(end)))


def scontrol(job: str) -> str:
    """ "": there is none, or it does not answer in time."""
    command = ["scontrol", "-o", "show", "job", job]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_S, stdin=subprocess.DEVNULL
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
