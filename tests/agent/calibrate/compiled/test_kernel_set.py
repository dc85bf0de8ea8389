"""What the compiled library offers is what the machine code offers, and is measured in the same way."""

from __future__ import annotations

import shutil
import struct
from contextlib import closing

import pytest
from roofline_agent.calibrate.assembled.kernel_set import AssembledKernels
from roofline_agent.calibrate.calibration import Ceiling
from roofline_agent.calibrate.compiled.compiler import compile_library
from roofline_agent.calibrate.compiled.kernel_set import CompiledKernels
from roofline_agent.calibrate.hardware import Hardware, this_hardware
from roofline_agent.calibrate.kernel_sets import kernel_set, library_for
from roofline_agent.calibrate.kernels import BLOCK_BYTES, SUMS_OFFSET, Form, constants, cycles_per_stamp
from roofline_agent.calibrate.measure import PARTS, Callbacks, measure
from roofline_agent.calibrate.memory import Buffer
from roofline_agent.calibrate.node import calibrate
from roofline_agent.calibrate.probe import Bench
from roofline_agent.calibrate.runs import RunPlan

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")


@pytest.fixture(scope="module")
def hardware() -> Hardware:
    return this_hardware()


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> CompiledKernels:
    return CompiledKernels(compile_library(tmp_path_factory.mktemp("library")))


def test_every_sum_grows_by_the_products(kernels: CompiledKernels) -> None:
    for precision, code in (("f64", "d"), ("f32", "f")):
        for form in kernels.forms(precision):
            kernel = kernels.peak_kernel(form)
            x, y = struct.unpack_from(f"<{code}", kernel.operands)[0], 1.2345678901234567
            with closing(Buffer(1 << 14)) as buffer, closing(Buffer(BLOCK_BYTES)) as block:
                buffer.write(kernel.operands)
                run = kernels.load(kernel.code)
                sums = buffer.address + len(kernel.operands)
                run(5, buffer.address, sums, 0, 0, block.address)
                content = buffer.read(len(kernel.operands) + kernel.sums_bytes)[len(kernel.operands) :]
                cycles = cycles_per_stamp(block.read(BLOCK_BYTES))
            values = struct.unpack(f"<{kernel.chains * form.lanes}{code}", content)
            expected = 5 * kernel.updates_per_iteration * x * y
            assert values == pytest.approx([expected] * len(values), rel=1e-5)
            assert kernel.flops_per_iteration == 2 * len(values) * kernel.updates_per_iteration
            assert cycles is not None and kernels.stamps_hz() == 1e9


@pytest.mark.parametrize("outer", [False, True])
def test_stream_kernels_fit_the_buffers_of_the_assembled_ones(kernels: CompiledKernels, outer: bool) -> None:
    for operation, arrays in (("read", 1), ("copy", 2), ("triad", 3)):
        kernel = kernels.stream_kernel(operation, operation != "read" and outer, outer)
        assert (kernel.operation, kernel.arrays, kernel.form.precision) == (operation, arrays, "f64")
        assert kernel.form.width <= 256 or not outer
        count = 4 * kernel.block_bytes // 8
        with closing(Buffer(1 << 16)) as memory, closing(Buffer(1024)) as block:
            memory.write(struct.pack(f"<{count}d", *range(count)) * arrays)
            block.write(constants(kernel, 3.0, 4))
            starts = [memory.address + k * 8 * count for k in range(3)]
            kernels.load(kernel.code)(2, 4, *starts, block.address)
            first = struct.unpack(f"<{count}d", memory.read(8 * count))
            sums = struct.unpack_from(f"<{12 * kernel.form.lanes}d", block.read(1024), SUMS_OFFSET)
        factor = {"read": 1, "copy": 1, "triad": 4}[operation]
        assert first == tuple(factor * i for i in range(count))
        assert sum(sums) == (2 * sum(range(count)) if operation == "read" else 0)


@pytest.mark.slow
def test_both_kernel_sets_measure_the_same_ceilings(kernels: CompiledKernels, hardware: Hardware) -> None:
    if hardware.architecture != "x86_64":
        pytest.skip("machine code is made for x86-64 alone")
    small = hardware._replace(cpus=hardware.cpus[:1], available_bytes=64 << 20, caches=())
    plan = RunPlan(run_s=1e-4, repeats=1, caches=4.0, everything=True, sweep_repeats=1, patient=False)
    names = []
    for kernel_set_ in (AssembledKernels(hardware.flags), kernels):
        found: list[Ceiling] = []
        callbacks = Callbacks(found.append, lambda note: None, lambda points: None)
        for part in PARTS:
            measure(part, Bench(small, kernel_set_), plan, callbacks)
        names.append([one.name for one in found if one.precision not in ("f16", "bf16")])
    assert names[0] == names[1]
    assert all("C compiled by" in one.method for one in found)
    assert {one.level for one in found if one.kind == "memory"} == {"dram"}


def test_where_nothing_is_assembled_c_is_compiled(hardware: Hardware) -> None:
    with library_for(hardware._replace(architecture="aarch64")) as library:
        assert library is not None and library.path.exists()
        assert isinstance(kernel_set(hardware, library), CompiledKernels)
    assert not library.path.exists()
    with library_for(hardware._replace(architecture="x86_64")) as library:
        assert library is None


@pytest.mark.slow
def test_calibration_says_that_c_was_compiled() -> None:
    seen: list[Ceiling] = []
    calibration = calibrate(seen.append, "quick", compiled=True)
    assert {"peak.f64.scalar", "peak.f32.128", "dram.read", "dram.triad"} <= {c.name for c in seen}
    assert all("C compiled by" in c.method for c in seen)
    assert all(c.clock_hz for c in seen)
    assert calibration.sweep


def test_forms_are_sorted_from_scalar_to_widest(kernels: CompiledKernels) -> None:
    forms = kernels.forms("f64")
    assert forms[0] == Form("c", 64, "f64") and [f.width for f in forms] == sorted(f.width for f in forms)
