"""What reading a large recorded file costs: memory, which must not follow its size, and time."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from . import libraries
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
    ("dram__bytes.sum", "Mbyte"),
    ("gpu__time_duration.sum", "usecond"),
    ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst"),
)


def read_large_file() -> Result:
    """Files of 400 MB by `import --dry-run`, next to what a library takes that reads the same file and does
    nothing with it: CPU time of whole processes, as other programs disturb it less."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "recording")
        figures = {}
        for name, head, block, tail in KINDS:
            _write(path, head, block, tail)
            rate, mb = _cost([str(COMMANDS / "roofline-agent"), "import", "--dry-run", str(path)], path)
            alone = [sys.executable, libraries.__file__, str(path)]
            bare = {one: _cost([*alone, one], path)[0] for one in (("orjson",) if tail else TABLE)}
            figures[name] = rate, mb, bare
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
        values = f"{launch % 777}.50", f"{2000 + launch % 999:,}.00", f"{3000000 + launch % 4999:,}"
        for metric, value in zip(METRICS, values, strict=True):
            cells = (
                str(launch),
                f"kernel_{launch % 50}",
                "0",
                "8.0",
                "Command line profiler metrics",
                *metric,
                value,
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
    """Kernels and, every tenth row, a copy; names of templates are in quotes."""
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


def _write(path: Path, head: str, block: Callable[[int], str], tail: str) -> None:
    """tail: of a list of objects, each of which has a comma behind it."""
    with path.open("w") as file:
        file.write(head)
        for number in count():
            if file.tell() >= SIZE:
                break
            file.write(block(number))
        if tail:
            file.seek(file.tell() - 1)
            file.write(tail)


def _cost(command: Sequence[str], path: Path) -> tuple[float, float]:
    """(MB/s, peak memory in MB), measured by a small process: a child begins with the size of its parent."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, check=True
    )
    kilobytes, cpu_s = done.stdout.split()
    return path.stat().st_size / 1e6 / float(cpu_s), int(kilobytes) / 1024


def _nvidia_smi(number: int) -> str:
    """Eight GPUs, four times a second."""
    rows = []
    for at in range(number * LINES, (number + 1) * LINES):
        seconds, quarter = divmod(at // 8, 4)
        moment = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{quarter * 250:03}"
        memory, power = 40_000 + at % 8 * 100 + at // 5000 % 7, at * 7919 % 70_000 / 100
        gauges = f"{at % 101} %, {at % 97} %, {memory} MiB, {power:.2f} W"
        gauges += f", {1000 + at % 9} MHz, {30 + at % 50}"
        rows.append(f"2024/05/{1 + seconds // 86400 % 28:02} {moment}, {at % 8}, {gauges}")
    return "\n".join(rows) + "\n"


def _rocprof_trace(number: int) -> str:
    rows = []
    for at in range(number * LINES, (number + 1) * LINES):
        begin = 90_754_858_086_907 + at * 20_000
        name = f"void gemm_{at % 50}<float, {at % 5}>(float const*, int)"
        rows.append(
            f'"KERNEL_DISPATCH","Agent 1","2","2","3985093","{at}","{at % 50}","{name}","{at}",'
            f'"{begin}","{begin + 2000 + at % 7777}","0","0","16","0","128",'
            f'"256","1","1","{at % 9 * 1024}","1","1"'
        )
    return "\n".join(rows) + "\n"


def _rocprof_counters(number: int) -> str:
    """Ten rows of a dispatch each."""
    rows = []
    for at in range(number * LINES // 10, (number + 1) * LINES // 10):
        begin = 90_754_858_086_907 + at * 20_000
        start = f'"{at}","{at}","Agent 1","2","3985140","3985140","131072","{at % 50}"'
        start += f',"void gemm_{at % 50}<float, {at % 5}>(float const*, int)","1024","0","0","16","0","128"'
        for place, counter in enumerate(COUNTERS):
            value = at * (place + 1) % 99_999
            rows.append(f'{start},"{counter}","{value}.000000","{begin}","{begin + 2000 + at % 7777}"')
    return "\n".join(rows) + "\n"


def _rocprof_json(number: int) -> str:
    records = []
    for at in range(number * LINES, (number + 1) * LINES):
        begin = 90_754_858_086_907 + at * 20_000
        records.append(
            f'{{"size":184,"kind":11,"operation":2,"thread_id":77,"correlation_id":{{"internal":{at},'
            f'"external":0}},"start_timestamp":{begin},"end_timestamp":{begin + 2000 + at % 7777},'
            f'"dispatch_info":{{"size":72,"agent_id":{{"handle":2}},"queue_id":{{"handle":2}},'
            f'"kernel_id":{at % 50},"dispatch_id":{at},"private_segment_size":0,"group_segment_size":0,'
            f'"workgroup_size":{{"x":256,"y":1,"z":1}},"grid_size":{{"x":{at % 9 * 1024},"y":1,"z":1}}}},'
            f'"stream_id":{{"handle":0}}}},'
        )
    return "".join(records)


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
    return "".join(f"\n{json.dumps(one | {'pid': 1, 'tid': 1}, indent=2)}," for one in events)


TRACE = '{"schemaVersion": 1, "traceEvents": ['
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
SMI = (
    "timestamp, index, utilization.gpu [%], utilization.memory [%], memory.used [MiB], power.draw [W], "
    "clocks.sm [MHz], temperature.gpu\n"
)
ROCPROF_TRACE = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
    '"Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count",'
    '"Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X",'
    '"Grid_Size_Y","Grid_Size_Z"\n'
)
ROCPROF_COUNTERS = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
    '"Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count",'
    '"SGPR_Count","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
)
COUNTERS = (
    *(f"SQ_INSTS_VALU_{kind}_F32" for kind in ("ADD", "MUL", "FMA", "TRANS", "MFMA_MOPS")),
    *(f"TCC_EA0_{one}_sum" for one in ("RDREQ", "RDREQ_32B", "WRREQ", "WRREQ_64B")),
    "SQ_WAVES",
)
SYMBOLS = [
    {"kernel_id": at, "formatted_kernel_name": f"void gemm_{at}<float>(float const*)"} for at in range(50)
]
ROCPROF_JSON = (
    '{"rocprofiler-sdk-tool":[{"metadata":{"pid":77},"agents":[{"id":{"handle":2},"type":2,"node_id":1}],'
    f'"kernel_symbols":{json.dumps(SYMBOLS)},"buffer_records":{{"kernel_dispatch":['
)
TABLE = ("python_csv", "pyarrow_csv")
KINDS = (
    ("ncu", HEADER, _ncu, ""),
    ("ncu raw", RAW_HEADER, _ncu_raw, ""),
    ("nsys", NSYS, _nsys, ""),
    ("perf -I", "", _perf, ""),
    ("nvidia-smi", SMI, _nvidia_smi, ""),
    ("rocprofv3 kernels", ROCPROF_TRACE, _rocprof_trace, ""),
    ("rocprofv3 counters", ROCPROF_COUNTERS, _rocprof_counters, ""),
    ("rocprofv3 JSON", ROCPROF_JSON, _rocprof_json, "]}}]}\n"),
    ("pytorch", TRACE, _trace, "]}\n"),
)
