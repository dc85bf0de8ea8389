"""In processes of their own: clients' tests need pandas in this one, and its threads have begun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PARQUET = """
import sys
import {entry}
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
table = pa.table({{"a": pa.array(np.arange(3)), "b": pa.array(np.array(["x"] * 3, object))}})
pq.write_table(table, sys.argv[1])
read = pq.read_table(sys.argv[1])
assert read.column("a").to_numpy().tolist() == [0, 1, 2]
print("pandas" in sys.modules, pa.default_memory_pool().backend_name == "system")
"""

# glibc's own arenas of threads would keep 27 MB of this. After the large ones it gives less back by itself.
THREADS = """
from roofline_server import lean
lean.begin()
import threading
import numpy as np, psutil
from roofline_server.allocator import give_back
def rss(): return psutil.Process().memory_info().rss
empty = rss()
def work():
    kept = [np.ones(1_500) for _ in range(3_000)]
    large = [np.ones(4 << 20) for _ in range(2)]
    del large
    more = [np.ones(100_000) for _ in range(60)]
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
give_back()
assert rss() - empty < 12e6, rss() - empty
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "is_lean"),
    [
        ("roofline_server.__main__", True),
        ("roofline_server.store.sealing.__main__", True),
        ("roofline_server.cli", False),  # else the others say nothing
    ],
)
def test_server_uses_arrow_without_pandas_and_its_allocator(
    entry: str, is_lean: bool, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", PARQUET.format(entry=entry), str(tmp_path / "file")]
    bare = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=bare)
    assert ended.stdout.split() == [str(not is_lean), str(is_lean)]


def test_memory_that_threads_used_goes_back() -> None:
    subprocess.run([sys.executable, "-c", THREADS], check=True, timeout=60)
