"""Keeps a validation in a JSON file next to the ceilings."""

from __future__ import annotations

import json
from pathlib import Path

from ..calibrate import store
from .errors import ValidationError
from .validation import Validation, from_json, merged, to_json


def path_in(state: Path) -> Path:
    return state / "validation.json"


def load(state: Path) -> Validation | None:
    """None if there is none. Raises ValidationError naming the file if it is no validation."""
    path = path_in(state)
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValidationError(f"can't read the validation in {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        why = f"{path} is no validation: {error}; remove it and run `roofline-agent validate` again"
        raise ValidationError(why) from error


def keep(state: Path, new: Validation) -> Path:
    """Replace what is kept of the metrics that were checked; its file. Raises ValidationError."""
    try:
        before = load(state)
    except ValidationError:
        before = None  # unreadable: the new one is worth more
    path = path_in(state)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        store.replace_file(path, json.dumps(to_json(merged(new, before)), indent=2, allow_nan=False) + "\n")
    except OSError as error:
        raise ValidationError(f"can't write the validation to {path}: {error.strerror}") from error
    return path
