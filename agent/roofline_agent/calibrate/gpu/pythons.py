"""Which Python has something to measure with: the one that is named, our own, or one on PATH."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

LIBRARIES = ("torch", "cupy", "tensorflow")
_LOOK = (
    "import importlib.util, json, sys; "
    f"print(json.dumps([one for one in {LIBRARIES!r} if importlib.util.find_spec(one)]))"
)
_LOOK_S = 60.0  # over a slow file system


class Python(NamedTuple):
    path: str
    libraries: tuple[str, ...]  # of LIBRARIES, which it has


def choose(named: str | None, environ: Mapping[str, str]) -> tuple[Python | None, str]:
    """The Python to measure with, and if there is none, why."""
    if named:
        found = look(named, environ)
        if found is None:
            return None, f"{named} is no Python that runs here"
        if not found.libraries:
            return None, f"{named} has none of {', '.join(LIBRARIES)}"
        return found, ""
    on_path = [shutil.which(name, path=environ.get("PATH")) for name in ("python3", "python")]
    for path in dict.fromkeys([sys.executable, *filter(None, on_path)]):
        found = look(path, environ)
        if found and found.libraries:
            return found, ""
    return None, (
        f"no Python here has any of {', '.join(LIBRARIES)}: name the training's own with --python PATH"
    )


def look(path: str, environ: Mapping[str, str]) -> Python | None:
    """None if it does not run."""
    try:
        done = subprocess.run(
            [path, "-c", _LOOK],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_LOOK_S,
            check=True,
        )
        return Python(path, tuple(json.loads(done.stdout)))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
