"""Writes a job as a run of Weights & Biases. Offline, it lies in a folder until `wandb sync` sends it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import ClientError
from .published import Published

OFFLINE = "offline"
ONLINE = "online"


def write(found: Published, project: str, folder: Path, files: Iterable[Path]) -> Path:
    """The folder of the run, below `folder`/wandb. It is offline unless WANDB_MODE says online: nodes without
    Internet are common, and who has no account is asked for it. Raises ClientError where W&B refuses."""
    import wandb

    mode = ONLINE if os.environ.get("WANDB_MODE") == ONLINE else OFFLINE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        run = wandb.init(
            project=project,
            id=_identifier(found),
            name=f"roofline {found.job}",
            config={f"roofline.{name}": text for name, text in found.tags.items()},
            dir=folder,
            resume="allow" if mode == ONLINE else None,
            # Of the job alone: nothing of this machine, nor of the code in the working directory.
            settings=wandb.Settings(
                mode=mode,
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                disable_job_creation=True,
                x_disable_stats=True,
                x_disable_meta=True,
                x_disable_machine_info=True,
                x_save_requirements=False,
            ),
        )
        _fill(wandb, run, found, list(files))
        run.finish(1 if "failed" in found.tags["state"] else 0)
    except wandb.Error as error:
        raise ClientError(f"Weights & Biases did not accept job {found.job}: {error}") from None
    except OSError as error:
        raise ClientError(f"the folder {folder} cannot be written: {error.strerror}") from None
    return Path(run.dir).parent


def _identifier(found: Published) -> str:
    """The same each time the job is published. A job whose name is used again began at another time."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", found.job)[:64]
    return f"roofline-{name}-{found.begin_ns // 1_000_000_000:x}"


def _fill(wandb: Any, run: Any, found: Published, files: list[Path]) -> None:
    """Numbers go into the summary: a job has one of each, no history."""
    run.summary.update({f"roofline/{name}": value for name, value in found.metrics.items()})
    run.summary["roofline/headline"] = found.headline
    pictures = {f"roofline/{file.stem}": wandb.Image(str(file)) for file in files if file.suffix == ".png"}
    if pictures:
        run.log(pictures)
    # What is not in the run's own folder would be linked, and the originals go at once.
    own = Path(run.dir) / "roofline"
    own.mkdir()
    for file in files:
        shutil.copy(file, own)
        run.save(str(own / file.name), base_path=run.dir, policy="now")
