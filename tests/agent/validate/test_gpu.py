"""Known work on a GPU, against a stand-in for CUDA's driver: no GPU is available where the tests run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from roofline_agent.recorded.recording import Launch
from roofline_agent.validate import by_ncu
from roofline_agent.validate.by_ncu import BYTES, FLOPS, observed
from roofline_agent.validate.child import gpu
from roofline_agent.validate.judging import Observation
from roofline_agent.validate.validation import Unchecked

# A kernel takes a microsecond a count; events note the time, and the log has every call that counts.
DRIVER = r"""
#include <stdio.h>
#include <stdint.h>
#include <string.h>
typedef uint64_t u64;
static double now;
static double at[4];
static long events;
static int fma;
#define OK(name, ...) int name(__VA_ARGS__) { return 0; }
OK(cuInit, unsigned f) OK(cuDeviceGet, int *d, int n) OK(cuDevicePrimaryCtxRetain, void **c, int d)
OK(cuCtxSetCurrent, void *c) OK(cuEventSynchronize, void *e) OK(cuCtxSynchronize, void)
int cuModuleLoadData(void **m, const char *ptx) { return strstr(ptx, ".entry roofline_fma") ? 0 : 218; }
int cuModuleGetFunction(void **f, void *m, const char *name) {
  *f = (void *)(strstr(name, "fma") ? 1L : 2L);
  return 0;
}
int cuEventCreate(void **e, unsigned f) { *e = (void *)++events; return 0; }
int cuEventRecord(void *e, void *s) { at[(long)e] = now; return 0; }
int cuEventElapsedTime(float *ms, void *a, void *b) { *ms = at[(long)b] - at[(long)a]; return 0; }
int cuMemAlloc_v2(u64 *p, size_t n) {
  *p = 4096;
  fprintf(stderr, "allocate %zu\n", n);
  return n > FREE ? 2 : 0;
}
int cuMemFree_v2(u64 p) { fprintf(stderr, "free %llu\n", (unsigned long long)p); return 0; }
int cuMemAllocHost_v2(void **p, size_t n) { *p = (void *)8192; return 0; }
static int copied(u64 to, u64 from, size_t n) {
  fprintf(stderr, "to %llu from %llu %zu\n", (unsigned long long)to, (unsigned long long)from, n);
  return 0;
}
int cuMemcpyHtoD_v2(u64 to, void *from, size_t n) { return copied(to, (u64)from, n); }
int cuMemcpyDtoH_v2(void *to, u64 from, size_t n) { return copied((u64)to, from, n); }
int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c,
                   unsigned shared, void *stream, void **arguments, void *extra) {
  u64 out = *(u64 *)arguments[0], count = *(u64 *)arguments[1];
  if (out != 4096 || x != 2048 || y * z * b * c != 1 || a != 256 || shared || stream || extra) return 1;
  if ((long)f == 1) now += count / 1000.0;
  fprintf(stderr, "launch %ld %llu\n", (long)f, (unsigned long long)count);
  return 0;
}
"""
WORK = """
import json
from roofline_agent.validate.child import gpu
from roofline_agent.validate.child.done import Cannot
work = gpu.GpuWork()
gpu.BURST_S, gpu.time.sleep = 0.1, lambda s: None
try:
    print(json.dumps([[work.prepare(name), work.do(name)] for name in NAMES] + [work.prepare("gpu.busy")]))
except Cannot as error:
    print(json.dumps(str(error)))
"""


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("needs a compiler")
    return tmp_path


def done(folder: Path, *names: str, free: int = 1 << 40) -> tuple[object, list[str]]:
    """What the works answer, and what the driver was asked for."""
    (folder / "cuda.c").write_text(DRIVER)
    build = ["gcc", f"-DFREE={free}ul", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", folder / "cuda.c"]
    subprocess.run(build, check=True)
    run = subprocess.run(
        [sys.executable, "-c", WORK.replace("NAMES", repr(names))],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout, run.stderr
    return json.loads(run.stdout), run.stderr.splitlines()


def test_gpu_is_busy_for_as_long_as_its_own_clock_says(driver: Path) -> None:
    answers, asked = done(driver, "gpu.busy")
    assert isinstance(answers, list)
    prepared, quantities = answers[0]
    assert prepared and quantities["busy_s"][0] == pytest.approx(gpu.BURSTS * 0.1, rel=0.01)
    assert quantities["busy_ns"][0] == pytest.approx(1e9, rel=0.01)
    launches = [line.split() for line in asked if line.startswith("launch")]
    assert [words[2] for words in launches[-gpu.BURSTS :]] == ["100000"] * gpu.BURSTS


def test_bytes_on_a_gpu_are_those_that_were_asked_for(driver: Path) -> None:
    answers, asked = done(driver, "gpu.fill", "gpu.copy", "gpu.memory")
    assert isinstance(answers, list)
    (_, filled), (again, copied), (_, allocated), freed = answers
    assert not again, "it is ready since the first work"
    assert filled["filled_bytes"][0] == gpu.FILLS * (1 << 30)
    assert asked.count(f"launch 2 {(1 << 30) // 4}") == gpu.FILLS, "a word of 4 bytes each"
    assert copied["to_gpu_bytes"] == copied["from_gpu_bytes"] == [1 << 30, 1 << 30, 0]
    assert f"to 4096 from 8192 {1 << 30}" in asked and f"to 8192 from 4096 {1 << 30}" in asked
    assert allocated["memory_bytes"][0] == 512 << 20 and f"allocate {512 << 20}" in asked
    assert freed and asked[-1] == "free 4096"


def test_what_a_gpu_cannot_do_is_said_with_cudas_number(driver: Path) -> None:
    answer, _ = done(driver, "gpu.busy", free=1 << 20)
    assert answer == "cuMemAlloc_v2 failed on the first GPU (CUDA error 2)"


def test_flops_of_the_kernel_are_those_of_its_code() -> None:
    fma, fill = gpu.PTX.decode().split(".visible .entry")[1:]
    loop = fma.partition("AGAIN:")[2].partition("bra AGAIN")[0]
    assert (loop.count("fma.rn.f32"), fma.count("fma.rn.f32"), fma.count("add.f32")) == (8, 8, 7)
    assert "f32" not in fill
    assert gpu.ONCE_FLOPS == 256 * 2048 * (16 * gpu.ONCE_TURNS + 7)


def test_counts_of_ncu_are_those_of_our_kernel_alone() -> None:
    launches = [
        Launch("roofline_fma", 1e-3, 0.8 * gpu.ONCE_FLOPS, {"dram": 5e3}),
        Launch("roofline_fill", 1e-3, 0.0, {"dram": 1.01 * gpu.FILLED}),
        Launch("other", 1e-3, 1e9, {"dram": 1e9}),
    ]
    flops = observed(FLOPS, launches)
    assert isinstance(flops, Observation) and flops.error == pytest.approx(-0.2)
    moved = observed(BYTES, launches)
    assert isinstance(moved, Observation) and moved.error == pytest.approx(0.01)
    assert observed(FLOPS, launches[1:]) is None
    assert observed(BYTES, [launches[1]._replace(bytes={})]) is None


def test_without_ncu_nothing_is_claimed(tmp_path: Path) -> None:
    (only,) = by_ncu.check({"PATH": str(tmp_path)}, 1, lambda text: None, lambda: 7)
    assert isinstance(only, Unchecked)
    assert only.source == "ncu" and only.reason and only.time_ns == 7
