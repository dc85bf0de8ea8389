"""A process of its own: in this one clients' tests need pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
import {entry}
from roofline_server import without_pandas
if {keeps_out}:
    without_pandas.keep_out()
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
table = pa.table({{"a": pa.array(np.arange(3)), "b": pa.array(np.array(["x"] * 3, object))}})
pq.write_table(table, sys.argv[1])
read = pq.read_table(sys.argv[1])
assert read.column("a").to_numpy().tolist() == [0, 1, 2]
print("pandas" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "keeps_out", "is_there"),
    [
        ("roofline_server.__main__", False, False),
        ("roofline_server.store.sealing.__main__", True, False),
        ("roofline_server.store.sealing.__main__", False, True),  # else the others say nothing
    ],
)
def test_server_writes_and_reads_without_pandas(
    entry: str, keeps_out: bool, is_there: bool, tmp_path: Path
) -> None:
    code = CODE.format(entry=entry, keeps_out=keeps_out)
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "file")], capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == [str(is_there)]
