"""What reading a large recorded file costs: memory, which must not follow its size, and time."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pyarrow
from pyarrow import csv as arrow_csv

from .site import COMMANDS, Result

SIZE = 400 << 20
LINES = 2000
MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss, used.ru_utime + used.ru_stime)
"""
HEADER = '"ID","Kernel Name","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
METRICS = (
    ("dram__bytes.sum", "Mbyte", "1.50"),
    ("gpu__time_duration.sum", "usecond", "2,000.00"),
    ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst", "3,000,000"),
)


def read_large_file() -> Result:
    """Files of ncu, nsys, perf and PyTorch's profiler, 400 MB each, by `import --dry-run`; beside what a
    library takes that reads the same file and does nothing with it. CPU time: other programs disturb it
    less."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "recording")
        figures = {}
        for name, head, block, libraries in KINDS:
            _write(path, head, block)
            figures[name] = (*_import(path), {one.__name__.strip("_"): one(path) for one in libraries})
    text = ", ".join(f"{name} {rate:.0f} MB/s {mb:.0f} MB" for name, (rate, mb, _) in figures.items())
    beside = ", ".join(
        f"{name} {rate / bare:.2f} of {library}"
        for name, (rate, _, bares) in figures.items()
        for library, bare in bares.items()
    )
    met = all(mb <= 200 and rate >= 0.5 * max(bares.values()) for rate, mb, bares in figures.values())
    return Result("import --dry-run of 400 MB", "200 MB at any size, half the speed of", text, met, beside)


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


def _ncu_raw(number: int) -> str:
    """A row is a launch, of 20 metrics; every second kernel has no FP64, none has FP16."""
    rows = []
    for launch in range(number * LINES, (number + 1) * LINES):
        start = (
            str(launch),
            "77",
            "app",
            f"kernel_{launch % 50}(int, float *)",
            "1",
            "7",
            "(64, 1, 1)",
            "(9, 1, 1)",
        )
        counts = [f"{(launch % 1000 + 1) * (metric + 1) * 1000:,}" for metric in range(9)]
        counts[3 if launch % 2 else 6 :] = ["0"] * (6 if launch % 2 else 3)
        moved = [f"{launch % 777 + metric}.25" for metric in range(9)]
        cells = (*start, "0", "8.0", "4.25", f"{1 + launch % 99}.50", *counts, *moved)
        rows.append(",".join(f'"{cell}"' for cell in cells))
    return "\n".join(rows) + "\n"


def _nsys(number: int) -> str:
    """Kernels and, every tenth row, a copy; names of templates stand in quotes."""
    rows = []
    for at in range(number * LINES, (number + 1) * LINES):
        if at % 10:
            name = f'"void gemm_{at % 50}<float, {at % 5}>(float *, int)"' if at % 2 else f"relu_{at % 50}"
            rest = f"{at},8,1,1,256,1,1,32,0.000,0.001,,,,,NVIDIA A100 (0),1,,7,{name}"
        else:
            rest = f"{at},,,,,,,,,,4.000,20000.0,Pageable,Device,NVIDIA A100 (0),1,,7,[CUDA memcpy HtoD]"
        rows.append(f"{at * 5000},{2000 + at % 777},{rest}")
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
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, check=True
    )
    kilobytes, cpu_s = done.stdout.split()
    return path.stat().st_size / 1e6 / float(cpu_s), int(kilobytes) / 1024


def _csv(path: Path) -> float:
    """MB/s of splitting the lines and doing nothing with them."""
    begin = time.process_time()
    with path.open(newline="") as file:
        for _ in csv.reader(file, delimiter=";" if _has_semicolons(path) else ","):
            pass
    return path.stat().st_size / 1e6 / (time.process_time() - begin)


def _pyarrow(path: Path) -> float:
    """MB/s of pyarrow's, block by block."""
    begin = time.process_time()
    semicolons = _has_semicolons(path)
    options = arrow_csv.ParseOptions(delimiter=";" if semicolons else ",")
    names = arrow_csv.ReadOptions(autogenerate_column_names=semicolons)
    texts = arrow_csv.ConvertOptions(column_types=_text_columns(path))
    for _ in arrow_csv.open_csv(path, read_options=names, parse_options=options, convert_options=texts):
        pass
    return path.stat().st_size / 1e6 / (time.process_time() - begin)


def _has_semicolons(path: Path) -> bool:
    with path.open() as file:
        return ";" in file.readline()


def _text_columns(path: Path) -> dict[str, pyarrow.DataType]:
    """All of a header with names: what a column holds may change below the first block."""
    with path.open(newline="") as file:
        return dict.fromkeys(next(csv.reader(file)), pyarrow.string())


def _orjson(path: Path) -> float:
    """MB/s, all of it in memory."""
    import orjson

    begin = time.process_time()
    orjson.loads(path.read_bytes().rstrip().rstrip(b",") + b"]}")
    return path.stat().st_size / 1e6 / (time.process_time() - begin)


def _trace(number: int) -> str:
    """Events as Kineto writes them: an operator with its shapes, the launch, the kernel."""
    events = []
    for at in range(number * LINES, (number + 1) * LINES):
        ids = {"External id": at, "correlation": at + 1}
        shapes = {"Input Dims": [[64, 16], [16, 48]], "Input type": ["float", "float"], "Ev Idx": at}
        start = at * 100.5
        events += [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": start, "dur": 50.25, "args": ids | shapes},
            {
                "ph": "X",
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "ts": start + 1,
                "dur": 5.5,
                "args": ids,
            },
            {
                "ph": "X",
                "cat": "kernel",
                "name": f"gemm_{at % 50}",
                "ts": start + 9,
                "dur": 20.5,
                "args": ids,
            },
        ]
    return "".join(json.dumps(one | {"pid": 1, "tid": 1}, indent=2) + ",\n" for one in events)


TRACE = '{"schemaVersion": 1, "traceEvents": [\n'
NSYS = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),"
    "Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
)
OPERATIONS = [f"{letter}{operation}" for letter in "fdh" for operation in ("add", "mul", "fma")]
RAW_METRICS = (
    ("dram__bytes.sum", "Mbyte"),
    ("gpu__time_duration.sum", "usecond"),
    *((f"smsp__sass_thread_inst_executed_op_{one}_pred_on.sum", "inst") for one in OPERATIONS),
    *((f"l1tex__t_bytes_pipe_lsu_mem_{at}.sum", "Kbyte") for at in range(9)),
)
RAW_START = (
    "ID",
    "Process ID",
    "Process Name",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
)
RAW_START += ("Device", "CC")
RAW_HEADER = "".join(
    ",".join(f'"{cell}"' for cell in cells) + "\n"
    for cells in (
        (*RAW_START, *(name for name, _ in RAW_METRICS)),
        (*("",) * len(RAW_START), *(unit for _, unit in RAW_METRICS)),
    )
)
KINDS = (
    ("ncu", HEADER, _ncu, (_csv, _pyarrow)),
    ("ncu raw", RAW_HEADER, _ncu_raw, (_csv, _pyarrow)),
    ("nsys", NSYS, _nsys, (_csv, _pyarrow)),
    ("perf -I", "", _perf, (_csv, _pyarrow)),
    ("pytorch", TRACE, _trace, (_orjson,)),
)
