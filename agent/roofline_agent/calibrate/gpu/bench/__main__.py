"""Loads this folder as a package, whatever the Python that runs it has installed, and starts it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any

NAME = "roofline_gpu_bench"


def load(name: str) -> Any:
    """A module of this folder; the folder is a package under a name of its own."""
    here = os.path.dirname(os.path.abspath(__file__))
    if NAME not in sys.modules:
        # Python put this folder first: its modules must not come before the framework's.
        sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
        spec = importlib.util.spec_from_file_location(
            NAME, os.path.join(here, "__init__.py"), submodule_search_locations=[here]
        )
        assert spec and spec.loader
        sys.modules[NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[NAME])
    return importlib.import_module(f"{NAME}.{name}")


if __name__ == "__main__":
    sys.exit(load("run").main(sys.argv[1:]))
