"""What holds for every test."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import is_hypothesis_test, settings

from tests import recordings

# A busy machine is no fault of the code: no example is timed. `make test` tries few examples of each
# law, the same every time, and `make test-laws` many.
settings.register_profile("quick", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("ROOFLINE_EXAMPLES", "quick"))

# Hundreds of processes are started: else each of them, and of the workers, would compile our sources again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Servers of tests that run at the same time would share these ports, and a page is a process more.
os.environ.setdefault("ROOFLINE_HTTP", "off")
os.environ.setdefault("ROOFLINE_PAGE", "off")

# As the server has it (`lean`), and not mimalloc, which Arrow's wheels take by themselves.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

# A shell that starts `make test` in the background ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    try:
        recordings.corpus_folder(os.environ.get("ROOFLINE_CORPUS"))
    except FileNotFoundError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Eleven thousand tests stay: each search for cycles would look through all of them."""
    gc.collect()
    gc.freeze()


_crashed: set[str] = set()


@pytest.hookimpl(trylast=True, optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport) -> None:
    """A test under which the interpreter crashed (in gRPC, Arrow or numpy: our code is Python) is tried again
    once, with the rest of its file. The summary counts it, and the stacks stand in the output."""
    if crashitem not in _crashed:
        _crashed.add(crashitem)
        report.outcome = "rerun"  # type: ignore[assignment]


@pytest.fixture(autouse=True, scope="module")
def _leaves_nothing() -> Iterator[None]:
    """What a file of tests leaves behind goes before the next begins: what breaks by that is its fault."""
    yield
    gc.collect()


def pytest_report_header(config: pytest.Config) -> str:
    if recordings.CORPUS is None:
        return "corpus: absent, so its tests are left out (ROOFLINE_CORPUS=required makes that an error)"
    return f"corpus: {len(recordings.corpus_files())} recorded files in {recordings.CORPUS}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the laws. Without the corpus its tests are no skips that somebody would have to look into."""
    for one in items:
        if is_hypothesis_test(getattr(one, "function", None)):
            one.add_marker("law")
    if recordings.CORPUS is None:
        config.hook.pytest_deselected(items=[one for one in items if one.get_closest_marker("corpus")])
        items[:] = [one for one in items if not one.get_closest_marker("corpus")]
