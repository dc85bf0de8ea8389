"""Files below `segments` that the catalog does not know.

Some are known to be of no use, and are deleted: what was never finished, what comes again from the inbox,
what a merged segment has replaced, and step deltas that newer ones have replaced, if all known files of their
job are there. Everything else may be the last copy of somebody's data, from a catalog that is lost or was
replaced: it is set aside, and never deleted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from .files import STEPS, directory_name

QUARANTINE = "quarantine"
NOTE = "README.txt"
_EXPLAINED = """\
Files of segments/ that the catalog of this data directory did not know when the server started, or that are
damaged. They are not read. A catalog that was lost, emptied or replaced by another one leaves the data of its
jobs here, and its last copy in catalogs/. Stop the server and run `roofline-server check --repair`: it takes
in again what it can. Or put the right catalog.db and these files back. If no job is missing, delete them.
"""


class Found(NamedTuple):
    removed: int
    set_apart: list[str]  # where they are now, relative to the data directory


def tidy(root: Path, known: Collection[str], in_inbox: Collection[int]) -> Found:
    """Remove what is rubbish below root/segments, and move what may not be to root/quarantine.

    known: paths of the catalog, relative to root; in_inbox: numbers of batches there. Raises OSError.
    """
    removed, apart = 0, []
    for path, is_rubbish in list(unknown_files(root, known, in_inbox)):
        if is_rubbish:
            path.unlink()
            removed += 1
        else:
            apart.append(set_apart(root, str(path.relative_to(root))))
    return Found(removed, apart)


def unknown_files(
    root: Path, known: Collection[str], in_inbox: Collection[int]
) -> Iterator[tuple[Path, bool]]:
    """Files below root/segments that are not known, and whether each is rubbish. See `tidy`."""
    merged, folders = _merged(known), set(map(os.path.dirname, known))
    for path in sorted((root / "segments").rglob("*")):
        relative = str(path.relative_to(root))
        if not path.is_file() or relative in known:
            continue
        is_steps = path.parent.name.startswith(STEPS) and os.path.dirname(relative) in folders
        was_replaced = is_steps and _is_whole(root, path.parent.parent, known)
        yield path, path.suffix == ".tmp" or was_replaced or _is_rubbish(path, relative, merged, in_inbox)


def _is_whole(root: Path, folder: Path, known: Collection[str]) -> bool:
    """Whether all known files of a job are there: else the catalog may be from before a removal, and steps
    that it does not know may be the last copy of what was removed."""
    begin = f"{folder.relative_to(root)}/"
    return all((root / path).exists() for path in known if path.startswith(begin))


def _is_rubbish(
    path: Path, relative: str, merged: dict[str, list[tuple[int, int]]], in_inbox: Collection[int]
) -> bool:
    numbers = numbers_of(path.name)
    if numbers is None:
        return False
    if numbers[1] in in_inbox:  # a sealing that the catalog never took: it will be done again
        return True
    folder = os.path.dirname(relative)
    return any(first <= numbers[0] and numbers[1] <= last for first, last in merged.get(folder, ()))


def _merged(known: Iterable[str]) -> dict[str, list[tuple[int, int]]]:
    """Folder -> first and last sealing of each merged segment there."""
    found: dict[str, list[tuple[int, int]]] = {}
    for path in known:
        numbers = numbers_of(os.path.basename(path))
        if numbers is not None and numbers[0] < numbers[1]:
            found.setdefault(os.path.dirname(path), []).append(numbers)
    return found


def remove_unfinished(root: Path, jobs: Iterable[str], number: int) -> None:
    """Remove what a sealing that failed has written of these jobs: the catalog knows none of it, and a later
    one has another number."""
    for job in jobs:
        for path in (root / "segments" / directory_name(job)).glob("*/*"):
            if path.suffix == ".tmp" or (numbers_of(path.name) or (0, 0))[1] == number:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)


def numbers_of(name: str) -> tuple[int, int] | None:
    """First and last sealing of "000000000007.parquet" and "000000000003-000000000009.parquet"."""
    stem, _, suffix = name.partition(".")
    first, _, last = stem.partition("-")
    if suffix != "parquet" or not first.isdecimal() or not (last or first).isdecimal():
        return None
    return int(first), int(last or first)


def set_apart(root: Path, relative: str) -> str:
    """Move a file of root to root/quarantine; returns where it is now, relative to root. Raises OSError."""
    for place in _places(f"{QUARANTINE}/{relative}"):
        target = root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # of an earlier time
            _move(root / relative, target)
            (root / QUARANTINE / NOTE).write_text(_EXPLAINED)
            return place
    raise AssertionError("there is always another place")


def _move(source: Path, target: Path) -> None:
    """Raises FileExistsError and changes nothing where there is a target."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links; nobody else moves files here
        if target.exists():
            raise FileExistsError(target) from None
        os.rename(source, target)
    else:
        os.unlink(source)


def free_place(root: Path, relative: str, ends: Sequence[str] = ("",)) -> str:
    """This path below root, or one like it where nothing is yet, nor at the same with one of these ends."""
    places = (
        place for place in _places(relative) if not any((root / f"{place}{end}").exists() for end in ends)
    )
    return next(places)


def _places(relative: str) -> Iterator[str]:
    number, place = 1, Path(relative)
    yield str(place)
    while True:
        number += 1
        yield str(place.with_name(f"{place.name}.{number}"))
