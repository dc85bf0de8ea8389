"""Trying ncu out before it is trusted with a training, with a made-up ncu."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from roofline_agent.ncu import command, diagnosis
from roofline_agent.ncu.session import REPORT_EVERY_S, Session, Unusable, check, read_launches

from tests.fakes import clean_environ, ended

from .fake_ncu import install


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return clean_environ(ROOFLINE_NCU=str(install(tmp_path)), FAKE_NCU_CALLS=str(tmp_path / "calls"))


def calls(tmp_path: Path) -> list[list[str]]:
    return [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]


def proc(root: Path, admins: str) -> str:
    (root / "proc/driver/nvidia").mkdir(parents=True)
    (root / "proc/driver/nvidia/params").write_text(f"RmProfilingAdminOnly: {admins}\n")
    return str(root / "proc")


def test_metrics_are_those_that_a_kernel_of_our_own_was_profiled_with(
    environ: dict[str, str], tmp_path: Path
) -> None:
    ncu, metrics = check(environ, str(tmp_path), str(tmp_path))
    assert ncu == environ["ROOFLINE_NCU"]
    assert "sm__ops_path_tensor_src_bf16_dst_fp32.sum" in metrics
    query, trial = calls(tmp_path)
    assert query == ["--query-metrics"]
    assert trial[-1] == "--trial" and Path(trial[-2]).name == "ncu", "discovery takes it for no rank"
    assert trial[trial.index("--clock-control") + 1] == "none"


def test_list_that_ncu_cannot_count_makes_way_for_a_smaller_one(
    environ: dict[str, str], tmp_path: Path
) -> None:
    _, metrics = check({**environ, "FAKE_NCU": "no-tensor-path"}, str(tmp_path), str(tmp_path))
    assert "sm__inst_executed_pipe_tensor.sum" in metrics
    assert len(calls(tmp_path)) == 3


@pytest.mark.parametrize(
    ("mode", "says"), [("denied", "ERR_NVGPUCTRPERM"), ("busy", "dcgmi profile --pause")]
)
def test_refusal_is_explained_after_one_try(
    environ: dict[str, str], tmp_path: Path, mode: str, says: str
) -> None:
    with pytest.raises(Unusable, match=says):
        check({**environ, "FAKE_NCU": mode}, str(tmp_path), str(tmp_path))
    assert len(calls(tmp_path)) == 2


def test_driver_that_only_lets_administrators_is_not_even_tried(
    environ: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(Unusable, match="NVreg_RestrictProfilingToAdminUsers=0"):
        check(environ, proc(tmp_path, "1"), str(tmp_path))
    assert not (tmp_path / "calls").exists()
    check(environ, proc(tmp_path / "open", "0"), str(tmp_path))


def test_missing_ncu_is_an_error_with_the_way_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match=re.escape(diagnosis.MISSING)):
        check({"ROOFLINE_NCU": str(tmp_path / "none"), "PATH": os.environ["PATH"]}, str(tmp_path))


def test_ncu_that_is_no_program_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "ncu").write_text("no program")
    (tmp_path / "ncu").chmod(0o755)
    with pytest.raises(Unusable, match="cannot be run"):
        check({"ROOFLINE_NCU": str(tmp_path / "ncu"), "PATH": ""}, str(tmp_path), str(tmp_path))


def test_node_without_gpu_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "ncu").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "ncu").chmod(0o755)
    with pytest.raises(Unusable, match=re.escape(diagnosis.NO_GPU)):
        check({"ROOFLINE_NCU": str(tmp_path / "ncu"), "PATH": ""}, str(tmp_path), str(tmp_path))


def test_log_without_table_has_no_kernels(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("==PROF== Connected to process 1\n==WARNING== No kernels were profiled.\n")
    assert read_launches(tmp_path / "log") == []
    assert read_launches(tmp_path / "none") == []


def test_kernels_of_collectives_are_never_run_again() -> None:
    """ncu's expressions are ECMAScript's; what is in ours means the same to Python."""
    words = command.whole("ncu", ["m"], Path("/f"), ["python", "train.py"])
    expression = words[words.index("--kernel-name") + 1].removeprefix("regex:")
    left_out = (
        *("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclKernel_AllGather", "rcclKernel", "nvshmemi_wait"),
        *(
            "NcclSend",
            "one_shot_all_reduce_kernel",
            "twoShotAllReduceKernel",
            "reduce_scatter_v2",
            "allToAll",
        ),
    )
    assert [name for name in left_out if re.fullmatch(expression, name)] == []
    kept = (
        "ampere_sgemm_128x64_nn",
        "reduce_kernel",
        "scatter_gather_elementwise_kernel",
        "ncu_trial",
        "gather",
    )
    assert all(re.fullmatch(expression, name) for name in kept)
    assert words[words.index("--profile-from-start") + 1] == "off"
    assert words[-3:] == ["/f", "python", "train.py"]


CHILD = [sys.executable, "-I", "-S", str(command.HERE)]


def test_program_between_reports_how_the_command_ended(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "alive")
    alive = os.open(tmp_path / "alive", os.O_RDWR)
    for script, status in (("exit 7", 7), ("kill -15 $$", -15)):
        assert subprocess.run([*CHILD, tmp_path, "sh", "-c", script], timeout=60).returncode == status
        assert (tmp_path / "status").read_text() == str(status)
    done = subprocess.run([*CHILD, tmp_path, "/nonexistent"], capture_output=True, timeout=60)
    assert done.returncode == 127 and b"Traceback" not in done.stderr
    os.close(alive)


def test_program_between_passes_pipes_broken_by_others_on(tmp_path: Path) -> None:
    """Python ignores SIGPIPE; the command must not inherit that."""
    os.mkfifo(tmp_path / "alive")
    alive = os.open(tmp_path / "alive", os.O_RDWR)
    done = subprocess.run(
        [*CHILD, tmp_path, "grep", "SigIgn", "/proc/self/status"], capture_output=True, timeout=60
    )
    assert int(done.stdout.split()[1], 16) & (1 << 12) == 0
    os.close(alive)


LIBCUDA = """
#include <string.h>
static int fine;
int cuInit(unsigned flags) { return flags; }
int cuDeviceGet(int *device, int number) { *device = 40 + number; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)7; return device != 40; }
int cuCtxSetCurrent(void *context) { return context != (void *)7; }
int cuModuleLoadData(void **module, const char *image) {
  *module = (void *)8;
  return !strstr(image, ".entry");
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  *function = (void *)9;
  return module != (void *)8 || strcmp(name, "roofline_trial");
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra) {
  fine = function == (void *)9 && gx * gy * gz == 1 && bx * by * bz == 32;
  return !fine || shared || stream || parameters || extra;
}
int cuCtxSynchronize(void) { return !fine; }
"""


def test_trial_launches_one_kernel_through_the_driver(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    (tmp_path / "cuda.c").write_text(LIBCUDA)
    build = ["gcc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", tmp_path / "cuda.c"]
    subprocess.run(build, check=True)
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    assert subprocess.run([*CHILD, "--trial"], env=environ, timeout=60).returncode == 0


def test_trial_without_a_gpu_has_its_own_exit_code() -> None:
    environ = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    if subprocess.run([*CHILD, "--trial"], env=environ, timeout=60).returncode == 0:
        pytest.skip("there is a GPU here")
    assert subprocess.run([*CHILD, "--trial"], env=environ, timeout=60).returncode == 3


def test_user_is_told_of_a_step_that_takes_long() -> None:
    told: list[str] = []
    session = Session("ncu", (), ((20, 20),), told.append)
    begun = time.monotonic_ns() - round((REPORT_EVERY_S + 1) * 1e9)
    with ended(subprocess.Popen(["sleep", "60"])) as profiler:
        for line in (f"20 {begun}\n", f"20 {begun}\n", f"20 {begun} {begun + 1}\n"):
            (session.folder / "windows").write_text(line)
            session.check_progress(profiler)
    session.close()
    assert [line[:44] for line in told] == ["roofline-agent: ncu is at step 20, for 21 s "], "once"
