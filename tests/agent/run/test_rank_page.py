"""A rank is asked for notes of borders as long as they are of use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks import NOTES, Marker
from roofline_agent.hooks.kernel_switch import FEWER_AT, OTHERS
from roofline_agent.hooks.wrapper import mapped_page
from roofline_agent.run.output import OutputStream
from roofline_agent.run.rank_page import ENOUGH, RankPage
from roofline_agent.verbose import VerboseFilter

from tests.fakes import AGENT, FakeAgent, clean_environ


@pytest.fixture
def output() -> Any:
    made = OutputStream(os.open(os.devnull, os.O_WRONLY), VerboseFilter(), None)
    yield made
    os.close(made.child_end)
    os.close(made.source)


def noted(output: OutputStream, environ: dict[str, str], stdout: int, before: Any = lambda: None) -> bytes:
    """What a rank with this environment writes at a border, its fd 1 being `stdout`."""
    step = SimpleNamespace(said_by_training=lambda: False, send_step=lambda *_: None, BORDER=3)
    marker = Marker(step, {"ROOFLINE_STDOUT": output.identity, **environ})
    before()
    kept = os.dup(1)
    os.dup2(stdout, 1)
    try:
        marker.border(1)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    os.set_blocking(output.source, False)
    try:
        return os.read(output.source, 100)
    except BlockingIOError:
        return b""


def test_notes_are_written_until_they_are_not_wanted(output: OutputStream) -> None:
    notes = RankPage()
    assert noted(output, notes.environ, output.child_end).startswith(b"roofline_verbose,mark,")
    assert notes.want_notes(ENOUGH - 1)
    assert noted(output, notes.environ, output.child_end)
    assert noted(output, notes.environ, output.child_end, lambda: notes.want_notes(ENOUGH)) == b""
    assert noted(output, notes.environ, output.child_end, lambda: notes.want_notes(0))
    unread = noted(output, notes.environ, output.child_end, lambda: notes.want_notes(0, reads=False))
    assert unread == b"", "while nobody reads the lines that they place"
    notes.close()


@pytest.mark.parametrize("environ", [{}, {NOTES: "/nowhere"}, {NOTES: os.devnull}])
def test_without_the_wrappers_word_notes_are_written(output: OutputStream, environ: dict[str, str]) -> None:
    assert noted(output, environ, output.child_end)


def test_nothing_is_written_elsewhere(output: OutputStream, tmp_path: Path) -> None:
    with open(tmp_path / "users", "wb") as file:
        assert noted(output, {}, file.fileno()) == b""
    assert (tmp_path / "users").read_bytes() == b""


def test_stream_that_was_opened_anew_is_known_by_its_file(output: OutputStream) -> None:
    again = os.open(f"/proc/self/fd/{output.child_end}", os.O_WRONLY)
    assert noted(output, {}, again)
    os.close(again)


def test_wrapper_ends_the_notes_of_a_rank_without_mkl(tmp_path: Path) -> None:
    code = (
        "import mmap, os, sys, time\n"
        "byte = mmap.mmap(os.open(os.environ['ROOFLINE_NOTES'], os.O_RDONLY), 1, prot=mmap.PROT_READ)\n"
        "assert byte[0] == 1\n"
        f"os.write(1, b'roofline_verbose,mark,1700000000000000000\\n' * {ENOUGH})\n"
        "until = time.monotonic() + 20\n"
        "while byte[0] and time.monotonic() < until: time.sleep(0.01)\n"
        "print('ended' if not byte[0] else 'goes on')\n"
    )
    with FakeAgent(tmp_path / "agent.sock") as agent:
        done = subprocess.run(
            [*AGENT, "run", "--", sys.executable, "-c", code],
            env=clean_environ(ROOFLINE_SOCKET=str(agent.path)),
            capture_output=True,
            timeout=60,
            check=True,
        )
    assert done.stdout == b"ended\n"


def test_hooks_read_what_the_agent_asks_for() -> None:
    page = RankPage()
    asked = mapped_page(page.environ[NOTES])
    for fewer in (4, 1):
        page.ask_for_fewer(fewer)
        assert OTHERS.unpack_from(asked, FEWER_AT) == (fewer,)
    page.show_cost(0.001)
    assert OTHERS.unpack_from(asked, FEWER_AT) == (1,)
    page.close()
