"""A store that is closed while its disk fails keeps what it holds for the next start."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from roofline_server.records import rows

from ..builders import Node, open_store, rank, training


def test_store_closes_though_its_last_sealing_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(tmp_path)
    node = Node("a")
    node.greet(store)
    node.put(store, *training([rank()]))
    seen = store.view("job")
    in_the_way = tmp_path / "segments"
    in_the_way.write_text("a file where a folder should be")
    with caplog.at_level(logging.ERROR):
        store.close()
    assert "cannot seal at the end" in caplog.text
    in_the_way.unlink()
    again = open_store(tmp_path)
    found = again.view("job")
    assert seen is not None
    assert found is not None
    assert rows(found.steps["steps"]) == rows(seen.steps["steps"]) > 0
    again.close()
    assert list(in_the_way.rglob("*.parquet")), "sealed by the next one"
