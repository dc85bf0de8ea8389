"""What reading a large recorded file costs: memory, which must not follow its size, and time."""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from .site import COMMANDS, Result

SIZE = 400 << 20
LINES = 2000
MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
HEADER = '"ID","Kernel Name","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
METRICS = (
    ("dram__bytes.sum", "Mbyte", "1.50"),
    ("gpu__time_duration.sum", "usecond", "2,000.00"),
    ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst", "3,000,000"),
)


def read_large_file() -> Result:
    """A file of ncu and one of perf, 400 MB each, through `import --dry-run`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "recording")
        figures = {}
        for name, head, block in (("ncu", HEADER, _ncu), ("perf -I", "", _perf)):
            _write(path, head, block)
            figures[name] = (*_import(path), _csv(path))
    text = ", ".join(f"{name} {rate:.0f} MB/s {mb:.0f} MB" for name, (rate, mb, _) in figures.items())
    beside = ", ".join(f"{name} {rate / bare:.2f}" for name, (rate, _, bare) in figures.items())
    met = all(mb <= 200 for _, mb, _ in figures.values())
    return Result(
        "import --dry-run of 400 MB",
        "200 MB at any size",
        text,
        met,
        f"of the speed of Python's csv alone: {beside}",
    )


def _ncu(number: int) -> str:
    rows = []
    for launch in range(number * LINES, (number + 1) * LINES):
        for metric in METRICS:
            cells = (
                str(launch),
                f"kernel_{launch % 50}",
                "0",
                "8.0",
                "Command line profiler metrics",
                *metric,
            )
            rows.append(",".join(f'"{cell}"' for cell in cells))
    return "\n".join(rows) + "\n"


def _perf(number: int) -> str:
    events = ("cycles", "instructions", "fp_arith_inst_retired.256b_packed_single")
    seconds = range(1 + number * LINES, 1 + (number + 1) * LINES)
    return "".join(
        f"{n}.000000000;{n * 7};;{event};1000000000;100.00;;\n" for n in seconds for event in events
    )


def _write(path: Path, head: str, block: Callable[[int], str]) -> None:
    with path.open("w") as file:
        file.write(head)
        for number in count():
            if file.tell() >= SIZE:
                return
            file.write(block(number))


def _import(path: Path) -> tuple[float, float]:
    """(MB/s, peak memory in MB), measured by a small process: a child begins with the size of its parent."""
    command = [str(COMMANDS / "roofline-agent"), "import", "--dry-run", str(path)]
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, check=True
    )
    return path.stat().st_size / 1e6 / (time.monotonic() - begin), int(done.stdout) / 1024


def _csv(path: Path) -> float:
    """MB/s of splitting the lines and doing nothing with them."""
    begin = time.monotonic()
    with path.open(newline="") as file:
        for _ in csv.reader(file, delimiter=";"):
            pass
    return path.stat().st_size / 1e6 / (time.monotonic() - begin)
