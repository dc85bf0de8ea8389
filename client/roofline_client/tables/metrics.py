"""Values by their metrics' names, as one wide table: a row a subject, a column a metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from roofline.answers.values import Value

from .flat import Table, named


class Subject(NamedTuple):
    """A rank or role: what it is called by, and its values."""

    about: Mapping[str, Any]
    values: Mapping[str, Value]


def wide(subjects: Sequence[Subject], names: Sequence[str]) -> Table:
    """Columns `names` of what subjects are called by, then each metric with its unit in the column's name
    ("step_time_median_seconds"), its provenance, and why it is absent."""
    metrics = {metric: value.unit for s in subjects for metric, value in s.values.items()}
    columns, units = list(names), {}
    for metric, unit in metrics.items():
        number, plain = named(metric, unit), metric.replace(".", "_")
        units[number] = unit
        columns += [number, f"{plain}_provenance", f"{plain}_reason"]

    rows = []
    for subject in subjects:
        cells: list[Any] = [subject.about[name] for name in names]
        for metric in metrics:
            value = subject.values.get(metric)
            cells += (None, "", "") if value is None else (value.value, value.provenance, value.reason)
        rows.append(tuple(cells))
    return Table(tuple(columns), rows, units)
