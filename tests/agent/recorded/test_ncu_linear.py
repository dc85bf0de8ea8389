"""Launches that are read by the linear form of their table give what reading them one by one gives."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.ncu import reader as ncu
from roofline_agent.recorded.ncu.linear import LaunchReading, linear
from roofline_agent.recorded.ncu.values import number, quick_number
from roofline_agent.recorded.text import Text

HEADER = ["ID", "Kernel Name", "Device", "CC", "Metric Name", "Metric Unit", "Metric Value"]
TIME = ("gpu__time_duration.sum", "usecond")
DRAM = ("dram__bytes.sum", "Mbyte")
FADD, FMUL, FFMA = (
    (f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum", "inst") for op in ("fadd", "fmul", "ffma")
)
HFMA = ("smsp__sass_thread_inst_executed_op_hfma_pred_on.sum", "inst")
TENSOR = ("sm__inst_executed_pipe_tensor.sum", "inst")
DFMA = ("smsp__sass_thread_inst_executed_op_dfma_pred_on.sum", "inst")
TABLES = (
    [TIME, DRAM, FFMA, HFMA, TENSOR],
    [TIME, FFMA, DFMA],
    [TIME, DRAM, FADD, FMUL, FFMA],
    [TIME, FFMA],
    [FFMA, DRAM],
    [TIME, DRAM, FFMA, HFMA, ("x__y.sum", "")],
)


def content(table: list[tuple[str, str]], launches: list[list[str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(HEADER)
    for at, values in enumerate(launches):
        for (name, unit), value in zip(table, values, strict=False):
            writer.writerow([str(at), f"kernel_{at % 2}", "0", "8.0", name, unit, value])
    return out.getvalue()


def read(text: str, chunk: int, monkeypatch: pytest.MonkeyPatch, keeps: bool = False) -> Collector:
    monkeypatch.setattr("roofline_agent.recorded.text.HEAD_BYTES", chunk)
    monkeypatch.setattr("roofline_agent.recorded.text.BLOCK_BYTES", chunk)
    monkeypatch.setattr("roofline_agent.recorded.columns.LEAST", 0)
    monkeypatch.setattr(ncu, "FEW", 1)
    monkeypatch.setattr(ncu, "WORTH_A_FORM", 1)
    found = Collector(keeps)
    ncu.read(Text("t", io.BytesIO(text.encode())), found)
    counters, launches = list(found.counters), list(found.launches or ())
    found.close()
    found.counters, found.launches = counters, launches  # type: ignore[assignment]
    return found


_PLAIN = ["0", "1", "2.5", "1,234,567", "1,000.25"]
_CELLS = st.sampled_from([*_PLAIN * 8, "n/a", "", "3e5", "12 (4; 8)", "50%", "-1"])


@pytest.mark.law
@given(
    table=st.sampled_from(TABLES),
    launches=st.lists(st.lists(_CELLS, min_size=5, max_size=5), min_size=1, max_size=12),
    times=st.sampled_from([1, 4]),
    keeps=st.booleans(),
    most=st.sampled_from([3, 20_000]),
)
def test_blocks_give_what_single_rows_give(
    table: list[tuple[str, str]], launches: list[list[str]], times: int, keeps: bool, most: int
) -> None:
    text = content(table, launches * times)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ncu, "MAX_COUNTERS", most)
        slow = read(text, 64, patch, keeps)  # never a whole row of several in a chunk
        quick = read(text, 1500, patch, keeps)
        patch.setattr("roofline_agent.recorded.ncu.pages.columns", lambda *given, **named: None)
        plain = read(text, 1 << 16, patch, keeps)
    for one in (slow, quick):
        assert [k[:2] for k in one.kernels] == [k[:2] for k in plain.kernels]
        for got, expected in zip(one.kernels, plain.kernels, strict=True):
            assert got.time_s == pytest.approx(expected.time_s)
            assert got.flops == pytest.approx(expected.flops)
            assert dict(got.bytes) == pytest.approx(dict(expected.bytes))
            assert got[5:] == expected[5:]
        assert one.counters == plain.counters
        for launch, expected_launch in zip(one.launches or (), plain.launches or (), strict=True):
            assert launch[1:3] == pytest.approx(expected_launch[1:3])
            assert dict(launch.bytes) == pytest.approx(dict(expected_launch.bytes))
            assert (launch[0], *launch[4:]) == (expected_launch[0], *expected_launch[4:])
        assert sorted((w.text, w.times) for w in one.warnings) == sorted(
            (w.text, w.times) for w in plain.warnings
        )


def test_linear_form_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    whole = ncu._reading
    monkeypatch.setattr(ncu, "_reading", lambda *given: (calls.append(1), whole(*given))[1])
    found = read(content(TABLES[2], [["2", "1", "10", "20", "30"]] * 400), 20_000, monkeypatch)
    assert found.kernels[0].launches == 200
    assert found.kernels[0].flops == pytest.approx(200 * (10 + 20 + 2 * 30))
    assert len(calls) < 120, "the first block, launches at the ends of blocks, and some to find the form"


def test_a_metric_is_no_counter_as_it_was_unreadable_once(monkeypatch: pytest.MonkeyPatch) -> None:
    none, unreadable, good = ["0", "0"], ["1", "n/a"], ["1", "1"]  # a form is found of the second of a kind
    launches = [*[none] * 4, good, none, unreadable, *[none] * 3, good, none]  # two kernels in turns
    assert read(content([TIME, FFMA], launches), 700, monkeypatch).counters == []


def test_what_is_no_sum_has_no_linear_form() -> None:
    def squared(cells: tuple[str, ...]) -> LaunchReading:
        return LaunchReading(float(cells[0]) ** 2, None, {}, "", "", ())

    def noted(cells: tuple[str, ...]) -> LaunchReading:
        return LaunchReading(float(cells[0]), None, {}, "f32", "much" if float(cells[0]) > 10 else "", ())

    def mixed_precision(cells: tuple[str, ...]) -> LaunchReading:
        return LaunchReading(None, float(cells[0]), {}, "f32" if float(cells[0]) > 10 else "f64", "", ())

    def left(cells: tuple[str, ...]) -> list[str]:
        return []

    assert linear(["a"], squared, left, ()) is None
    assert linear(["a"], noted, left, ()) is None
    mixed = linear(["a"], mixed_precision, left, ())
    assert mixed is not None and mixed.precision == ""
    assert (
        linear(
            ["a__path_tensor"],
            lambda cells: LaunchReading(float(cells[0]), None, {}, "", "", ()),
            left,
            (),
        )
        is None
    )


@pytest.mark.law
@given(st.one_of(_CELLS, st.text(alphabet="0123456789,.% -e()", max_size=12)))
def test_quick_number_is_the_number(text: str) -> None:
    if "%" not in text:
        assert quick_number(text) == number(text)
        assert quick_number(text, True) == number(text, True)
