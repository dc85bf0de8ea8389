"""Reads a file with a library and does nothing with it: `python libraries.py FILE pyarrow_csv`, a process
whose CPU time stands next to that of `roofline-agent import`. Each takes one thread.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path


def python_csv(path: str) -> None:
    """Lines as lists of cells."""
    with open(path, newline="") as file:
        for _ in csv.reader(file, delimiter=_separator(path)):
            pass


def pyarrow_csv(path: str) -> None:
    """All cells as text, in columns, a megabyte at a time; numbers are not made of them."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    separator = _separator(path)
    with open(path, newline="") as file:
        first = next(csv.reader(file, delimiter=separator))
    names = [f"f{at}" for at in range(len(first))]
    batches = arrow_csv.open_csv(
        path,
        read_options=arrow_csv.ReadOptions(use_threads=False, column_names=names),
        parse_options=arrow_csv.ParseOptions(delimiter=separator),
        convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.string())),
    )
    for _ in batches:
        pass


def orjson(path: str) -> None:
    """The whole file as objects, all in memory."""
    import orjson

    orjson.loads(Path(path).read_bytes())


def _separator(path: str) -> str:
    with open(path) as file:
        return ";" if ";" in file.readline() else ","


if __name__ == "__main__":
    {one.__name__: one for one in (python_csv, pyarrow_csv, orjson)}[sys.argv[2]](sys.argv[1])
