"""`roofline-agent slurm-epilog`: what deploy/slurm/epilog.sh runs when a job of Slurm's has ended."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import typer

from .options import load_config

ANSWER_S = 5.0  # for which Slurm's controller may take to answer

Shown = Callable[[str], str]


def slurm_epilog(context: typer.Context) -> None:
    """Tell this node's agent how a job of Slurm's ended: for an epilog, which deploy/slurm has.

    It reads the epilog's variables (SLURM_JOB_ID, ...) and, on the job's first node, asks `scontrol show job`
    once. An epilog that fails drains its node, so this exits with 0 whatever happens, within seconds, and
    says in a line on stderr what failed.
    """
    try:
        problem = tell(os.environ, load_config(context).socket_path(), scontrol)
    except Exception as error:
        problem = f"how job {os.environ.get('SLURM_JOB_ID')} ended is not recorded: {error}"
    if problem:
        with contextlib.suppress(OSError, ValueError):
            print(f"roofline-agent slurm-epilog: {problem}", file=sys.stderr, flush=True)


def tell(environ: Mapping[str, str], agent: Path, show: Shown) -> str:
    """Send the end of an epilog's job to the agent; what is wrong, and what to do: "": nothing. show: what
    `scontrol show job` says of a number."""
    from roofline_step.packets import pack_fact

    from ..ranks import slurm

    job = environ.get("SLURM_JOB_ID", "")
    if not job:
        return "SLURM_JOB_ID is not set: this is for Epilog= of slurm.conf"
    shown = slurm.parse_shown(show(job), job)
    end = slurm.ended(environ, shown, environ.get("ROOFLINE_SLURM_RESTARTS", ""))
    if end is None:
        return ""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(1)
            connection.connect(str(agent))
            connection.send(pack_fact(slurm.ENDED, slurm.packed(end)))
    except OSError as error:
        return (
            f"how job {job} ended is not recorded, as no agent takes it at {agent} "
            f"({error.strerror or error}): start roofline-agent on this node, or name its --socket in "
            "epilog.sh"
        )
    if end.state or shown:
        return ""
    return (
        f"how job {job} ended is not known, as scontrol has not shown it within {ANSWER_S:g} s: PATH in "
        "epilog.sh must have the folder of scontrol, and slurmctld must answer"
    )


def scontrol(job: str) -> str:
    """ "": there is none, or it does not answer in time."""
    command = ["scontrol", "-o", "show", "job", job]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_S, stdin=subprocess.DEVNULL
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
