"""A `.sqlite` of Nsight Systems (`nsys export --type sqlite`) as the text of its report cuda_gpu_trace, a
`.db` of rocprofv3 as that of its tables.

Rows come as they are asked for; nothing is written, and no more than some rows are in memory.
"""

from __future__ import annotations

import csv
import io
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from . import rocpd_database

MAGIC = b"SQLite format 3\0"
_HEADER = "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Bytes (B),Device,Strm,Name\n"
_COPIES = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 10: "Peer-to-Peer"}
_KERNEL_TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"
_KERNELS = f"""SELECT k.start, k.end - k.start, k.correlationId, k.gridX, k.gridY, k.gridZ, k.blockX,
    k.blockY, k.blockZ, NULL, k.deviceId, k.streamId, s.value FROM {_KERNEL_TABLE} k
    LEFT JOIN StringIds s ON s.id = k.demangledName"""
_GRAPH_TABLE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"  # of graphs that are recorded as a whole, nsys's default
_GRAPHS = f"""SELECT start, end - start, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, deviceId, 0,
    '[CUDA graph ' || graphId || ']' FROM {_GRAPH_TABLE} WHERE graphId IS NOT NULL"""
_NO_GRAPHS = (
    "CUDA graphs were recorded as a whole in columns that are not known, and are left out: "
    "record with --cuda-graph-trace=node"
)
_OF_ROCPROFV3 = (
    "it is a database of rocprofv3 with other tables than are known: make CSV of it (`rocpd convert -i {} "
    "--output-format csv`) and import that, or record with `rocprofv3 --output-format csv`"
)
SEVERAL_PROCESSES = "several processes, which may be several ranks: all are taken for one rank"
_PROCESSES = f"SELECT count(DISTINCT globalPid) FROM {_KERNEL_TABLE}"
_MEMORY = """SELECT start, end - start, correlationId, NULL, NULL, NULL, NULL, NULL, NULL, bytes,
    deviceId, streamId, {} FROM {} ORDER BY start"""
_RANGES = """SELECT n.start, n.end - n.start, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0,
    '[NVTX ' || coalesce(n.text, s.value) || ']' FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId
    WHERE n.end IS NOT NULL AND coalesce(n.text, s.value) IS NOT NULL"""


class TraceOfDatabase(io.RawIOBase):
    """The report, as bytes."""

    def __init__(self, path: str) -> None:
        """Raises OSError, which says what to do, when it is no database of nsys."""
        super().__init__()
        self._lines: Iterator[str] = iter(())
        self._rest = b""
        self._known = "nsys 2020 or later"
        self._database: sqlite3.Connection | None = None
        try:
            self._database = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
            tables = {row[0] for row in self._database.execute("SELECT name FROM sqlite_master")}
        except sqlite3.Error as error:
            self.close()
            raise OSError(f"it cannot be read ({error})") from None
        if runs := rocpd_database.runs_in(self._database):
            if not rocpd_database.is_known(self._database, runs):
                self.close()
                raise OSError(_OF_ROCPROFV3.format(shlex.quote(path)))
            self._lines = rocpd_database.text_of(self._database, runs, _csv)
            self._known = "rocprofv3 that are known"
            return
        if "StringIds" not in tables or not any(one.startswith("CUPTI_ACTIVITY_") for one in tables):
            self.close()
            raise OSError(
                "it has no GPU activities of Nsight Systems: record with --trace=cuda, "
                "then `nsys export --type sqlite`"
            )
        self._lines = self._text(self._database, tables)

    def _text(self, database: sqlite3.Connection, tables: set[str]) -> Iterator[str]:
        if "TARGET_INFO_GPU" in tables:
            names = {row[0] for row in database.execute("SELECT name FROM TARGET_INFO_GPU")}
            yield f"# nsys device: {'; '.join(sorted(map(str, names)))}\n"
        if "TARGET_INFO_SESSION_START_TIME" in tables:
            for row in database.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1"):
                yield f"# nsys started_ns: {row[0]}\n"
        launches = [_KERNELS] if _KERNEL_TABLE in tables else []
        if _has_several_processes(database):
            yield f"# nsys warning: {SEVERAL_PROCESSES}\n"
        if _GRAPH_TABLE in tables:
            if _has(database, _GRAPH_TABLE, "start", "end", "deviceId", "graphId"):
                launches.append(_GRAPHS)
            elif database.execute(f"SELECT 1 FROM {_GRAPH_TABLE} LIMIT 1").fetchone():
                yield f"# nsys warning: {_NO_GRAPHS}\n"
        yield _HEADER
        if launches:
            yield from _csv(database.execute(" UNION ALL ".join(launches) + " ORDER BY 1"))
        if "CUPTI_ACTIVITY_KIND_MEMCPY" in tables:
            kinds = " ".join(f"WHEN {kind} THEN '[CUDA memcpy {name}]'" for kind, name in _COPIES.items())
            name = f"CASE copyKind {kinds} ELSE '[CUDA memcpy]' END"
            yield from _csv(database.execute(_MEMORY.format(name, "CUPTI_ACTIVITY_KIND_MEMCPY")))
        if "CUPTI_ACTIVITY_KIND_MEMSET" in tables:
            yield from _csv(database.execute(_MEMORY.format("'[CUDA memset]'", "CUPTI_ACTIVITY_KIND_MEMSET")))
        if "NVTX_EVENTS" in tables:
            yield from _csv(database.execute(_RANGES))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            try:
                line = next(self._lines, None)
            except sqlite3.Error as error:
                raise OSError(f"its tables are not those of {self._known} ({error})") from None
            if line is None:
                return 0
            self._rest = line.encode("utf-8", "replace")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def close(self) -> None:
        if not self.closed and self._database is not None:
            self._database.close()
        super().close()


def _has_several_processes(database: sqlite3.Connection) -> bool:
    if not _has(database, _KERNEL_TABLE, "globalPid"):
        return False
    (count,) = database.execute(_PROCESSES).fetchone()
    return int(count) > 1


def _has(database: sqlite3.Connection, table: str, *columns: str) -> bool:
    known = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
    return known.issuperset(columns)


def _csv(cursor: sqlite3.Cursor) -> Iterator[str]:
    """Some hundred rows at a time."""
    while some := cursor.fetchmany(500):
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(
            [str(cell).replace("\n", " ") if isinstance(cell, str) else cell for cell in row] for row in some
        )
        yield out.getvalue()
