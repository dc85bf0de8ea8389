"""The tables in databases other than SQLite, as SQLAlchemy describes them to these."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from roofline_server.store.catalog.tables import INCARNATION, KERNEL, RANK, RUN_PROCESS
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateTable


@pytest.mark.parametrize(
    "column", [RANK.c.index, INCARNATION.c.pid, INCARNATION.c.world, RUN_PROCESS.c.pid], ids=str
)
def test_columns_hold_the_largest_numbers_of_the_wire(column: sa.Column[int]) -> None:
    assert column.type.compile(postgresql.dialect()) == "BIGINT"  # type: ignore[no-untyped-call]
    assert column.type.compile(sqlite.dialect()) == "INTEGER"


def test_names_of_kernels_are_longer_than_what_postgresql_has_an_index_of() -> None:
    made = CreateTable(KERNEL)
    assert "UNIQUE" not in str(made.compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
    assert "UNIQUE" in str(made.compile(dialect=sqlite.dialect()))
