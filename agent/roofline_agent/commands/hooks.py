"""`roofline-agent hooks`: where the hooks are, for PYTHONPATH."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

PARTS = ("roofline_agent/hooks", "roofline_step")  # of our packages, what runs inside a training
INJECTED = Path("roofline_agent", "hooks", "inject")


def hooks(
    copy: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="copy the hooks to DIR, for containers where roofline is not installed"
        ),
    ] = None,
) -> None:
    """Print the folder of the hooks, to put on PYTHONPATH.

    Examples:

    \b
      export PYTHONPATH="$(roofline-agent hooks)${PYTHONPATH:+:$PYTHONPATH}"
      roofline-agent hooks --copy /run/roofline/hooks

    Use it on clusters, in a login profile, a job prolog or a container image, instead of putting
    `roofline-agent run` before each rank. Steps are then marked; kernels of oneDNN and MKL are not recorded.
    Each Python process takes 2 ms longer to start. Hooks load when TensorFlow, Keras, torch, JAX or Horovod
    is imported, do nothing if no agent runs, and do not load with ROOFLINE_DISABLE=1 or python -E, -I or -S.
    """
    packages = Path(__file__).parents[2]
    if copy is None:
        print(packages / INJECTED)
        return
    from ..errors import Unavailable

    try:
        replace_by_copy(packages, copy)
    except OSError as error:
        raise Unavailable(f"cannot write {copy}: {error.strerror or error}; choose another DIR") from None
    print(copy.absolute() / INJECTED)


def replace_by_copy(packages: Path, target: Path) -> None:
    """Make `target` a copy of what runs inside trainings, for all users to read. Raises OSError.

    What stands there is replaced as a whole: a training that starts meanwhile has the old one, the new one,
    or for an instant none.
    """
    new, old = (target.with_name(f"{target.name}.{word}.{os.getpid()}") for word in ("new", "old"))
    try:
        for part in PARTS:
            # The time of a file decides whether Python takes the compiled one next to it.
            shutil.copytree(packages / part, new / part, ignore=shutil.ignore_patterns("__pycache__"))
        for folder, _, files in os.walk(new):
            os.chmod(folder, 0o755)
            for file in files:
                os.chmod(os.path.join(folder, file), 0o644)
        if target.exists():
            target.rename(old)
        new.rename(target)
    finally:
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)
