"""Writes a job into a folder that TensorBoard reads, at the job's last step."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..errors import ClientError
from .published import Published


def write(found: Published, folder: Path, files: Iterable[Path]) -> Path:
    """The folder of the job, below that folder: each has a name of its own in TensorBoard. Raises ClientError
    where it cannot be written."""
    from matplotlib.image import imread
    from tensorboardX import SummaryWriter

    place = folder / found.job.replace("/", "_")
    when = found.end_ns / 1e9
    try:
        with SummaryWriter(str(place)) as log:
            for name, value in found.metrics.items():
                log.add_scalar(f"roofline/{name}", value, 0, walltime=when)
            tags = "\n".join(f"- {name}: {text}" for name, text in sorted(found.tags.items()))
            log.add_text("roofline/tags", tags, 0, walltime=when)
            for file in files:
                if file.suffix == ".png":
                    picture = imread(file)[..., :3]
                    log.add_image(f"roofline/{file.stem}", picture, 0, walltime=when, dataformats="HWC")
                elif file.suffix == ".txt":
                    fenced = f"```\n{file.read_text()}```"
                    log.add_text(f"roofline/{file.stem}", fenced, 0, walltime=when)
    except OSError as error:
        raise ClientError(f"TensorBoard's folder {place} cannot be written: {error.strerror}") from None
    return place
