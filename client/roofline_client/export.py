"""The raw data of a job as a folder of CSV files, one a dataset; `columns.csv` says what they hold."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TextIO

from roofline.answers.tables import TableChunk, TableColumn

from .errors import ClientError, Refused
from .files import written
from .tables.names import inert

COLUMNS = "columns"
DESCRIBED = ("dataset", "column", "unit", "provenance", "remark")
_NAME = re.compile(r"[A-Za-z0-9_]{1,100}")


def write_folder(
    chunks: Iterable[TableChunk],
    folder: Path,
    force: bool = False,
    progress: Callable[[str, int], None] = lambda dataset, rows: None,
) -> dict[str, int]:
    """Write FOLDER/DATASET.csv for each dataset, as it comes; returns how many rows each has.

    force: into a folder that is not empty, files of the same names replaced. progress: receives a dataset and
    how many of its rows are written. Raises ClientError when the folder or a file cannot be written: what has
    its final name is whole.
    """
    check_folder(folder, force)
    chunks = iter(chunks)
    first = [*islice(chunks, 1)]  # a question that is refused leaves no folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClientError(f"cannot make the folder {folder}: {error.strerror}") from None
    counts: dict[str, int] = {}
    described: list[tuple[str, TableColumn]] = []
    for dataset, parts in groupby(chain(first, chunks), lambda chunk: chunk.dataset):
        if not _NAME.fullmatch(dataset) or dataset in (*counts, COLUMNS):
            raise Refused(f"the server sends a dataset of the name {dataset[:40]!r}, which cannot be")
        with written(folder / f"{dataset}.csv") as file:
            counts[dataset] = 0
            for chunk in write_csv(parts, file):
                if not counts[dataset]:
                    described += [(dataset, column._replace(values=())) for column in chunk.columns]
                counts[dataset] += chunk.rows
                progress(dataset, counts[dataset])
    with written(folder / f"{COLUMNS}.csv") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(DESCRIBED)
        writer.writerows(map(inert, (d, c.name, c.unit, c.provenance, c.reason)) for d, c in described)
    return counts


def check_folder(folder: Path, force: bool) -> None:
    """Raises ClientError when the folder cannot be read, or holds something and nobody forces it."""
    try:
        is_free = force or not any(folder.iterdir())
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise ClientError(f"{folder} is a file; -o must be a folder") from None
    except OSError as error:
        raise ClientError(f"cannot read the folder {folder}: {error.strerror or error}") from None
    if not is_free:
        advice = "give another -o, or --force to replace files in it"
        raise ClientError(f"the folder {folder} is not empty; {advice}")


def write_csv(chunks: Iterable[TableChunk], file: TextIO) -> Iterator[TableChunk]:
    """Write a header and all rows, and hand each chunk on when it is written. Absent is an empty cell, texts
    are inert. Raises Refused when the columns change on the way."""
    writer = csv.writer(file, lineterminator="\n")
    header: list[str] | None = None
    for chunk in chunks:
        names = [column.name for column in chunk.columns]
        if header is None:
            header = names
            writer.writerow(map(inert, names))
        if names != header:
            raise Refused(
                f"the columns of {chunk.dataset!r} change during the answer: not a server of this version"
            )
        columns: list[Iterable[object]] = []
        for column in chunk.columns:
            if column.values and isinstance(column.values[0], str):
                columns.append([inert(str(text)) for text in column.values])
            else:
                columns.append(column.values)
        writer.writerows(zip(*columns, strict=True))
        yield chunk
