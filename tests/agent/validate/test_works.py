"""Which works are done for which sources, and what the kernels of `calibrate` come to."""

from __future__ import annotations

import pytest
from roofline_agent.calibrate.assembled import peaks, streams
from roofline_agent.calibrate.kernels import Form
from roofline_agent.records import SourceSettings
from roofline_agent.sources import make_sources
from roofline_agent.validate import spinning
from roofline_agent.validate.child.done import Amount
from roofline_agent.validate.child.kernels import bytes_of, instructions_of
from roofline_agent.validate.child.storage import file_system
from roofline_agent.validate.works import TRAFFIC, WORKS, FlopForm, flop_works, possible

SCALAR, WIDE = Form("fma", 32, "f32"), Form("avx512f", 512, "f64")


def test_only_works_that_something_shows_are_done() -> None:
    metrics = {"tcp": ["tcp_sent_bytes"], "network": ["nic_sent_bytes"], "process": ["cpu_ns"]}
    assert [work.name for work in possible(WORKS, metrics)] == ["spin", "sleep", "tcp"]
    (tcp,) = possible(WORKS, metrics, only=("tcp", "rapl"))
    assert [one.metric for one in tcp.expectations] == ["tcp_sent_bytes"]


def test_every_expectation_names_a_metric_of_its_source() -> None:
    made = make_sources((), SourceSettings())
    for work in WORKS:
        for one in work.expectations:
            if one.source in made:
                assert one.metric in {metric.name for metric in made[one.source].counter_set.metrics}, one


def test_flops_of_a_width_are_expected_where_a_cpu_counts_them_together_too() -> None:
    (work,) = flop_works([FlopForm("f32", "512", True)])
    amd = possible([work], {"perf": ["flops.all.all", "cycles"]})[0]
    intel = possible([work], {"perf": ["flops.f32.512", "flops.f64.512"]})[0]
    assert [one.metric for one in amd.expectations] == ["flops.all.all", "cycles"]
    assert [one.metric for one in intel.expectations] == ["flops.f32.512"]
    assert (work.name, FlopForm("f64", "scalar", False).work) == ("flops.f32.512", "flops.f64.scalar.mul_add")


def test_instructions_of_a_turn_are_those_in_its_machine_code() -> None:
    # 48 multiply-adds a turn, by one instruction or two, or three where a product overwrites a factor.
    assert instructions_of(peaks.peak_kernel(WIDE)) == 48 + 2
    assert instructions_of(peaks.peak_kernel(WIDE, fused=False)) == 96 + 2
    assert instructions_of(peaks.peak_kernel(SCALAR)) == 48 + 2
    assert instructions_of(peaks.peak_kernel(Form("sse2", 128, "f32"))) == 144 + 2


@pytest.mark.parametrize(
    ("operation", "streaming", "read", "written"),
    [("read", False, 8, 0), ("triad", True, 16, 8), ("triad", False, 24, 8), ("copy", True, 8, 8)],
)
def test_bytes_on_the_memory_bus(operation: str, streaming: bool, read: int, written: int) -> None:
    kernel = streams.stream_kernel(WIDE, operation, streaming)
    moved = 1000.0 * kernel.bytes_per_element
    found = bytes_of(kernel, moved, True)
    assert found["dram_read_bytes"] == Amount(1000 * read, 1000 * read)
    assert found["dram_written_bytes"] == Amount(1000 * written, 1000 * written or moved)
    assert found["dram_bytes"] == Amount(1000 * (read + written), 1000 * (read + written))
    assert bytes_of(kernel, moved, False) == dict.fromkeys(found, Amount(0.0, moved))


def test_traffic_is_expected_of_every_source_that_counts_dram() -> None:
    sources = {one.source for work in TRAFFIC for one in work.expectations}
    assert sources == {"perf", "perf_system", "likwid", "resctrl"}


MOUNTS = """\
20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
21 20 0:5 / /dev/shm rw - tmpfs tmpfs rw
22 20 0:6 / /scratch\\040disk rw,relatime shared:1 - xfs /dev/sdb rw
23 20 0:7 / /var rw - ext4 /dev/sdc rw
24 23 0:8 / /var rw - tmpfs tmpfs rw
nonsense
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/x", "ext4"),
        ("/dev/shm/a", "tmpfs"),
        ("/dev/shmem", "ext4"),
        ("/scratch disk/a", "xfs"),
        ("/var/lib", "tmpfs"),
    ],
)
def test_file_system_of_a_folder(path: str, kind: str) -> None:
    assert file_system(path, MOUNTS) == kind


def test_spinning_thread_knows_how_long_it_had_a_cpu_by_the_clock_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Ten readings 10 us apart, a gap of 3 ms, ten more.
    readings = iter([*range(0, 100_000, 10_000), *range(3_090_000, 3_200_000, 10_000)])
    monkeypatch.setattr(spinning.time, "perf_counter_ns", lambda: next(readings))
    assert spinning.spin(150_000) == Amount(150_000, 150_000, 50_000)
