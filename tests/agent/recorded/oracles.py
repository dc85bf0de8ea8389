"""The numbers that the recorded files of other tools must give, kept beside the project and never in it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"


class Oracle(NamedTuple):
    """One expected number: `value` recomputed from the file, `published` what its source prints."""

    file: str
    quantity: str
    value: float
    unit: str
    published: float | None
    rel_tol: float

    def __str__(self) -> str:
        return f"{self.file}-{self.quantity}"


@cache
def all_oracles() -> tuple[Oracle, ...]:
    path = CORPUS / "oracles.json"
    if not path.exists():
        return ()
    listed = json.loads(path.read_text())
    return tuple(
        Oracle(o["file"], o["quantity"], o["value"], o["unit"], o["published"], o["rel_tol"]) for o in listed
    )


def oracles(folder: str) -> list[Oracle]:
    """The oracles of one folder of the corpus; without a corpus none, and so no test."""
    return [one for one in all_oracles() if one.file.startswith(f"{folder}/")]


def corpus(file: str) -> str:
    """Path of a corpus file; skips the test where there is no corpus."""
    path = CORPUS / file
    if not path.exists():
        pytest.skip("the corpus of recorded files is not here")
    return str(path)


def meets(oracle: Oracle, found: float | None) -> bool:
    """Whether a number is the oracle's within its tolerance."""
    if found is None:
        return False
    return abs(found - oracle.value) <= max(oracle.rel_tol, 1e-6) * abs(oracle.value)
