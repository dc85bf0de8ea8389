from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.dcgm import reader as dcgm
from roofline_agent.recorded.dcgm.fields import field
from roofline_agent.recorded.dcgm.values import blank
from roofline_agent.recorded.recording import Counter

from .traces import format_of, found_in, warned

GPU = 'gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"'


def found(content: str) -> Collector:
    return found_in(content, dcgm.read)


def only(content: str) -> Counter:
    (one,) = found(content).counters
    return one


@pytest.mark.parametrize(
    ("event", "printed", "metric", "value", "unit", "kind"),
    [
        ("DCGM_FI_PROF_SM_ACTIVE", "0.5", "gpu.sm_active", 0.5, "1", "gauge"),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0.25", "gpu.tensor_active", 0.25, "1", "gauge"),
        ("DCGM_FI_PROF_DRAM_ACTIVE", "0.690789", "gpu.dram_active", 0.690789, "1", "gauge"),
        ("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "1e-2", "gpu.fp32_active", 0.01, "1", "gauge"),
        ("DCGM_FI_DEV_GPU_UTIL", "46", "gpu.utilization", 0.46, "1", "gauge"),
        ("DCGM_FI_DEV_POWER_USAGE", "409.692000", "gpu.power_watts", 409.692, "W", "gauge"),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "319159391", "gpu.energy_joules", 319159.391, "J", "total"),
        ("DCGM_FI_DEV_SM_CLOCK", "1.215e+03", "gpu.sm_clock_hz", 1.215e9, "Hz", "gauge"),
        ("DCGM_FI_DEV_FB_USED", "4845", "gpu.memory_used_bytes", 4845 * 2**20, "byte", "gauge"),
        ("DCGM_FI_PROF_PCIE_TX_BYTES", "33011804", "gpu.pcie_tx_bytes", 33011804, "byte/s", "gauge"),
        ("DCGM_FI_PROF_DRAM_UTIL_RATIO", "0.5", "gpu.dram_active", 0.5, "1", "gauge"),
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", "90.5", "gpu.power_watts", 90.5, "W", "gauge"),
        ("DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL", "4096", "gpu.pcie_tx_total_bytes", 4096.0, "byte", "total"),
        ("dcgm_fb_used", "2", "gpu.memory_used_bytes", 2 * 2**20, "byte", "gauge"),
        ("dcgm_gpu_utilization", "100", "gpu.utilization", 1.0, "1", "gauge"),
    ],
)
def test_unit_of_each_field_is_applied(
    event: str, printed: str, metric: str, value: float, unit: str, kind: str
) -> None:
    one = only(f"{event}{{{GPU}}} {printed}\n")
    assert (one.metric, one.event, one.unit, one.kind) == (metric, event, unit, kind)
    assert one.value == pytest.approx(value)
    assert one.printed == float(printed)
    assert one.scope == "gpu 0"


def test_unknown_field_takes_kind_and_unit_from_its_header() -> None:
    one = only(
        "# HELP DCGM_FI_DEV_POWER_VIOLATION Throttling duration due to power constraints (in us).\n"
        "# TYPE DCGM_FI_DEV_POWER_VIOLATION counter\n"
        f"DCGM_FI_DEV_POWER_VIOLATION{{{GPU}}} 2500\n"
    )
    assert (one.metric, one.value, one.unit, one.kind) == (
        "DCGM_FI_DEV_POWER_VIOLATION",
        2.5e-3,
        "s",
        "total",
    )
    assert field("DCGM_FI_DEV_SOMETHING")[:4] == ("DCGM_FI_DEV_SOMETHING", "1", 1.0, "gauge")


def test_rate_that_is_called_a_counter_is_said() -> None:
    name = "DCGM_FI_PROF_PCIE_RX_BYTES"
    got = found(f"# TYPE {name} counter\n{name}{{{GPU}}} 5\n")
    assert warned(got, "bytes a second")
    assert [one.kind for one in got.counters] == ["gauge"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9223372036854775792", "blank"),
        ("9223372036854775793", "not found"),
        ("9223372036854775794", "not supported"),
        ("9223372036854775795", "no permission"),
        ("9.223372036854776e+18", "no value"),
        ("2147483632", "blank"),
        ("2147483635", "no permission"),
        ("140737488355328", "blank"),
        ("140737488355330.000000", "not supported"),
        ("1.40737488355328e+14", "blank"),
    ],
)
def test_codes_for_no_value_are_none(text: str, why: str) -> None:
    assert blank(text) == why
    got = found(f"DCGM_FI_DEV_MEMORY_TEMP{{{GPU}}} {text}\n")
    assert [(one.value, one.printed) for one in got.counters] == [(None, None)]
    assert warned(got, f"DCGM says {why}")


@pytest.mark.parametrize("text", ["2147483631", "2147483636", "9223372036854775791", "0", "-1", "NaN", "1e5"])
def test_other_numbers_are_no_codes(text: str) -> None:
    assert blank(text) == ""


@pytest.mark.parametrize("text", ["NaN", "nan", "+Inf", "-Inf"])
def test_no_number_is_no_value(text: str) -> None:
    got = found(f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}} {text}\n")
    assert [one.value for one in got.counters] == [None]
    assert warned(got, "is no value")


def test_parts_of_a_gpu_are_not_added_to_it() -> None:
    got = found(
        f"DCGM_FI_PROF_SM_ACTIVE{{{GPU}}} 0.9\n"
        f'DCGM_FI_PROF_SM_ACTIVE{{{GPU},GPU_I_PROFILE="1g.5gb",GPU_I_ID="13"}} 0.8\n'
        f'DCGM_FI_PROF_SM_ACTIVE{{{GPU},GPU_I_PROFILE="1g.5gb",GPU_I_ID="3"}} 0.7\n'
    )
    assert [(one.scope, one.value) for one in got.counters] == [
        ("gpu 0", 0.9),
        ("gpu 0 instance 13", 0.8),
        ("gpu 0 instance 3", 0.7),
    ]
    assert got.facts["gpu 0 model"] == "NVIDIA H100 80GB HBM3"


def test_labels_may_hold_blanks_escapes_and_braces() -> None:
    one = only(r'  DCGM_FI_DEV_GPU_TEMP{gpu="3", UUID="a}\"b\\", pod="x,y=\"1\"" , } 61' + "\n")
    assert (one.scope, one.value, one.unit) == ("gpu 3", 61, "degC")


def test_labels_may_be_written_in_any_case_and_the_gpu_as_a_device() -> None:
    got = found('DCGM_FI_DEV_GPU_TEMP{device="nvidia2",hostname="n"} 1\nDCGM_FI_DEV_GPU_TEMP{GPU="4"} 1\n')
    assert [one.scope for one in got.counters] == ["gpu 2", "gpu 4"]
    assert got.facts["host"] == "n"


def test_sample_of_no_gpu_speaks_for_its_own_part() -> None:
    got = found('DCGM_FI_DEV_CPU_UTIL_TOTAL{cpu="1"} 5\nDCGM_FI_DEV_COUNT 8\n')
    assert [one.scope for one in got.counters] == ["cpu 1", "node"]


def test_gpus_of_several_hosts_are_kept_apart() -> None:
    got = found(
        'DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="a"} 1\nDCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="b"} 2\n'
    )
    assert [(one.scope, one.value) for one in got.counters] == [("gpu 0", 1), ("b gpu 0", 2)]
    assert warned(got, "2 hosts")


def test_timestamps_become_seconds_since_the_first() -> None:
    got = found(
        f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}} 60 1700000000500\nDCGM_FI_DEV_GPU_TEMP{{{GPU}}} 61 1700000002000\n"
    )
    assert [one.t_s for one in got.counters] == [0.0, 1.5]
    assert got.started_ns == 1700000000_500_000_000
    assert found(f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}} 60 1700000000.5\n").started_ns == 1700000000_500_000_000


def test_scrapes_without_a_time_are_kept_in_order_and_said() -> None:
    got = found(f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}} 60\n" * 3)
    assert [one.t_s for one in got.counters] == [None] * 3
    assert warned(got, "more than once without a time")


def test_share_beyond_one_is_said() -> None:
    assert warned(found(f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}} 4600\n"), "not between 0 and 1")


def test_nothing_but_zeros_of_the_profiling_fields_is_said() -> None:
    """NVIDIA/DCGM issue 303: all zero while the GPU is busy means missing."""
    idle = f"DCGM_FI_PROF_SM_ACTIVE{{{GPU}}} 0\n"
    assert warned(found(idle * 2), "every profiling field is 0")
    assert not warned(found(idle + f"DCGM_FI_PROF_DRAM_ACTIVE{{{GPU}}} 0.1\n"), "every profiling field")


def test_other_lines_cost_themselves_only() -> None:
    got = found(
        f"...\ngo_goroutines 5\nDCGM_FI_DEV_GPU_TEMP{{{GPU}}} 60\nDCGM_FI_DEV_GPU_TEMP{{{GPU}\n# EOF\n"
    )
    assert [one.value for one in got.counters] == [60]
    assert warned(got, "not a line of the exposition format") and warned(got, "not DCGM's")
    assert [one.line for one in got.warnings] == [1, 2]


def test_text_is_told_by_its_names() -> None:
    assert format_of(f"# HELP go_x y\ngo_x 1\nDCGM_FI_DEV_GPU_TEMP{{{GPU}}} 60\n") == "dcgm-exporter"
    assert dcgm.sniff("We use DCGM_FI_DEV_GPU_TEMP here.\n") == 0
    fields = "DCGM_FI_DEV_SM_CLOCK,  gauge, SM clock (in MHz).\nDCGM_FI_DEV_DEC_UTIL ,     gauge, Decoder.\n"
    assert dcgm.sniff(fields) == 0
    assert dcgm.sniff("DCGM_FI_DEV_GPU_TEMP 41\n") == 95


SAMPLES = st.tuples(
    st.sampled_from(["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_SM_ACTIVE"]),
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8),  # of which GPU
    st.floats(0, 1),
    st.none() | st.integers(1_600_000_000_000, 1_900_000_000_000),  # ms
)
DAMAGE = st.text(alphabet='DCGM_FI{}=",\\ 0123456789.eENaInf+-gpu#', max_size=60).map(
    lambda noise: "?" + noise
)


def exposed(name: str, gpu: str, value: float, at_ms: int | None) -> str:
    escaped = gpu.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}{{gpu="{escaped}",UUID="}}"}} {value!r} {"" if at_ms is None else at_ms}'


@given(st.lists(SAMPLES | DAMAGE, min_size=1, max_size=8))
def test_what_was_exposed_is_read_and_damage_costs_its_own_line(written: list[Any]) -> None:
    got = found("\n".join(one if isinstance(one, str) else exposed(*one) for one in written))
    samples = [one for one in written if not isinstance(one, str)]
    seen = [(one.event, one.scope, one.value) for one in got.counters]
    assert seen == [(name, f"gpu {gpu}", value) for name, gpu, value, _ in samples]
    zero = next((at for *_, at in samples if at is not None), None)
    times = [None if at is None or zero is None else (at - zero) / 1e3 for *_, at in samples]
    assert [one.t_s for one in got.counters] == pytest.approx(times, abs=1e-6)
    (damaged,) = [one for one in got.warnings if "not a line" in one.text] or [None]
    lines = [at for at, one in enumerate(written, 1) if isinstance(one, str)]
    assert (damaged and (damaged.line, damaged.times)) == ((lines[0], len(lines)) if lines else None)


# dcgmi dmon

DMON = """#Entity   SMACT        DRAMA        PCITX        FBUSD        POWER
ID                                  (B/s)        (MB)         (W)
GPU 0     N/A          0.500        1000         2            80.5
GPU-I 1   0.250        0.000        0            1            N/A
GPU 1     1.000        0.125        5            3            90.0
#Entity   SMACT        DRAMA        PCITX        FBUSD        POWER
ID                                  (B/s)        (MB)         (W)
GPU 0     0.750        0.625        2000         2            81.5
GPU 1     0.5
"""


def test_table_of_dcgmi_dmon_is_read_row_by_row() -> None:
    assert format_of(DMON) == "dcgm-exporter"
    got = found(DMON)
    assert got.tool == "dcgmi dmon"
    values = {(one.metric, one.scope): one.value for one in list(got.counters)[:15]}
    assert values["gpu.sm_active", "gpu 0"] is None
    assert values["gpu.dram_active", "gpu 0"] == 0.5
    assert values["gpu.sm_active", "gpu 0 instance 1"] == 0.25
    assert values["gpu.pcie_tx_bytes", "gpu 1"] == 5.0
    assert values["gpu.memory_used_bytes", "gpu 0"] == 2 * 2.0**20
    assert values["gpu.power_watts", "gpu 0 instance 1"] is None
    assert [one.value for one in got.counters if one.metric == "gpu.sm_active"] == [None, 0.25, 1.0, 0.75]
    for words in ("SMACT: N/A is no value", "prints no times", "another number of values"):
        assert warned(got, words)


@pytest.mark.parametrize("stamp", ["", "2024-05-01 10:00:00 "])
def test_values_with_blanks_cost_no_row_of_dcgmi_dmon(stamp: str) -> None:
    lines = [
        "#Entity   DVNAM                 POWER       ",
        "ID                              W           ",
        "GPU 0     NVIDIA H100 80GB...   80.500      ",
        "GPU-I 12  NVIDIA H100           N/A         ",
        "GPU 1     NVIDIA",
    ]
    got = found("".join(f"{stamp}{line}\n" for line in lines))
    assert [(one.event, one.scope, one.value) for one in got.counters] == [
        ("DVNAM", "gpu 0", None),
        ("POWER", "gpu 0", 80.5),
        ("DVNAM", "gpu 0 instance 12", None),
        ("POWER", "gpu 0 instance 12", None),
    ]
    assert warned(got, "DVNAM: NVIDIA H100 80GB... is no value")
    assert warned(got, "another number of values")


def test_codes_for_no_value_in_dcgmi_dmon_are_no_values() -> None:
    got = found("#Entity GPUTL POWER\nID\nGPU 0 9223372036854775794 140737488355328.000\nGPU 1 50 90.5\n")
    assert [one.value for one in got.counters] == [None, None, 0.5, 90.5]
    assert warned(got, "GPUTL: 9223372036854775794 is no value")


def test_instance_keeps_the_gpu_of_its_first_row_of_dcgmi_dmon() -> None:
    """`-i i:0,1,i:7` prints no row of GPU 0, which the first instance is of."""
    reading = "GPU-I 0 0.1\nGPU 1 0.2\nGPU-I 7 0.3\nvGPU 3 0.4\n"
    got = found(f"#Entity SMACT\nID\n{reading}{reading}")
    scopes = ["instance 0", "gpu 1", "gpu 1 instance 7", "vgpu 3"]
    assert [one.scope for one in got.counters] == scopes * 2


def test_times_that_were_put_before_the_rows_of_dcgmi_dmon_are_taken() -> None:
    rows = ["#Entity TENSO", "ID", "GPU 0 0.1", "GPU 0 0.3"]
    stamped = [f"2024-05-01 10:00:0{second} {row}" for second, row in enumerate(rows)]
    got = found("\n".join(stamped))
    assert [(one.t_s, one.value) for one in got.counters] == [(0.0, 0.1), (1.0, 0.3)]
    assert got.started_ns == int(datetime(2024, 5, 1, 10, 0, 2).timestamp()) * 10**9
    assert not got.warnings


def test_dcgmi_dmon_of_a_gpu_that_does_nothing_says_that_zero_may_be_missing() -> None:
    assert warned(
        found("# Entity  GRACT  TENSO\n      Id\n    GPU 0  0.000  0.000\n"), "every profiling field is 0"
    )
