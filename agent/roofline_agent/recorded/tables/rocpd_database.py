"""A database of rocprofv3 (rocpd, the default of ROCm 7) as the text of the tables that it writes as CSV.

Dispatches whose counters were collected are in the table of counters, the others in that of kernels. Tables
have the id of their run at the end of their names; merged databases have those of several runs.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterator

_DISPATCHES = "rocpd_kernel_dispatch"
_RUN = re.compile(_DISPATCHES + r"(_\w+)")
# What is read, by version 3 of the schema (share/rocprofiler-sdk-rocpd/rocpd_tables.sql in rocprofiler-sdk).
_NEEDED = {
    _DISPATCHES: "id pid agent_id kernel_id dispatch_id start end event_id "
    "grid_size_x grid_size_y grid_size_z workgroup_size_x workgroup_size_y workgroup_size_z",
    "rocpd_info_kernel_symbol": "id kernel_name display_name",
    "rocpd_info_agent": "id absolute_index",
    "rocpd_info_process": "id pid",
    "rocpd_pmc_event": "event_id pmc_id value",
    "rocpd_info_pmc": "id name",
    "rocpd_memory_copy": "start end name_id",
    "rocpd_string": "id string",
}
_KERNEL = """'Agent ' || a.absolute_index, p.pid, coalesce(s.display_name, s.kernel_name)"""
_OF_KERNEL = """rocpd_kernel_dispatch{0} k
    JOIN rocpd_info_kernel_symbol{0} s ON s.id = k.kernel_id
    JOIN rocpd_info_agent{0} a ON a.id = k.agent_id
    JOIN rocpd_info_process{0} p ON p.id = k.pid"""
_COUNTERS_HEADER = """Dispatch_Id,Agent_Id,Process_Id,Kernel_Name,Grid_Size,Workgroup_Size,Counter_Name,\
Counter_Value,Start_Timestamp,End_Timestamp
"""
_COUNTERS = f"""SELECT k.dispatch_id, {_KERNEL}, k.grid_size_x * k.grid_size_y * k.grid_size_z,
    k.workgroup_size_x * k.workgroup_size_y * k.workgroup_size_z, i.name, sum(e.value), k.start, k.end
    FROM {_OF_KERNEL} JOIN rocpd_pmc_event{{0}} e ON e.event_id = k.event_id
    JOIN rocpd_info_pmc{{0}} i ON i.id = e.pmc_id
    GROUP BY k.id, i.name ORDER BY p.pid, k.dispatch_id, k.id, min(e.pmc_id)"""
_KERNELS_HEADER = """Kind,Dispatch_Id,Agent_Id,Process_Id,Kernel_Name,Start_Timestamp,End_Timestamp,\
Workgroup_Size_X,Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z
"""
_KERNELS = f"""SELECT 'KERNEL_DISPATCH', k.dispatch_id, {_KERNEL}, k.start, k.end,
    k.workgroup_size_x, k.workgroup_size_y, k.workgroup_size_z, k.grid_size_x, k.grid_size_y, k.grid_size_z
    FROM {_OF_KERNEL} WHERE k.event_id IS NULL
    OR k.event_id NOT IN (SELECT event_id FROM rocpd_pmc_event{{0}} WHERE event_id IS NOT NULL)
    ORDER BY k.start"""
_COPIES_HEADER = "Kind,Direction,Start_Timestamp,End_Timestamp\n"
_COPIES = """SELECT 'MEMORY_COPY', n.string, m.start, m.end FROM rocpd_memory_copy{0} m
    JOIN rocpd_string{0} n ON n.id = m.name_id ORDER BY m.start"""
_TABLES = ((_COUNTERS_HEADER, _COUNTERS), (_KERNELS_HEADER, _KERNELS), (_COPIES_HEADER, _COPIES))


def runs_in(database: sqlite3.Connection) -> list[str]:
    """What stands at the end of the names of the tables of each run; none where it is no such database."""
    tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = (_RUN.fullmatch(one) for one in tables)
    return sorted(one[1] for one in found if one is not None)


def is_known(database: sqlite3.Connection, runs: Collection[str]) -> bool:
    """Whether its tables have the columns that are read."""
    return all(
        {row[1] for row in database.execute(f'PRAGMA table_info("{table}{run}")')}.issuperset(names.split())
        for run in runs
        for table, names in _NEEDED.items()
    )


def text_of(
    database: sqlite3.Connection,
    runs: Collection[str],
    as_csv: Callable[[sqlite3.Cursor], Iterator[str]],
) -> Iterator[str]:
    """The tables as CSV, those that have rows, some lines at a time."""
    for header, query in _TABLES:
        is_first = True
        for run in runs:
            for some in as_csv(database.execute(query.format(run))):
                yield header + some if is_first else some
                is_first = False
