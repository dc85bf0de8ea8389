"""Writes a job into a folder that TensorBoard reads, at the job's last step."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import ClientError
from .published import Published

# The end of our files' names: a training may write files of its own into the same folder, and they stay.
OURS = ".roofline"


def write(found: Published, folder: Path, files: Iterable[Path]) -> Path:
    """The folder of the job, below that folder: each has a name of its own in TensorBoard. What we wrote of
    the job before is replaced. Raises ClientError where it cannot be written."""
    from tensorboardX import SummaryWriter

    place = folder / _file_name(found.job)
    when = found.end_ns / 1e9
    earlier = list(place.glob(f"*{OURS}"))
    try:
        # No file has the name of an earlier one, not even of one of this second.
        with SummaryWriter(str(place), filename_suffix=f".{time.time_ns()}{OURS}") as log:
            for name, value in found.metrics.items():
                log.add_scalar(f"roofline/{name}", value, 0, walltime=when)
            tags = "\n".join(f"- {name}: {text}" for name, text in sorted(found.tags.items()))
            log.add_text("roofline/tags", tags, 0, walltime=when)
            for file in files:
                if file.suffix == ".png":
                    log.file_writer.add_summary(_picture(file), 0, when)
                elif file.suffix == ".txt":
                    fenced = f"```\n{file.read_text(encoding='utf-8')}```"
                    log.add_text(f"roofline/{file.stem}", fenced, 0, walltime=when)
        for old in earlier:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise ClientError(f"TensorBoard's folder {place} cannot be written: {error.strerror}") from None
    return place


def _file_name(job: str) -> str:
    """A name of its own for each job: other characters than letters, digits, "_", "-" and ".", and a dot in
    front, are written as in addresses of the web."""
    return re.sub(r"[^\w.-]|^\.", lambda one: "".join(f"%{byte:02X}" for byte in one[0].encode()), job)


def _picture(file: Path) -> Any:
    """A PNG as it is, which has its size in its first chunk (ISO/IEC 15948, 11.2.2)."""
    from tensorboardX.proto.summary_pb2 import Summary

    data = file.read_bytes()
    width, height = struct.unpack_from(">II", data, 16)
    image = Summary.Image(width=width, height=height, colorspace=4, encoded_image_string=data)
    return Summary(value=[Summary.Value(tag=f"roofline/{file.stem}", image=image)])
