"""The state of a job, where Slurm has a word in it."""

from __future__ import annotations

import pytest
from roofline_server.sentences.exits import by_slurm


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        ("COMPLETED", "0", "finished (exit 0)"),
        ("FAILED", "3", "failed: Slurm says FAILED (exit 3)"),
        ("TIMEOUT", "0:15", "failed: Slurm says TIMEOUT (exit 0:15)"),
        ("NODE_FAIL", "", "failed: Slurm says NODE_FAIL"),
        ("CANCELLED", "0:15", "ended: Slurm says CANCELLED"),
        ("REQUEUED", "", "ended: Slurm says REQUEUED"),
    ],
)
def test_words_for_what_slurm_says(state: str, code: str, words: str) -> None:
    assert by_slurm(state, code) == words
