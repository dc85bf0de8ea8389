"""The tables of the catalog. New ones and columns may come; a release reads what earlier ones wrote."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Float, Integer, String, UniqueConstraint

from ...records import KernelKind

META = sa.MetaData()
# For all that a node sends, which has up to 64 bits. SQLite's Integer has as many, those of others have 32.
Number = BigInteger().with_variant(Integer, "sqlite")

STATE = sa.Table("state", META, Column("name", String, primary_key=True), Column("value", String))
NODE = sa.Table(
    "node",
    META,
    Column("id", Integer, primary_key=True),
    Column("agent", String, nullable=False),
    Column("boot", String, nullable=False),
    Column("machine", String, nullable=False),
    UniqueConstraint("agent", "boot"),
)
RANK = sa.Table(
    "rank",
    META,
    Column("id", Integer, primary_key=True),
    Column("job", String, nullable=False, index=True),
    Column("role", String, nullable=False),
    Column("index", Number, nullable=False),
    UniqueConstraint("job", "role", "index"),
)
KERNEL = sa.Table(
    "kernel",
    META,
    Column("id", Integer, primary_key=True),
    *(Column(name, String, nullable=False) for name in KernelKind._fields),
    # Other databases have no index of texts as long as these; name_ids.py gives each name one number.
    UniqueConstraint(*KernelKind._fields).ddl_if(dialect="sqlite"),
)


def _metric_columns() -> list[sa.Column[Any]]:
    return [
        Column("counter_set", String, primary_key=True),
        Column("name", String, primary_key=True),
        Column("kind", Integer),
        Column("unit", String),
        Column("scope", Integer),
        Column("provenance", Integer),
        Column("is_double", Integer),
        Column("coverage_of", String),
    ]


METRIC = sa.Table("metric", META, *_metric_columns())
# Metrics that a job describes otherwise than METRIC does.
JOB_METRIC = sa.Table(
    "job_metric",
    META,
    Column("job", String, primary_key=True),
    *_metric_columns(),
)
INCARNATION = sa.Table(
    "incarnation",
    META,
    Column("rank", Integer, primary_key=True),
    Column("node", Integer, primary_key=True),
    Column("start_ns", Number, primary_key=True),
    Column("pid", Number),
    Column("name", String),
    Column("world", Number),
    Column("framework", String),
    Column("first_ns", Number),
    Column("last_ns", Number),
    Column("exited", Integer),
)
SEGMENT = sa.Table(
    "segment",
    META,
    Column("path", String, primary_key=True),
    Column("job", String, nullable=False, index=True),
    Column("dataset", String, nullable=False),
    Column("rows", Number),
    Column("bytes", Number),
    Column("begin_ns", Number),
    Column("end_ns", Number),
)
# Checksums of what describes a file's columns, which has none of its own; earlier catalogs lack them.
FOOTER = sa.Table(
    "segment_footer",
    META,
    Column("path", String, primary_key=True),
    Column("crc32", Number),
)
CLOCK_SAMPLE = sa.Table(
    "knot",  # the name that it had first, and has in every catalog
    META,
    Column("node", Integer, primary_key=True),
    Column("node_ns", Number, primary_key=True),
    Column("offset_ns", Number),
    Column("rtt_ns", Float),
)
ARRIVAL = sa.Table("arrival", META, Column("node", Integer, primary_key=True), Column("offset_ns", Number))
SETTLED = sa.Table(
    "settled",
    META,
    Column("job", String, primary_key=True),
    Column("node", Integer, primary_key=True),
    Column("error_ns", Float),
)
PROGRESS = sa.Table(
    "progress",
    META,
    Column("job", String, primary_key=True),
    Column("through_ns", Number, nullable=False),
    Column("resume_ns", Number, nullable=False),
    Column("done", String, nullable=False),
    Column("serving", String, nullable=False),
)
# Marks, as JSON, at which steps began that are open for longer than raw data are read again. through_ns: that
# of the progress they belong to; a release that does not know them may have gone on without.
OPEN_MARKS = sa.Table(
    "open_marks",
    META,
    Column("job", String, primary_key=True),
    Column("through_ns", Number, nullable=False),
    Column("marks", String, nullable=False),
)
# What agents reported of their machines, in order; `version` counts up for each agent.
MACHINE = sa.Table(
    "machine",
    META,
    Column("id", Integer, primary_key=True),
    Column("agent", String, nullable=False, index=True),
    Column("version", Integer, nullable=False),
    Column("since_ns", Number, nullable=False),
    Column("machine", String, nullable=False),
)
# What ranks reported of their job; of several values of one name the newest holds.
TAG = sa.Table(
    "tag",
    META,
    Column("job", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("value", String, primary_key=True),
    Column("said_ns", Number, nullable=False),
)
# Of which run of its job a process is, and what starts it again should it fail; `job` as agents know it.
RUN_PROCESS = sa.Table(
    "run_process",
    META,
    Column("job", String, primary_key=True),
    Column("node", Integer, primary_key=True),
    Column("pid", Number, primary_key=True),
    Column("start_ns", Number, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("launch", String, nullable=False),
)
# Who submitted ranks of a run.
OWNER = sa.Table(
    "owner",
    META,
    Column("job", String, primary_key=True),
    Column("user", String, primary_key=True),
)
# How processes ended, of those of which that is known.
EXIT = sa.Table(
    "exit",
    META,
    Column("rank", Integer, primary_key=True),
    Column("node", Integer, primary_key=True),
    Column("start_ns", Number, primary_key=True),
    Column("status", Integer),
    Column("step", Number),
    Column("time_ns", Number),
)
# What retention removed of jobs.
REMOVED = sa.Table(
    "removed",
    META,
    Column("job", String, primary_key=True),
    Column("level", Integer, nullable=False),
    Column("at_ns", Number, nullable=False),
    Column("end_ns", Number, nullable=False),
    Column("rows", Number, nullable=False),
    Column("bytes", Number, nullable=False),
)
# Reports of jobs as they were before their data were removed.
KEPT_REPORT = sa.Table(
    "kept_report",
    META,
    Column("job", String, primary_key=True),
    Column("data", sa.LargeBinary, nullable=False),
)
# Files that retention took from the catalog, or is about to write: those that the catalog does not know are
# deleted at the next start.
UNWANTED = sa.Table("unwanted", META, Column("path", String, primary_key=True))
# Clock samples, as JSON, that all reports of a job that is over are made with.
JOB_CLOCK = sa.Table(
    "job_clock",
    META,
    Column("job", String, primary_key=True),
    Column("node", Integer, primary_key=True),
    Column("samples", String, nullable=False),
)
