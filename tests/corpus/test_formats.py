"""Each file of the corpus is told by its content, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.recorded.traces import claimed
from tests.recordings import FORMATS, corpus_files

pytestmark = pytest.mark.corpus

FOLDERS = FORMATS | {"tf_cnn": "training log"}


def format_of(path: Path) -> str:
    """What a file is; "" for a program's own output and for what others made of a recording."""
    if "stream" in path.name and "stdout" in path.name:
        return "stream"
    if "hpl" in path.name and "stdout" in path.name:
        return "hpl"
    return "" if "app_stdout" in path.name or "published" in path.name else FOLDERS[path.parent.name]


@pytest.mark.parametrize("path", corpus_files(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_file_is_claimed_by_its_own_format_alone(path: Path) -> None:
    assert claimed(path) == {format_of(path)} - {""}
