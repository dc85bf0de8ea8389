"""The environment of a wrapped command: what makes steps and kernels visible, and what is the user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..hooks.kernel_switch import OVERHEAD, SAMPLED, SWITCHES
from ..ranks.identity import OF_RANKS

HOOKS = Path(__file__).parents[1] / "hooks" / "inject"
ONEDNN_SWITCHES = SWITCHES[1:]
SET = "ROOFLINE_SWITCHES"  # names of those that are ours (hooks/inject/sitecustomize.py)
LAUNCHED = "ROOFLINE_LAUNCHED"  # names of variables that only a launcher within the command can have set
TIMESTAMP_SWITCHES = ("ONEDNN_VERBOSE_TIMESTAMP", "DNNL_VERBOSE_TIMESTAMP")


class Naming(NamedTuple):
    """What the user names the rank; None: as the environment names it."""

    job: str | None = None
    role: str | None = None
    rank: int | None = None
    name: str | None = None


class RecordedKernels(NamedTuple):
    """Which oneDNN and MKL kernels are recorded."""

    which: str  # "all"; "sampled": of a sample of the steps, where the libraries can be switched; "none"
    overhead: float = 0.005  # share of the training's time that a sample and all else of ours may take


def with_hooks(environ: Mapping[str, str], hooks: Path = HOOKS) -> str:
    """PYTHONPATH of who runs with these hooks."""
    return os.pathsep.join(filter(None, [str(hooks), environ.get("PYTHONPATH", "")]))


def rank_environment(
    environ: Mapping[str, str],
    naming: Naming,
    hooks: Path,
    stdout_id: str,
    kernels: RecordedKernels,
    steps: bool,
) -> dict[str, str]:
    """The environment of the wrapped command: the caller's, plus what makes steps and kernels visible."""
    env = dict(environ)
    env["ROOFLINE_WRAPPED"] = "1"
    for key, value in naming._asdict().items():
        if value is not None:
            env[f"ROOFLINE_{key.upper()}"] = str(value)
    if steps:
        env["PYTHONPATH"] = with_hooks(environ, hooks)
    if kernels.which == "none":
        return env
    if steps:
        env["ROOFLINE_STDOUT"] = stdout_id  # where MKL's lines go, and notes of borders with them
        if kernels.which == "sampled" and not any(name in environ for name in SWITCHES):
            # Hooks take the switches below out again before they load a library that they can switch.
            env[SAMPLED], env[OVERHEAD] = "sampled", f"{kernels.overhead:g}"
    # A user who set a switch wants just that; then the lines also stay in the output (`kept`).
    ours: list[str] = []
    if not any(name in environ for name in ONEDNN_SWITCHES):
        ours += (*ONEDNN_SWITCHES, *TIMESTAMP_SWITCHES)
    if "MKL_VERBOSE" not in environ:
        ours.append("MKL_VERBOSE")
    env.update(dict.fromkeys(ours, "1"))
    if steps and ours:
        env[SET] = ",".join(ours)
        env[LAUNCHED] = ",".join(name for name in OF_RANKS if name not in environ)
    return env


def kept(environ: Mapping[str, str]) -> tuple[bool, bool]:
    """Whether the user asked for (oneDNN, MKL) verbose lines, so that they stay in the output."""
    return any(name in environ for name in ONEDNN_SWITCHES), "MKL_VERBOSE" in environ


def records_everything(env: Mapping[str, str]) -> bool:
    """Whether the command's environment makes both libraries report every kernel; else none is claimed."""
    switches = [env.get(ONEDNN_SWITCHES[0], env.get(ONEDNN_SWITCHES[1], "")), env.get("MKL_VERBOSE", "")]
    return all(value not in ("", "0", "none") for value in switches)
