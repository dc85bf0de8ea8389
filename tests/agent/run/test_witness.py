"""A witness that cannot tell says why; the wrapper then takes signals for sent to it alone."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator

import pytest
from roofline_agent.run.witness import Witness

# Python 3.12 warns of a fork beside threads, which pytest's workers have; the witness uses none of them.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def witness() -> Iterator[Witness]:
    found = Witness([signal.SIGUSR1])
    yield found
    found.end()


def test_witness_that_lives_has_no_problem(witness: Witness) -> None:
    assert not witness.has_got(signal.SIGUSR1)
    assert witness.problem() == ""


def test_witness_that_was_not_started_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", fork)
    witness = Witness([signal.SIGUSR1])
    assert witness.problem() == "could not be started (Resource temporarily unavailable)"
    assert not witness.has_got(signal.SIGUSR1)
    witness.end()
    assert witness.problem() == "could not be started (Resource temporarily unavailable)"


def test_witness_that_has_ended_is_seen_before_and_at_a_question(witness: Witness) -> None:
    os.kill(witness._pid, signal.SIGKILL)
    os.waitid(os.P_PID, witness._pid, os.WEXITED | os.WNOWAIT)
    assert witness.problem() == "has ended"
    assert not witness.has_got(signal.SIGUSR1)


def test_witness_that_does_not_answer_says_so(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline_agent.run.witness.ANSWER_S", 0.05)
    os.kill(witness._pid, signal.SIGSTOP)
    assert not witness.has_got(signal.SIGUSR1)
    assert witness.problem() == "does not answer"
