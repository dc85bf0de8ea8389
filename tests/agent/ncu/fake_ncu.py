"""A stand-in for Nsight Compute: starts a command, and writes what ncu would to its log file.

Written out as an executable by `install`; how it behaves is in FAKE_NCU: "denied", "busy", "no-tensor-path",
"dies" (before it starts the command), "slow" (does not come to that), "killed" (after that), "deaf" (keeps
SIGTERM from its command), "late" (refused when the range opens), "shuts" (and ends the command then, as the
real one does), "lingers" (ends long after its command).
"""

from __future__ import annotations

import sys
from pathlib import Path

QUERY = """Device NVIDIA H100 (GH100)
-------------------------- ------- ------- ------------------------------
Metric Name                Metric Type Metric Unit Metric Description
dram__bytes                Counter byte    # of bytes accessed in DRAM
lts__t_bytes               Counter byte    # of bytes requested
l1tex__t_bytes             Counter byte    # of bytes requested
gpu__time_duration         Counter nsecond incremental duration
sm__cycles_elapsed         Counter cycle   # of cycles
dram__cycles_elapsed       Counter cycle   # of cycles
sm__sass_thread_inst_executed_op_ffma_pred_on Counter inst    # of ffma
sm__sass_thread_inst_executed_op_fadd_pred_on Counter inst    # of fadd
sm__sass_thread_inst_executed_op_fmul_pred_on Counter inst    # of fmul
sm__inst_executed_pipe_tensor Counter inst    # of warp instructions
sm__ops_path_tensor_src_bf16_dst_fp32 Counter # of math ops
sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off Counter # of math ops
"""
PROGRAM = """
import json, os, signal, subprocess, sys, time

QUERY = {query!r}
mode = os.environ.get("FAKE_NCU", "")
words = sys.argv[1:]
if os.environ.get("FAKE_NCU_CALLS"):
    with open(os.environ["FAKE_NCU_CALLS"], "a") as file:
        file.write(json.dumps(words) + "\\n")
if words == ["--query-metrics"]:
    print(QUERY)
    sys.exit()
at = next(i for i, word in enumerate(words) if word == sys.executable or "python" in word)
options, command = words[:at], words[at:]
trial = command[-1] == "--trial"
log = open(options[options.index("--log-file") + 1], "w")
metrics = options[options.index("--metrics") + 1].split(",")

def say(line):
    log.write(line + "\\n")
    log.flush()

if mode == "denied":
    say("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
        "Counters on the target device 0.")
    sys.exit(1)
if mode == "busy":
    say("==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool "
        "(like DCGM) is concurrently collecting profiling data.")
    sys.exit(1)
if mode == "no-tensor-path" and any("ops_path" in one for one in metrics):
    say("==ERROR== Failed to find metric sm__ops_path_tensor_src_bf16_dst_fp32.sum")
    sys.exit(1)
if mode == "dies" and not trial:
    sys.exit(1)
if mode == "slow" and not trial:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends at once, as the real one
    print("starting", flush=True)
    time.sleep(60)
status = 0
if not trial:
    child = subprocess.Popen(command)
    say("==PROF== Connected to process %d (/usr/bin/python3)" % child.pid)
    if mode == "killed":
        while not os.path.exists(command[4] + "/pid"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if mode in ("late", "shuts"):
        while not os.path.exists(os.environ["ROOFLINE_NCU_WINDOWS"]):
            time.sleep(0.01)
        say("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")
    if mode == "shuts":
        say("==PROF== Trying to shutdown target application")
        os.kill(int(open(command[4] + "/pid").read()), signal.SIGKILL)
    status = child.wait()
    if mode == "lingers":
        time.sleep(3)
    say("==PROF== Disconnected from process %d" % child.pid)
rows = 1 if trial else int(os.environ.get("FAKE_NCU_ROWS", "0"))
if rows:
    values = {{"gpu__time_duration.sum": ("ns", 2000), "dram__bytes.sum": ("byte", 4096)}}
    values.update({{one: ("cycle/nsecond", 1) for one in metrics if one.endswith("elapsed.avg.per_second")}})
    header = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
              "Block Size", "Grid Size", "Device", "CC", *metrics]
    units = [""] * 11 + [values.get(one, ("", 0))[0] for one in metrics]
    table = [header, units]
    for row in range(rows):
        start = [row, 1, "python", "127.0.0.1", "void gemm_%d<float>(float *, int)" % (row % 2), 1, 7,
                 "(128, 1, 1)", "(8, 1, 1)", 0, "9.0"]
        table.append([*start, *(values.get(one, ("", 100))[1] for one in metrics)])
    for row in table:
        log.write(",".join('"%s"' % cell for cell in row) + "\\n")
log.close()
sys.exit(status % 256)
"""


def install(folder: Path) -> Path:
    """An executable `ncu` in this folder."""
    path = folder / "ncu"
    path.write_text(f"#!{sys.executable}\n" + PROGRAM.format(query=QUERY))
    path.chmod(0o755)
    return path
