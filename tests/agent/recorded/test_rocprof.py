"""Tables of AMD's profilers: several files of one run, columns of older versions, several GPUs."""

from __future__ import annotations

import io
import json
import re
import sqlite3
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from roofline_agent.recorded import reader
from roofline_agent.recorded.command import import_files
from roofline_agent.recorded.errors import NotReadable
from roofline_agent.recorded.request import ImportRequest
from roofline_agent.recorded.tables import rocprof

from tests.recordings import OURS

from .traces import found_in, warned

TRACE, SUMS, COUNTED, COPIES = (
    OURS / "rocprof" / f"{name}.csv"
    for name in ("kernel_trace", "kernel_stats", "counter_collection", "memory_copy_trace")
)
HEADER = (
    "Dispatch_Id,Agent_Id,Process_Id,Kernel_Name,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp"
)
OLD_AND_NEW = ("FetchSize", "WriteSize"), ("FETCH_SIZE", "WRITE_SIZE")
FLOPS = tuple(f"SQ_INSTS_VALU_{kind}_F32" for kind in ("ADD", "MUL", "FMA"))


def imported(*paths: Path) -> dict[Path, dict[str, Any]]:
    """What each file of an import of all of them gives."""
    out = io.StringIO()
    request = ImportRequest(tuple(map(str, paths)), "", "worker", None, 0.0, None, True, "json", "")
    assert import_files(request, out, lambda text: None) == 0
    return {Path(one["file"]): one for one in map(json.loads, out.getvalue().splitlines())}


def launches(*paths: Path) -> dict[str, int]:
    """Of each file that has some."""
    got = imported(*paths).items()
    return {path.name: count for path, one in got if (count := sum(k["launches"] for k in one["kernels"]))}


def counted(path: Path, *names: str, process: int = 42) -> Path:
    """Two dispatches of a kernel, with these counters."""
    rows = (
        f'{dispatch},"Agent 4",{process},gemm,{name},100,{dispatch}000,{dispatch}500'
        for dispatch in (1, 2)
        for name in names
    )
    path.write_text("\n".join((HEADER, *rows, "")))
    return path


def test_kernels_in_several_files_of_a_run_count_once() -> None:
    """As their counters say, else as they were traced."""
    alone = launches(COUNTED)
    for files in permutations((TRACE, SUMS, COUNTED)):
        assert launches(*files) == alone
    got = imported(TRACE, SUMS)
    assert [bool(got[path]["kernels"]) for path in (TRACE, SUMS)] == [True, False]
    assert "sums of kernels are left out" in got[SUMS]["warnings"][0]
    assert launches(SUMS)


def test_sums_of_copies_beside_the_copies_are_left_out(tmp_path: Path) -> None:
    sums = tmp_path / "memory_copy_stats.csv"
    sums.write_text(
        '"Name","Calls","TotalDurationNs"\n"MEMORY_COPY_HOST_TO_DEVICE",1,100\n"hipMalloc",2,50\n'
    )
    names = [phase["name"] for phase in imported(sums, COPIES)[sums]["phases"]]
    assert names == ["hipMalloc"]
    assert len(imported(sums)[sums]["phases"]) == 2


def test_counters_of_several_passes_meet_in_one_kernel(tmp_path: Path) -> None:
    """Each pass is a run, and so a process, of its own."""
    flops, sizes = (
        counted(tmp_path / "a.csv", *FLOPS, "SQ_WAVES"),
        counted(tmp_path / "b.csv", "FETCH_SIZE", "WRITE_SIZE", "SQ_WAVES", process=43),
    )
    for files in permutations((flops, sizes, TRACE)):
        got = imported(*files)
        first = min((flops, sizes), key=files.index)
        assert set(got) == {first, TRACE} and not got[TRACE]["kernels"]
        (gemm,) = got[first]["kernels"]
        assert (gemm["launches"], gemm["time_s"]) == (2, pytest.approx(1e-6))
        assert gemm["flops"] == 2 * (100 + 100 + 2 * 100) * 64
        assert gemm["bytes"]["dram"] == 2 * 2 * 100 * 1024
        waves = [one["value"] for one in got[first]["counters"] if one["event"] == "SQ_WAVES"]
        assert waves == [100, 100], "what both counted is that of one pass"
        assert any("the counters of all passes" in one for one in got[first]["warnings"])


def not_joined(*paths: Path) -> str:
    said: list[str] = []
    request = ImportRequest(tuple(map(str, paths)), "", "worker", None, 0.0, None, True, "json", "")
    assert import_files(request, io.StringIO(), said.append) == 0
    return "".join(said)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (('2,"Agent 4",43,gemm', '2,"Agent 4",43,copy'), "other dispatches than .* of copy, .* one of gemm"),
        (('1,"Agent 4",43,gemm', '1,"Agent 4",44,gemm'), "has several processes"),
        (('1,"Agent 4",43,gemm', '1,"Agent 5",43,gemm'), "other dispatches"),
    ],
)
def test_passes_of_which_it_is_not_certain_what_belongs_together_are_not_joined(
    tmp_path: Path, change: tuple[str, str], why: str
) -> None:
    flops = counted(tmp_path / "a.csv", *FLOPS)
    sizes = counted(tmp_path / "b.csv", "FETCH_SIZE", "WRITE_SIZE", process=43)
    assert not not_joined(flops, sizes)
    sizes.write_text(sizes.read_text().replace(*change))
    assert re.search(f"passes are not joined: .*{why}", not_joined(flops, sizes))
    assert launches(flops, sizes) == {"a.csv": 2}, "each counts once"
    assert "another of the files says more" in imported(flops, sizes)[sizes]["warnings"][0]


def test_passes_that_end_early_or_of_several_processes_are_not_joined(tmp_path: Path) -> None:
    flops = counted(tmp_path / "a.csv", *FLOPS)
    sizes = counted(tmp_path / "b.csv", "FETCH_SIZE", "WRITE_SIZE", process=43)
    other = counted(tmp_path / "c.csv", "FETCH_SIZE", "WRITE_SIZE", process=44)
    assert "of several processes or runs" in not_joined(flops, sizes, other)
    sizes.write_text("".join(sizes.read_text().splitlines(keepends=True)[:-2]))
    assert "b.csv has fewer kernels" in not_joined(flops, sizes)
    assert "b.csv has fewer kernels" in not_joined(sizes, flops)


def test_processes_in_which_the_same_was_counted_all_count(tmp_path: Path) -> None:
    one, other = (counted(tmp_path / f"{at}.csv", *FLOPS, process=at) for at in (42, 43))
    assert launches(one, other) == {"42.csv": 2, "43.csv": 2}
    assert launches(TRACE, one, other) == {"42.csv": 2, "43.csv": 2}


def test_tables_without_kernels_are_named_and_fail_no_import(tmp_path: Path) -> None:
    tables = (
        "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\nA,f,1,1,1,5,9\n",
        "Node_Id,Logical_Node_Id,Agent_Type,Cpu_Cores_Count\n0,0,CPU,64\n",
        "Kind,Operation,Agent_Id,Allocation_Size,Start_Timestamp,End_Timestamp\nA,B,C,5,1,2\n",
        "Sample_Timestamp,Exec_Mask,Dispatch_Id,Instruction\n1,2,3,v_add\n",
    )
    for at, table in enumerate(tables):
        path = tmp_path / f"{at}.csv"
        path.write_text(table)
        got = imported(path, TRACE)
        assert "without kernels" in got[path]["warnings"][0] and got[TRACE]["kernels"]


@pytest.mark.parametrize("path", [TRACE, COUNTED, OURS / "rocprof" / "pmc_perf.csv"])
@pytest.mark.parametrize("is_in_columns", [True, False])
def test_several_gpus_are_named(path: Path, is_in_columns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline_agent.recorded.columns.LEAST", 0 if is_in_columns else 1 << 20)
    for size in ("HEAD_BYTES", "CHUNK_BYTES", "BLOCK_BYTES"):
        monkeypatch.setattr(f"roofline_agent.recorded.text.{size}", 500)
    header, *rows = path.read_text().splitlines()
    agent = next(one for one in ('"Agent 2"', '"Agent 4"', ",4,") if one in rows[0])
    other = [row.replace(agent, agent.replace("2", "9").replace("4", "9")) for row in rows]
    assert not warned(found_in("\n".join((header, *rows * 9, "")), rocprof.read), "GPUs")
    found = found_in("\n".join((header, *rows * 9, *other * 9, "")), rocprof.read)
    assert warned(found, "kernels of 2 GPUs, which may be those of several ranks")


def test_sizes_of_memory_have_one_name(tmp_path: Path) -> None:
    old, new = (counted(tmp_path / f"{names[0]}.csv", *names) for names in OLD_AND_NEW)
    for path in (old, new):
        one = imported(path)[path]
        assert one["kernels"][0]["bytes"]["dram"] == 2 * 2 * 100 * 1024
        assert {c["metric"]: c["unit"] for c in one["counters"]} == {
            "FETCH_SIZE": "byte",
            "WRITE_SIZE": "byte",
        }


def test_database_of_rocprofv3_says_how_to_make_tables_of_it(tmp_path: Path) -> None:
    path = tmp_path / "my results.db"
    with sqlite3.connect(path) as database:
        for table in ("metadata", "kernel_dispatch"):
            database.execute(f"CREATE TABLE rocpd_{table}_00001eca_d4de(id INTEGER)")
    database.close()
    with pytest.raises(NotReadable, match=r"rocpd convert -i '.*my results.db' --output-format csv"):
        reader.read(str(path))


SCHEMA = """
CREATE TABLE rocpd_string{0}(id INTEGER PRIMARY KEY, string TEXT);
CREATE TABLE rocpd_info_process{0}(id INTEGER PRIMARY KEY, pid INTEGER);
CREATE TABLE rocpd_info_agent{0}(id INTEGER PRIMARY KEY, type TEXT, absolute_index INTEGER);
CREATE TABLE rocpd_info_kernel_symbol{0}(id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT);
CREATE TABLE rocpd_info_pmc{0}(id INTEGER PRIMARY KEY, agent_id INTEGER, name TEXT);
CREATE TABLE rocpd_pmc_event{0}(id INTEGER PRIMARY KEY, event_id INTEGER, pmc_id INTEGER, value REAL);
CREATE TABLE rocpd_memory_copy{0}(id INTEGER PRIMARY KEY, start BIGINT, "end" BIGINT, name_id INTEGER);
CREATE TABLE rocpd_kernel_dispatch{0}(id INTEGER PRIMARY KEY, pid INTEGER, agent_id INTEGER,
    kernel_id INTEGER, dispatch_id INTEGER, start BIGINT, "end" BIGINT, event_id INTEGER,
    workgroup_size_x INTEGER, workgroup_size_y INTEGER, workgroup_size_z INTEGER,
    grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER);
CREATE VIEW rocpd_kernel_dispatch AS SELECT * FROM rocpd_kernel_dispatch{0};
CREATE INDEX rocpd_kernel_dispatch{0}_start ON rocpd_kernel_dispatch{0}(start);
INSERT INTO rocpd_string{0} VALUES(1, 'MEMORY_COPY_HOST_TO_DEVICE');
INSERT INTO rocpd_info_process{0} VALUES(1, {1});
INSERT INTO rocpd_info_agent{0} VALUES(1, 'CPU', 0), (2, 'GPU', 4);
INSERT INTO rocpd_info_kernel_symbol{0} VALUES(7, 'gemm.kd', 'gemm(float*, int)'), (8, 'copy.kd', NULL);
INSERT INTO rocpd_memory_copy{0} VALUES(1, 100, 350, 1);
"""  # of ROCm/rocprofiler-sdk, share/rocprofiler-sdk-rocpd/rocpd_tables.sql: the columns that matter here


def rocpd(path: Path, *names: str, process: int = 42) -> Path:
    """Two dispatches of a kernel with these counters, each of two instances, and one of another without."""
    run = f"_{process:08x}_d4de"
    with sqlite3.connect(path) as database:
        database.executescript(SCHEMA.format(run, process))
        for at, kernel in enumerate((7, 7, 8), 1):
            dispatch = (at, 1, 2, kernel, at, 1000 * at, 1000 * at + 500, 10 + at, 64, 1, 1, 256, 2, 1)
            database.execute(
                f"INSERT INTO rocpd_kernel_dispatch{run} VALUES({', '.join('?' * 14)})", dispatch
            )
        for at, name in enumerate(names, 1):
            database.execute(f"INSERT INTO rocpd_info_pmc{run} VALUES(?, 2, ?)", (at, name))
            counted = [(11, at, 30.0), (11, at, 70.0), (12, at, 60.0), (12, at, 40.0)]
            into = f"INSERT INTO rocpd_pmc_event{run}(event_id, pmc_id, value) VALUES(?, ?, ?)"
            database.executemany(into, counted)
    database.close()
    return path


def test_database_of_rocprofv3_gives_kernels_counters_and_copies(tmp_path: Path) -> None:
    path = rocpd(tmp_path / "results.db", *FLOPS, "SQ_WAVES")
    got = imported(path)[path]
    kernels = {one["name"]: one for one in got["kernels"]}
    assert (kernels["gemm(float*, int)"]["launches"], kernels["copy.kd"]["launches"]) == (2, 1)
    assert kernels["gemm(float*, int)"]["flops"] == 2 * (100 + 100 + 2 * 100) * 64
    assert kernels["copy.kd"]["flops"] is None
    assert [(one["event"], one["value"], one["scope"]) for one in got["counters"]] == [
        ("SQ_WAVES", 100, "gpu 4"),
        ("SQ_WAVES", 100, "gpu 4"),
    ]
    (copies,) = got["phases"]
    assert (copies["name"], copies["count"]) == ("copy memory_copy_host_to_device", 1)
    assert copies["time_s"] == pytest.approx(250e-9)


def test_database_of_rocprofv3_without_counters_has_kernels(tmp_path: Path) -> None:
    path = rocpd(tmp_path / "results.db")
    assert launches(path) == {"results.db": 3}


def test_databases_of_several_passes_are_joined(tmp_path: Path) -> None:
    """In each all kernels were counted, and nothing else was traced."""
    flops = rocpd(tmp_path / "a.db", *FLOPS)
    sizes = rocpd(tmp_path / "b.db", "FETCH_SIZE", "WRITE_SIZE", process=43)
    for path, process in ((flops, 42), (sizes, 43)):
        with sqlite3.connect(path) as database:
            for table in ("kernel_dispatch", "memory_copy"):
                where = "WHERE kernel_id = 8" if table == "kernel_dispatch" else ""
                database.execute(f"DELETE FROM rocpd_{table}_{process:08x}_d4de {where}")
        database.close()
    (gemm,) = imported(flops, sizes)[flops]["kernels"]
    assert (gemm["flops"], gemm["bytes"]["dram"]) == (2 * 400 * 64, 2 * 2 * 100 * 1024)


def test_cut_database_of_rocprofv3_says_so(tmp_path: Path) -> None:
    path = rocpd(tmp_path / "results.db", *FLOPS)
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(NotReadable, match=r"malformed|cannot be read"):
        reader.read(str(path))
