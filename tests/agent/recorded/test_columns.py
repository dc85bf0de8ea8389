"""Tables that are read in columns give what reading them line by line gives."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy import array
from roofline_agent.recorded import cells
from roofline_agent.recorded.collector import Collector, RecordLog
from roofline_agent.recorded.columns import WantedColumns, columns
from roofline_agent.recorded.ncu.values import quick_number
from roofline_agent.recorded.perf import reader as perf_stat
from roofline_agent.recorded.recording import Counter, Launch, LaunchColumns
from roofline_agent.recorded.tables import dispatches, nsys, nvidia_smi, rocprof
from roofline_agent.recorded.text import LineBlock, Text

from .reading import Reader

CELL = st.one_of(
    st.sampled_from(["", "1", "2.5", "a, b", 'a "quoted" b', "two\nlines", "x y", "0,0"]),
    st.text(alphabet='ab,;"\n ', max_size=4),
)


@pytest.fixture(autouse=True, scope="module")
def _columns_of_few_lines() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roofline_agent.recorded.columns.LEAST", 0)
        yield


@pytest.mark.law
@given(
    st.lists(st.lists(CELL, min_size=3, max_size=4), min_size=1, max_size=6),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC]),
)
def test_columns_are_those_that_csv_finds(rows: list[list[str]], quoting: Any) -> None:
    out = io.StringIO()
    csv.writer(out, quoting=quoting, lineterminator="\n").writerows(rows)
    lines = out.getvalue()[:-1]
    found = columns(LineBlock(lines.encode()), 3)
    if found is not None:
        parsed = list(csv.reader(lines.split("\n")))
        assert list(map(list, found.rows(0, len(found)))) == parsed
        for at in range(3):
            few = found.distinct(at)
            assert [few.texts[which] for which in few.which] == [row[at] for row in parsed]
        plain = columns(LineBlock(lines.encode()), 3, wanted=WantedColumns(range(3), plain=range(3)))
        assert plain is not None
        for at in range(3):
            for rows in (slice(None), slice(1, None, 2)):
                few, same = found.distinct(at, rows), plain.distinct(at, rows)
                assert [few.texts[one] for one in few.which] == [row[at] for row in parsed[rows]]
                assert (few.texts, few.which.tolist()) == (same.texts, same.which.tolist())
                assert few.texts == list(dict.fromkeys(row[at] for row in parsed[rows]))
        changes = [at for at in range(1, len(parsed)) if parsed[at][1:] != parsed[at - 1][1:]]
        assert found.changes([1, 2], first=False).tolist() == changes


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("1,2\n3,4", [("1", "2"), ("3", "4")]),
        ('1,"a, b"\n3,c', [("1", "a, b"), ("3", "c")]),
        ('1,"a ""b"""\n3,c', [("1", 'a "b"'), ("3", "c")]),
        ("1,\n,nan", [("1", ""), ("", "nan")]),
        ("1,2\n3", None),
        ("1\n2,3,4", None),  # as many cells in all
        ('1,"2\n3",4', None),
        ('1,2\n3,"4', None),  # may go on below
        ("1,2\r3,4", None),
        ("1,2\n\n3,4", None),
        ("a,2", None),  # a header
    ],
)
def test_lines_of_another_width_have_no_columns(lines: str, found: Any) -> None:
    made = columns(LineBlock(lines.encode()), 2, begins=b"0,")
    assert (made and list(map(tuple, made.rows()))) == found


def test_columns_that_are_wanted() -> None:
    made = columns(LineBlock(b"1,x,3.5\n2,y,4"), 3, wanted=WantedColumns([1], [2]))
    assert made is not None
    assert (made.text(1, 1), made.numbers(2).tolist()) == ("y", [3.5, 4.0])
    for wrong in ("", "n/a", "1 2"):
        assert columns(LineBlock(f"1,x,3.5\n2,y,{wrong}".encode()), 3, wanted=WantedColumns([1], [2])) is None


@given(
    st.lists(st.sampled_from(["1", "007", "2.5", "-3", "1,5", "", "n/a"]), min_size=1, max_size=5),
    st.booleans(),
)
def test_likely_numbers_are_read_as_text_where_one_is_none(cells: list[str], is_plain: bool) -> None:
    lines = LineBlock("\n".join(f'x,"{cell}"' for cell in cells).encode())
    plain = [1] if is_plain else []
    found = columns(lines, 2, wanted=WantedColumns([0, 1], plain=plain))
    likely = columns(lines, 2, wanted=WantedColumns([0, 1], plain=plain, likely=[1]))
    assert found is not None and likely is not None
    assert [likely.text(1, row) for row in range(len(cells))] == cells
    assert repr(likely.numbers(1, True).tolist()) == repr(found.numbers(1, True).tolist())
    are_plain = not {"-3", "1,5", "", "n/a"}.intersection(cells)
    assert found.plain_numbers([1]) == ({1} if are_plain else set())


def test_many_texts_and_one_are_not_told_apart_again() -> None:
    rows = [f"{at},a,{at % 3},{at / 8}" for at in range(100)]
    wanted = WantedColumns(range(4))
    for _ in range(2):
        found = columns(LineBlock("\n".join(rows).encode()), 4, wanted=wanted)
        assert found is not None and found.plain(range(4)) == {0, 1, 3}
        assert found.distinct(0).texts == [str(at) for at in range(100)]
        wanted = wanted._replace(plain=found.plain(range(4)))


@given(st.lists(st.sampled_from(["a", "b", "", "ab"]), min_size=1, max_size=3), st.integers(2, 9), st.data())
def test_texts_repeat_where_each_is_that_of_a_step_before(texts: list[str], times: int, data: Any) -> None:
    rows = texts * times
    rows[data.draw(st.integers(0, len(rows) - 1))] = data.draw(st.sampled_from(["a", "b", "", "ab"]))
    block = LineBlock("\n".join(f"{row},x" for row in rows).encode())
    repeats = all(row == before for row, before in zip(rows[len(texts) :], rows, strict=False))
    for plain in ([], [0]):
        found = columns(block, 2, wanted=WantedColumns([0, 1], plain=plain))
        assert found is not None and found.repeats(0, len(texts)) == repeats


@pytest.mark.parametrize(
    "second, are_alike",
    [
        ("777, 1 %, 66.123 W, P8", True),
        ("777, 1 MiB, 66.123 W, P8", False),
        ("777, %, 66.123 W, P8", False),
        ("777, 1 %, 66 W, P8", False),
        ("777, 1 %, 66..1 W, P8", False),
        ("777, 1 %, 6.1 6. W, P8", False),
        ("777, [N/A], 66.1 W, P8", False),
        (f"{'7' * 300}, 1 %, 66.1 W, P8", False),
    ],
)
def test_lines_are_alike_that_differ_in_digits_only(second: str, are_alike: bool) -> None:
    block = LineBlock("\n".join(["1, 22 %, 3.5 W, P0", second, "0, 0 %, 0.0 W, P1"]).encode())
    assert cells.are_lines_alike(block.data, block.ends) == are_alike
    found = columns(block, 4, wanted=WantedColumns(range(4), spare=[1, 2, 3]))
    assert found is not None and found.are_alike == are_alike
    assert found.text(2, 0) == " 3.5 W"


def numbers(cells: list[str], has_groups: bool = False) -> list[float]:
    """The same from the different texts of a column and from each of them."""
    lines = LineBlock("\n".join(f'"{cell}",x' for cell in cells).encode())
    several = [columns(lines, 2, wanted=WantedColumns([0, 1], plain=plain)) for plain in ((), (0,))]
    read = []
    for found in several:
        assert found is not None
        if has_groups:
            found.read_numbers([0])
        read.append(list(found.numbers(0).tolist()))
    assert str(read[0]) == str(read[1])
    return read[0]


@pytest.mark.law
@given(
    st.lists(
        st.one_of(st.text(alphabet="0123456789,.-e", max_size=9), st.integers(0).map("{:,}".format)),
        min_size=1,
    )
)
def test_numbers_are_the_numbers(cells: list[str]) -> None:
    for cell, found in zip(cells, numbers(cells, has_groups=True), strict=True):
        expected = quick_number(cell.removesuffix(".") if "," in cell else cell)
        assert found == expected or (math.isnan(found) and not (cell.isdigit() and len(cell) < 300))
        if expected is not None and "-" not in cell and "e" not in "".join(cells):
            assert found == expected
    for cell, found in zip(cells, numbers(cells), strict=True):
        assert math.isnan(found) or found == float(cell)


def test_numbers_are_found_as_files_have_them() -> None:
    good = ["0", "1,234,567", "2.50", ".5", "5.", "007"]
    assert numbers(good, has_groups=True) == [0, 1234567, 2.5, 0.5, 5, 7]
    assert numbers(["0", "0"], has_groups=True) == [0, 0]
    for wrong in (
        ",,",
        "1,23",
        "12345,678",
        "1,2345,678",
        "",
        "n/a",
        "1.2.3",
        "-1",
        "nan",
        "Infinity",
        "1_0",
        "9" * 400,
        "true",
        "1,234,5",
    ):
        assert [one == one for one in numbers(["1,000", wrong, "2"], has_groups=True)] == [True, False, True]


def test_records_that_nobody_asks_for_are_only_counted() -> None:
    kept, counted = RecordLog(Counter), RecordLog(Counter, keeps=False)
    for log in (kept, counted):
        log.append(Counter("a", "a", 1.0, "1"))
        log.extend([Counter("b", "b", None, "1")], array([0, 0]), {"value": array([2.0, 3.0])})
    assert len(counted) == len(kept) == 3
    assert [one.value for one in kept] == [1.0, 2.0, 3.0]
    assert list(counted) == []


def test_a_block_counts_its_lines_with_and_without_their_ends() -> None:
    block = LineBlock(b"1,2\n3,4\n", line=8)
    assert block.count == 3 == len(block.lines)
    assert block.ends.tolist() == [3, 7]
    assert block.count == 3


def test_lines_begin_behind_the_ends_of_those_before() -> None:
    lines = ["a" * (at % 5) for at in range(300)]
    block = LineBlock("\n".join(lines).encode())
    assert [block.begin(at) for at in range(300)] == [len("\n".join([*lines[:at], ""])) for at in range(300)]


MOMENTS = ["2024/02/29 23:59:59.750", "2024/03/01 00:00:00.001", "2024/03/01 00:00:69.999"]


@pytest.mark.parametrize(
    "other", ["2024/03/01 00:00:70.000", "2024/02/30 00:00:00.000", "2024/03/01 00:00:00;000"]
)
def test_moments_of_many_rows_are_those_of_each(other: str) -> None:
    def moments(texts: list[str]) -> list[float] | None:
        found = columns(LineBlock("\n".join(texts).encode()), 1)
        assert found is not None
        letters = found.letters(0)
        assert letters is not None
        return nvidia_smi.moments_s(letters)

    assert moments(MOMENTS) == [nvidia_smi.moment_s(text) for text in MOMENTS]
    assert nvidia_smi.moment_s(other) is None
    assert moments([*MOMENTS, other]) is None


def test_records_that_are_alike_come_back_in_order() -> None:
    log = RecordLog(Counter)
    first, last = Counter("a", "A", 1.0, "s"), Counter("z", "Z", None, "1")
    log.append(first)
    log.extend([Counter("m", "M", None, "J"), last], array([1, 0, 1]), {"value": array([7.0, 8.0, 9.0])})
    log.append(last)
    middle = [Counter("z", "Z", 7.0, "1"), Counter("m", "M", 8.0, "J"), Counter("z", "Z", 9.0, "1")]
    assert (len(log), list(log)) == (5, [first, *middle, last])
    log.close()


@pytest.mark.parametrize("keeps", [False, True])
def test_launches_in_columns_are_launches(keeps: bool) -> None:
    names, times, moved = ["a", "b", "a"], [0.1, 0.2, 0.3], [1.0, 2.0, 3.0]
    whole, each = Collector(keeps), Collector(keeps)
    like = Launch("", None, precision="f32", library="cuda")
    for found in (whole, each):
        found.launch(Launch("a", 0.7, 5.0, {"dram": 1.0}))
    columns_of = (
        (["b", "none of it", "a"], [2, 2], [0, 2], [0.1, 0.3], [1.0, 3.0], ["p", "r"]),
        (["b"], [0], [1], [0.2], [2.0], ["q"]),
    )
    some = [
        LaunchColumns(
            like,
            those,
            array(which),
            array(places),
            array(took),
            bytes={"dram": array(sizes)},
            problems=problems,
        )
        for those, which, places, took, sizes, problems in columns_of
    ]
    whole.launch_columns(some)
    for name, time_s, size, problem in zip(names, times, moved, "pqr", strict=True):
        each.launch(like._replace(name=name, time_s=time_s, bytes={"dram": size}, problem=problem))
    assert (nearly(whole.kernels), whole.warnings) == (each.kernels, each.warnings)
    assert whole.kernels[0].flops is None and "not every launch of a has flops" in whole.warnings[0].text
    assert list(whole.launches or ()) == list(each.launches or ())
    whole.close()
    each.close()


def nearly(found: Any) -> Any:
    """Equal but for the last digits of sums, which are added up in another order."""
    if isinstance(found, float):
        return pytest.approx(found, rel=1e-12)
    if isinstance(found, dict):
        return {key: nearly(one) for key, one in found.items()}
    if isinstance(found, (list, tuple)):
        same = [nearly(one) for one in found]
        return same if isinstance(found, list) else tuple(same)
    return found


def everything(read: Reader, content: str, keeps: bool) -> tuple[Any, ...]:
    found = Collector(keeps)
    read(Text("made up", io.BytesIO(content.encode())), found)
    # Those that took the same time stand in any order: the last digit of a sum decides.
    kernels = sorted(found.kernels, key=lambda kernel: (kernel.name, kernel.precision, kernel.note))
    kept = (kernels, found.phases, list(found.counters), list(found.launches or ()), found.warnings)
    found.close()
    return (*kept, found.run, found.facts, found.duration_s)


def in_blocks(read: Reader, content: str, keeps: bool, line_by_line: str) -> Iterator[tuple[Any, ...]]:
    """What is found in columns, and line by line."""
    with pytest.MonkeyPatch.context() as patch:
        for size in ("HEAD_BYTES", "CHUNK_BYTES", "BLOCK_BYTES"):
            patch.setattr(f"roofline_agent.recorded.text.{size}", 250)
        yield everything(read, content, keeps)
        patch.setattr(line_by_line, lambda *given: None)
        yield everything(read, content, keeps)


PERF_ROW = st.tuples(
    st.sampled_from([0, 0, 0, 1, 1, 2, -1]),  # intervals since the row before
    st.sampled_from(["0", "12", "345678", "1.25", "<not counted>", "1234567890123"]),
    st.sampled_from(
        ["cycles", "fp_arith_inst_retired.scalar_single", "r20c7", "exe.amx_busy", "duration_time"]
    ),
    st.sampled_from(["100", "0", "77"]),
    st.sampled_from(["100.00", "50.25"]),
    st.sampled_from([";", "1.5;insn per cycle", "2.5;DRAM_BW_Use"]),
)


@pytest.mark.law
@given(st.lists(PERF_ROW, min_size=1, max_size=40), st.booleans())
def test_intervals_of_perf(rows: list[Any], is_regular: bool) -> None:
    lines, at = [], 5
    for number, (step, value, event, runtime, share, metric) in enumerate(rows * 3 if is_regular else rows):
        at = at + (number % len(rows) == 0) if is_regular else max(1, at + step)
        lines.append(f"{at}.000100200;{value};;{event};{runtime};{share};{metric}\n")
    content = "".join(lines)
    quick, plain = in_blocks(perf_stat.read, content, False, "roofline_agent.recorded.perf.lines.columns")
    assert nearly(quick) == plain


NSYS_ROW = st.tuples(
    st.sampled_from(["1000", "25.5", "", "x"]),
    st.sampled_from(["8,1,1,256,1,1", ",,,,,", "8,1,1,32,2,1"]),
    st.sampled_from(
        ["relu", '"gemm<float, 4>(int)"', "[CUDA memcpy HtoD]", "[NVTX a]", "[CUDA graph 1]", '"a ""b"""', ""]
    ),
)


@pytest.mark.law
@given(st.lists(NSYS_ROW, min_size=1, max_size=30), st.booleans())
def test_traces_of_nsys(rows: list[Any], keeps: bool) -> None:
    header = "Start (ns),Duration (ns),GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Bytes (MB),Device,Strm,Name\n"
    lines = (
        f"{900 + 7 * at},{took},{sizes},4.5,A (0),7,{name}\n" for at, (took, sizes, name) in enumerate(rows)
    )
    content = header + "".join(lines)
    quick, plain = in_blocks(nsys.read, content, keeps, "roofline_agent.recorded.tables.rows.columns")
    assert nearly(quick) == plain


ROCPROF_KERNEL = st.tuples(
    st.sampled_from(["40", "25", "-1", ""]),  # ns that it took
    st.sampled_from(['"256","1","1","1024","1","1"', '"64","2","1","128","2","1"']),
    st.sampled_from(["relu", "gemm<float, 4>(int)", ""]),
)


@pytest.mark.law
@given(st.lists(ROCPROF_KERNEL, min_size=1, max_size=30), st.booleans(), st.booleans())
def test_kernels_of_rocprofv3(rows: list[Any], keeps: bool, is_appended: bool) -> None:
    header = '"Kind","Kernel_Name","Start_Timestamp","End_Timestamp","Workgroup_Size_X","Workgroup_Size_Y",'
    header += '"Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
    lines = [
        f'"KERNEL_DISPATCH","{name}","{900 + 70 * at}","{took and 900 + 70 * at + int(took)}",{sizes}\n'
        for at, (took, sizes, name) in enumerate(rows)
    ]
    content = header + "".join(lines) + (header + "".join(lines) if is_appended else "")
    quick, plain = in_blocks(rocprof.read, content, keeps, "roofline_agent.recorded.tables.rows.columns")
    assert nearly(quick) == plain


ROCPROF_COUNTER = st.tuples(
    st.sampled_from([0, 0, 0, 1, 1, 2]),  # dispatches since the row before
    st.sampled_from([*(f"SQ_INSTS_VALU_{kind}_F32" for kind in ("ADD", "MUL", "FMA")), "WAVES", "", "X"]),
    st.sampled_from(["0", "0", "12", "345678", "1.25", "n/a"]),
    st.sampled_from(["relu", "gemm<float, 4>(int)"]),
    st.sampled_from(["Agent 4", "Agent 4", "Agent 5"]),
)


@pytest.mark.law
@given(st.lists(ROCPROF_COUNTER, min_size=1, max_size=40), st.booleans(), st.integers(0, 12))
def test_counters_of_rocprofv3(rows: list[Any], keeps: bool, room: int) -> None:
    header = '"Dispatch_Id","Agent_Id","Process_Id","Kernel_Name","Counter_Name","Counter_Value",'
    lines, at = [header + '"Start_Timestamp","End_Timestamp"\n'], 1
    for step, counter, value, kernel, agent in rows:
        at += step
        times = f"{at * 100},{at * 100 + 7}"
        lines.append(f'{at},"{agent}",42,"{kernel}","{counter}",{value},{times}\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatches, "MAX_COUNTERS", room)
        rows_alone = "roofline_agent.recorded.tables.rows.columns"
        quick, plain = in_blocks(rocprof.read, "".join(lines), keeps, rows_alone)
    assert nearly(quick) == plain


SMI_ROW = st.tuples(
    st.sampled_from(["2024/05/01 12:00:00.125", "2024/05/01 12:01:01.500", "2024/03/31 03:00:00.000", "N/A"]),
    st.sampled_from(["0", "1", "", "GPU-7"]),
    st.sampled_from(["37 %", "[N/A]", "5", "0 %"]),
    st.sampled_from(["250.50 W", "1,5", "[Not Supported]"]),
    st.sampled_from(["P0", "P8"]),
)


@pytest.mark.law
@given(st.lists(SMI_ROW, min_size=1, max_size=30), st.sampled_from(["index", "uuid", "pcie.link.width.max"]))
def test_gauges_of_nvidia_smi(rows: list[Any], gpu: str) -> None:
    header = f"timestamp, {gpu}, utilization.gpu [%], power.draw [W], power.draw.instant [W], pstate\n"
    lines = (f"{row[0]}, {row[1]}, {row[2]}, {row[3]}, 55.0 W, {row[4]}\n" for row in rows)
    content = header + "".join(lines)
    quick, plain = in_blocks(nvidia_smi.read, content, False, "roofline_agent.recorded.tables.rows.columns")
    assert quick == plain


@pytest.mark.law
@given(
    st.lists(SMI_ROW, min_size=1, max_size=3),
    st.lists(st.sampled_from([0, 0, 0, 1, 2]), max_size=30),
    st.sampled_from(["timestamp, index", "index, timestamp", "uuid, name"]),
)
def test_gauges_that_are_counted_are_those_that_are_kept(
    kinds: list[Any], rows: list[int], heads: str
) -> None:
    header = f"{heads}, utilization.gpu [%], power.draw [W], temperature.gpu, pstate\n"
    some = (kinds[at % len(kinds)] for at in rows)
    content = header + "".join(
        f"{row[0]}, {row[1]}, {row[2]}, {row[3]}, {at}, P0\n" for at, row in enumerate(some)
    )
    with pytest.MonkeyPatch.context() as patch:
        for size in ("HEAD_BYTES", "CHUNK_BYTES", "BLOCK_BYTES"):
            patch.setattr(f"roofline_agent.recorded.text.{size}", 250)
        found = [Collector(keep_counters=keeps) for keeps in (True, False)]
        for one in found:
            nvidia_smi.read(Text("made up", io.BytesIO(content.encode())), one)
    kept, counted = ((len(one.counters), one.facts, one.started_ns, one.duration_s) for one in found)
    assert kept == counted


def test_regular_tables_are_read_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the laws above would hold for nothing."""
    monkeypatch.setattr("roofline_agent.recorded.text.BLOCK_BYTES", 1 << 20)

    def used(read: Reader, content: str, what: type, method: str) -> int:
        calls = []
        whole: Callable[..., Any] = getattr(what, method)
        monkeypatch.setattr(what, method, lambda *given: calls.append(whole(*given)) or calls[-1])
        everything(read, content, False)
        return sum(one is not False for one in calls)

    events = ("cycles", "r20c7")
    perf = "".join(f"{at}.000100200;{at};;{event};100;100.00;;\n" for at in range(90_000) for event in events)
    assert used(perf_stat.read, perf, perf_stat.PerfRun, "add_columns") > 2
    rows = "".join(f"{at},5,8,1,1,1,1,1,,A (0),7,k{at % 3}\n" for at in range(90_000))
    header = "Start (ns),Duration (ns),GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Bytes (MB),Device,Strm,Name\n"
    assert used(nsys.read, header + rows, Collector, "launch_columns") > 2
    rows = "".join(f'{at},"Agent 4",7,k{at % 3},A,5,{at * 9},{at * 9 + 7}\n' for at in range(90_000))
    header = "Dispatch_Id,Agent_Id,Process_Id,Kernel_Name,Counter_Name,Counter_Value"
    header += ",Start_Timestamp,End_Timestamp\n"
    assert used(rocprof.read, header + rows, Collector, "launch_columns") > 2
    rows = "".join(f"2024/05/01 12:00:00.125, {at % 8}, {at % 100} %\n" for at in range(90_000))
    assert used(nvidia_smi.read, "timestamp, index, utilization.gpu [%]\n" + rows, RecordLog, "extend") > 2


def test_without_arrow_lines_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline_agent.recorded.columns.HAS_ARROW", False)
    assert columns(LineBlock(b"1,2\n3,4"), 2) is None
