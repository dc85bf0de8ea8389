"""Records of answers as flat tables: what CSV files and DataFrames of the models hold.

A column is named after its field. A `Value` becomes its number, in the unit that the column's name ends with
("time_seconds", "flops_per_second"; a number without unit has none), and next to it `..._provenance` and
`..._reason`; where the unit differs from row to row there is `..._unit`. A spread becomes quantiles
("time_spread_p5_seconds" to "time_spread_p95_seconds") and `..._count`. What is absent is None.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from roofline.answers.roofline import RoofPoint
from roofline.answers.values import Spread, Value

from ..errors import ClientError
from .names import inert, tagged

# Field -> unit of its number, wherever it stands. A Value that is not here says its unit row by row.
UNITS = {
    "intensity": "FLOP/byte",
    "intensity_spread": "FLOP/byte",
    "flops_per_second": "FLOP/s",
    "flops_spread": "FLOP/s",
    "time": "s",
    "time_spread": "s",
    "attainable": "FLOP/s",
    "headroom": "1",
    "flops_per_joule": "FLOP/J",
    "batch": "1",
    "crossing": "1",
    "ridge": "FLOP/byte",
    "flops": "FLOP",
    "bytes": "byte",
    "bandwidth_time": "s",
    "compute_time": "s",
    "balance": "FLOP/byte",
    "launch_overhead": "s",
    "no_flop_launches": "1",
    "no_flop_time": "s",
    "speedup": "1",
    "efficiency": "1",
    "step_time": "s",
    "share": "1",
    "alignment": "s",
    "time_bytes": "byte",
    "time_flops": "FLOP",
    "seconds": "s",
    "cost": "s",
    "wait": "s",
    "rate": "examples/s",
}
SUFFIXES = {
    "FLOP/byte": "flops_per_byte",
    "FLOP/s": "flops_per_second",
    "FLOP/J": "flops_per_joule",
    "FLOP": "flops",
    "byte": "bytes",
    "byte/s": "bytes_per_second",
    "examples/s": "examples_per_second",
    "s": "seconds",
    "J": "joules",
    "W": "watts",
    "Hz": "hertz",
    "1": "",
}
QUANTILES = ("p5", "p25", "p50", "p75", "p95")


class Table(NamedTuple):
    """Rows under named columns. units: of the columns whose unit is one for all rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    units: dict[str, str]

    def wider(self, **constant: Any) -> Table:
        """This table with columns before its own that have one value in all rows."""
        begin = tuple(constant.values())
        return self._replace(columns=(*constant, *self.columns), rows=[(*begin, *row) for row in self.rows])


class _Column(NamedTuple):
    name: str
    unit: str | None
    read: Callable[[Any], Any]


def table(kind: type, records: Iterable[Any], prefix: str = "") -> Table:
    """Records of one kind as rows, None as one of absent cells; prefix: of all names of columns. What is a
    list of records is left out.

    Raises ClientError when the server says a number in another unit than the column's.
    """
    columns = list(_columns(kind, prefix))
    return Table(
        tuple(column.name for column in columns),
        [tuple(None if one is None else column.read(one) for column in columns) for one in records],
        {column.name: column.unit for column in columns if column.unit is not None},
    )


def joined(tables: Sequence[Table], empty: Table) -> Table:
    """Tables of the same columns below each other; without any the empty one."""
    if not tables:
        return empty
    return tables[0]._replace(rows=[row for one in tables for row in one.rows])


def beside(left: Table, right: Table) -> Table:
    """Two tables of as many rows next to each other."""
    rows = [(*a, *b) for a, b in zip(left.rows, right.rows, strict=True)]
    return Table((*left.columns, *right.columns), rows, {**left.units, **right.units})


def as_csv(what: Table) -> str:
    """CSV with a header; what is absent is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(what.columns)
    writer.writerows([inert(cell) if isinstance(cell, str) else cell for cell in row] for row in what.rows)
    return out.getvalue()


def _columns(kind: type, prefix: str) -> Iterator[_Column]:
    """The columns of a kind of record, by the hints of its fields."""
    for field, hint in get_type_hints(kind).items():
        name, get, unit = prefix + field, attrgetter(field), UNITS.get(field)
        if hint is Value:
            yield _Column(prefix + named(field, unit or "1"), unit, partial(_number, field, unit))
            if unit is None:
                yield _Column(f"{name}_unit", None, attrgetter(f"{field}.unit"))
            yield _Column(f"{name}_provenance", None, attrgetter(f"{field}.provenance"))
            yield _Column(f"{name}_reason", None, attrgetter(f"{field}.reason"))
        elif Spread in (hint, *get_args(hint)):
            unit = UNITS[field]
            for quantile in QUANTILES:
                yield _Column(
                    f"{name}_{quantile}_{SUFFIXES[unit]}", unit, partial(_quantile, field, quantile)
                )
            yield _Column(f"{name}_count", "1", partial(_quantile, field, "count"))
        elif hint is RoofPoint:
            for column in _columns(RoofPoint, prefix):
                yield column._replace(read=partial(_through, get, column.read))
        elif get_origin(hint) is list:
            if get_args(hint) == (str,):
                yield _Column(name, None, partial(_through, get, ", ".join))
        elif get_origin(hint) is dict:
            yield _Column(name, None, partial(_through, get, tagged))
        elif not any(hasattr(one, "_fields") for one in (hint, *get_args(hint))):
            yield _Column(name, "ns" if field.endswith("_ns") else unit, get)


def named(field: str, unit: str) -> str:
    """The column of a number: the name of its field and its unit, unless the name says it already."""
    name, suffix = field.replace(".", "_"), SUFFIXES.get(unit, "")
    return name if suffix in name else f"{name}_{suffix}"


def _number(field: str, unit: str | None, record: Any) -> float | None:
    value: Value = getattr(record, field)
    # A count may name what it counts: "examples" is a 1.
    fits = value.unit == unit or (unit == "1" and value.unit not in SUFFIXES)
    if value.value is not None and unit is not None and not fits:
        raise ClientError(
            f"the server says {field} in {value.unit!r}, and this client knows it in {unit!r}: "
            "their versions differ too much; --format json has it as the server says it"
        )
    return value.value


def _quantile(field: str, quantile: str, record: Any) -> float | None:
    spread = getattr(record, field)
    return None if spread is None else getattr(spread, quantile)


def _through(outer: Callable[[Any], Any], inner: Callable[[Any], Any], record: Any) -> Any:
    return inner(outer(record))
