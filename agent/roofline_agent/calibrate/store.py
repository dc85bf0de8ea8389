"""Keeps a calibration in a JSON file: a reader finds the old one or the new one, never a part of one."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

from roofline_agent.calibrate.calibration import Calibration, from_json, to_json
from roofline_agent.calibrate.errors import CalibrationError


def save(calibration: Calibration, path: Path) -> None:
    """Raises CalibrationError naming the file if it can't be written."""
    text = json.dumps(to_json(calibration), indent=2, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, text)
    except OSError as error:
        raise CalibrationError(f"can't write the calibration to {path}: {error.strerror}") from error


def load(path: Path) -> Calibration | None:
    """None if there is no such file. Raises CalibrationError naming the file if it is no calibration."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CalibrationError(f"can't read the calibration in {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _malformed(path, error) from error
    try:
        return from_json(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise _malformed(path, error) from error


def _malformed(path: Path, error: Exception) -> CalibrationError:
    return CalibrationError(f"{path} is no calibration: {error}; remove it and calibrate again")


def replace_file(path: Path, text: str) -> None:
    """With a file that only the owner of its folder can read, also where root replaces it. Raises OSError."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            _give(file.fileno(), path.parent)
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise
    # The name itself is on disk only when its directory is.
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _give(file: int, folder: Path) -> None:
    """To the owner of the folder, whose agent reads it, if this is root and not narrowed down."""
    if os.geteuid() == 0:
        owner = folder.stat()
        with contextlib.suppress(PermissionError):
            os.fchown(file, owner.st_uid, owner.st_gid)
