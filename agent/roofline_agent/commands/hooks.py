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
    except FileExistsError as error:
        raise Unavailable(str(error)) from None
    except OSError as error:
        raise Unavailable(f"cannot write {copy}: {error.strerror or error}; choose another DIR") from None
    print(copy.absolute() / INJECTED)


def replace_by_copy(packages: Path, target: Path) -> None:
    """Make `target` a copy of what runs inside trainings, for all users to read. Raises OSError;
    FileExistsError if something else is there.

    An older copy is replaced as a whole: a training that starts meanwhile has the old one, the new one,
    or for an instant none.
    """
    target = target.resolve()
    _refuse_others(target)
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


def _refuse_others(target: Path) -> None:
    """Raises FileExistsError if this is anything but an empty directory or an older copy."""
    if not target.exists():
        return
    found = sorted(os.listdir(target)) if target.is_dir() else [target.name]
    is_copy = found == ["roofline_agent", "roofline_step"] and os.listdir(target / found[0]) == ["hooks"]
    if found and not is_copy:
        raise FileExistsError(
            f"{target} would be replaced as a whole, and what is there ({found[0]}) is no copy of the hooks: "
            "choose a DIR that does not exist yet, as /run/roofline/hooks"
        )
