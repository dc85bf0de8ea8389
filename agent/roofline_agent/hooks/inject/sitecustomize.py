"""Python imports this at start when its folder is on PYTHONPATH: by `roofline-agent run`, or for a whole
cluster (`roofline-agent hooks`).

It waits for a framework to be imported and loads the hooks only then, because most Python processes train
nothing; it keeps libraries from printing our lines into the user's files; and it imports the sitecustomize
that would have been imported without us. Errors stay in here: the program starts as if nothing had happened.
With ROOFLINE_DISABLE=1 it only imports that other sitecustomize, and has `roofline_step` found, which then
sends nothing: a training that marks its steps still runs.

Any Python runs this, so it is written in what Python 2.7 knows, too. Before 3.7 there are no hooks.
"""

import os
import stat
import sys

TYPE_CHECKING = False  # importing typing would take longer than all of this
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - in comments

# The first part of each name in hooks.HOOKS, and what training code imports to mark steps itself.
AWAITED = (
    "tensorflow",
    "keras",
    "torch",
    "jax",
    "horovod",
    "accelerate",
    "deepspeed",
    "lightning",
    "pytorch_lightning",
    "safetensors",
    "transformers",
    "roofline_step",
)


class _RooflineWaiting:
    """A meta path finder that finds nothing; at the first import of a framework the hooks take its place."""

    def __init__(self, folder):
        # type: (str) -> None
        self._folder = folder

    def find_spec(self, name, path=None, target=None):
        # type: (str, Any, Any) -> Any
        if name not in AWAITED or self not in sys.meta_path:
            return None
        try:
            sys.meta_path.remove(self)
        except ValueError:  # another thread's import was first, and has loaded them or is at it
            return None
        try:
            _silence_elsewhere()  # the training may have moved its stdout since it started
            hooks = _load_hooks(self._folder)
            if name == "roofline_step":
                # The hooks have loaded it, for programs in whose environment it is not installed.
                return _spec_of_loaded(name)
            # The import going on asks only the finders behind this one; that of the hooks comes before.
            return hooks.find_spec(name)
        except Exception:
            sys.modules.pop("_roofline_hooks", None)
            _let_through(self._folder)
            if os.environ.get("ROOFLINE_DEBUG"):
                import traceback

                traceback.print_exc()
            return None


class _RooflineStepAlone:
    """A meta path finder of `roofline_step`, for programs in whose environment it is not installed."""

    def __init__(self, folder):
        # type: (str) -> None
        self._folder = folder

    def find_spec(self, name, path=None, target=None):
        # type: (str, Any, Any) -> Any
        if name != "roofline_step":
            return None
        import importlib.machinery

        return importlib.machinery.PathFinder.find_spec(
            name, [os.path.dirname(os.path.dirname(self._folder))]
        )


class _Loaded:
    """An import loader of a module that is loaded already."""

    def __init__(self, module):
        # type: (Any) -> None
        self._module = module

    def create_module(self, spec):
        # type: (Any) -> Any
        # The import system writes its own spec into what it gets.
        self._spec = self._module.__spec__
        return self._module

    def exec_module(self, module):
        # type: (Any) -> None
        module.__spec__, module.__loader__ = self._spec, self._spec.loader


def _spec_of_loaded(name):
    # type: (str) -> Any
    import importlib.machinery

    # Out of sys.modules, or the import system would load it again by its own spec, and the hooks would know
    # another module than the training. It puts back what the loader gives it.
    module = sys.modules.pop(name)
    loader = _Loaded(module)  # type: Any
    return importlib.machinery.ModuleSpec(name, loader, is_package=hasattr(module, "__path__"))


def _load_hooks(folder):
    # type: (str) -> Any
    """The finder of the hooks, on sys.meta_path."""
    import importlib.util

    path = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(
        "_roofline_hooks", path, submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["_roofline_hooks"] = module
    spec.loader.exec_module(module)
    return module.install(os.path.dirname(os.path.dirname(folder)))


def _let_through(folder):
    # type: (str) -> None
    """Raise again what a signal's handler has raised while the hooks were loaded: that is the training's."""
    import importlib.util

    try:  # roofline_step, which knows, is perhaps not loaded yet
        path = os.path.join(os.path.dirname(os.path.dirname(folder)), "roofline_step", "_signals.py")
        spec = importlib.util.spec_from_file_location("_roofline_signals", path)
        assert spec is not None and spec.loader is not None
        signals = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(signals)
    except Exception:
        return
    signals.raise_again()


def _wait_for_framework(folder):
    # type: (str) -> None
    if sys.version_info < (3, 7):
        return
    # Unless this was done already: the folder may be on the path twice, by two names.
    finders = sys.meta_path  # type: Any
    ours = ("_RooflineWaiting", "_RooflineStepAlone")
    if "_roofline_hooks" in sys.modules or any(type(finder).__name__ in ours for finder in finders):
        return
    if os.environ.get("ROOFLINE_DISABLE", "") in ("", "0"):
        finders.insert(0, _RooflineWaiting(folder))
    else:
        finders.append(_RooflineStepAlone(folder))


def _import_users_own(here):
    # type: (str) -> None
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or os.curdir) != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401 - the one without us
    except ImportError as error:
        # Python 2 names it in the text only.
        if getattr(error, "name", str(error).split()[-1]) != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


def _prints_to_wrapper():
    # type: () -> bool
    try:
        status = os.fstat(1)
    except OSError:  # it is closed, and may become any file
        return False
    if "%d:%d" % (status.st_dev, status.st_ino) == os.environ.get("ROOFLINE_STDOUT"):
        return True
    # A launcher in the wrapper passes on what its ranks print, to a pipe or a terminal of its own.
    launched = os.environ.get("ROOFLINE_LAUNCHED", "").split(",")
    passed_on = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode) or os.isatty(1)
    return passed_on and any(name in os.environ for name in launched)


def _silence_elsewhere():
    # type: () -> None
    # The wrapper has libraries print what they execute, and takes that out of its stream again. Out of a
    # file or another pipe (`python train.py >log`, `x=$(python ...)` in a wrapped script) nobody would.
    names = os.environ.get("ROOFLINE_SWITCHES")
    if not names or _prints_to_wrapper():
        return
    os.environ.pop("ROOFLINE_SWITCHES")
    for name in names.split(","):
        os.environ.pop(name, None)


_here = os.path.dirname(os.path.realpath(__file__))
_silence_elsewhere()
_wait_for_framework(os.path.dirname(_here))
_import_users_own(_here)
