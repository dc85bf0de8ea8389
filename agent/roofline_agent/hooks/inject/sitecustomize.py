"""Python imports this at start when `roofline-agent run` put its folder on PYTHONPATH.

It loads the hooks, then makes way for the sitecustomize that would have been imported without us. Whatever
goes wrong here stays here: the training starts as if nothing had happened.
"""

import os
import sys


def _load_hooks(folder: str) -> None:
    import importlib.util

    path = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(
        "_roofline_hooks", path, submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["_roofline_hooks"] = module
    spec.loader.exec_module(module)
    module.install(os.path.dirname(os.path.dirname(folder)))


def _make_way(here: str) -> None:
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401 - the one that belongs here
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


_here = os.path.dirname(os.path.abspath(__file__))
try:
    _load_hooks(os.path.dirname(_here))
except Exception:
    sys.modules.pop("_roofline_hooks", None)
_make_way(_here)
