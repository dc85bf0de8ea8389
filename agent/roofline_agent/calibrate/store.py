"""Keeps a calibration in a JSON file: a reader finds the old one or the new one, never a part of one."""

from __future__ import annotations

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
    """Raises OSError."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            # mkstemp keeps the file to its owner, but ceilings are no secret and other users' jobs read them.
            os.fchmod(file.fileno(), 0o644)
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
