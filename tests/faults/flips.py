"""Single bits flipped in every file of a data directory, one at a time: what a server then says and answers.

All questions about all jobs are asked. A flip is *noticed* where the server refuses to start, or logs a
warning or an error; else the answers are those of the sound directory (*nothing changed*), or not. Of the
latter `check` may know (*noticed by check*); what it does not know either is *silently different*.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from roofline_server.errors import ServerError
from roofline_server.ingest.service import decode_entry
from roofline_server.query.answers import Answers
from roofline_server.store.check.reading import check
from roofline_server.store.store import Store

from .fuzz.ingest import QUESTIONS, about, memory_folder
from .fuzz.running import failure_of
from .rounds import made_senders
from .site import Site, sending, until

NOTICED, CHECKED, NOTHING, SILENT = "noticed", "noticed by check", "nothing changed", "silently different"
BATCHES = 12  # of each sender
TIMES = ("report", "stragglers", "comparison")  # say how long ago something was
Answer = dict[str, bytes]


class Flip(NamedTuple):
    """One bit of one file. what: kind of file."""

    what: str
    path: str
    bit: int


class Directories(NamedTuple):
    """What a killed server left, with logs of its databases; and the same without."""

    with_logs: Path
    without: Path


def made(folder: Path) -> Directories:
    """Data directories of two jobs, partly sealed and partly in the inbox."""
    asyncio.run(_fill(folder))
    without = folder / "without"
    shutil.copytree(folder / "data", without)
    for name in ("catalog.db", "inbox.db"):
        with contextlib.closing(sqlite3.connect(without / name)) as db:
            db.execute("pragma wal_checkpoint(truncate)")
    return Directories(folder / "data", without)


async def _fill(folder: Path) -> None:
    site = Site(folder, None, seal_s=1.0)
    senders = made_senders(lambda: site.address)
    try:
        await site.start()
        async with sending(senders, 0.1):
            await until(lambda: all(one.acked > BATCHES for one in senders), "batches are taken")
            segments = site.data / "segments"
            await until(lambda: any(segments.glob("job-*/steps_*/*.parquet")), "step deltas are sealed")
            before = [one.acked for one in senders]
            await until(
                lambda: all(s.acked > acked + 2 for s, acked in zip(senders, before, strict=True)),
                "some more batches are taken",  # of which not all are sealed
            )
            await site.kill()
        (site.data / "server.sock").unlink(missing_ok=True)
    finally:
        site.clean_up()


def flips(where: Directories, chance: random.Random, count: int) -> Iterator[tuple[Path, Flip]]:
    """Which bits, by turns in each kind of file; and of which directory."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(where.without.rglob("*")):
        if path.is_file() and path.stat().st_size and path.suffix in (".db", ".parquet"):
            kinds.setdefault(_kind(path, where.without), []).append(path)
    for path in sorted(where.with_logs.glob("*.db-wal")):
        kinds[path.name] = [path]
    for number in range(count):
        what, paths = list(kinds.items())[number % len(kinds)]
        path = chance.choice(paths)
        root = where.without if path.is_relative_to(where.without) else where.with_logs
        yield root, Flip(what, str(path.relative_to(root)), chance.randrange(8 * path.stat().st_size))


def _kind(path: Path, root: Path) -> str:
    relative = path.relative_to(root)
    if path.suffix == ".db":
        return path.name
    return "segments, step deltas" if relative.parts[2].startswith("steps") else "segments, raw data"


def judged(root: Path, flip: Flip, sound: Mapping[Path, Answer]) -> str:
    """What becomes of one."""
    with _copied(root) as copy:
        _flip(copy / flip.path, flip.bit)
        found, is_noticed = answers(copy)
    if is_noticed or found is None:
        return NOTICED
    if found == sound[root]:
        return NOTHING
    with _copied(root) as copy:
        _flip(copy / flip.path, flip.bit)
        try:
            return CHECKED if check(copy).problems else SILENT
        except ServerError:
            return CHECKED


def answers(root: Path) -> tuple[Answer | None, bool]:
    """What a server on a directory answers, and whether it has logged that something is wrong. None: it does
    not start, or a question fails."""
    noticed = _Noticed()
    logger = logging.getLogger("roofline_server")
    logger.addHandler(noticed)
    try:
        store = Store(root, decode_entry)
        try:
            return _asked(store), noticed.count > 0
        finally:
            store.close()
    except ServerError:
        return None, True
    finally:
        logger.removeHandler(noticed)


def _asked(store: Store) -> Answer:
    asked = Answers(store)
    found = {"jobs": _jobs(store)}
    for job in store.jobs():
        for name, request in QUESTIONS.items():
            if name not in TIMES:
                found[f"{job} {name}"] = _bytes_of(asked, name, about(request, job))
    return found


def _jobs(store: Store) -> bytes:
    return repr(sorted(store.jobs())).encode()


def _bytes_of(asked: Answers, name: str, request: object) -> bytes:
    try:
        answer = getattr(asked, name)(request)
        if hasattr(answer, "SerializeToString"):
            return bytes(answer.SerializeToString(deterministic=True))
        return b"".join(part.SerializeToString(deterministic=True) for part in answer)
    except ServerError as error:
        return str(error).encode()


class _Noticed(logging.Handler):
    """Counts warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


@contextlib.contextmanager
def _copied(root: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="flip-", dir=root.parent))
    try:
        shutil.copytree(root, folder / "data")
        yield folder / "data"
    finally:
        shutil.rmtree(folder)


def _flip(path: Path, bit: int) -> None:
    with open(path, "r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def run_flips(seed: int, count: int, report: Callable[[str], None]) -> list[dict[str, object]]:
    """Flip so many bits; a row for each kind of file."""
    folder = memory_folder()
    counts: dict[str, Counter[str]] = {}
    try:
        where = made(folder)
        sound = {}
        for root in where:
            with _copied(root) as first, _copied(root) as second:
                found, is_noticed = answers(first)
                assert found and not is_noticed and found == answers(second)[0], "it is sound"
                sound[root] = found
        for number, (root, flip) in enumerate(flips(where, random.Random(seed), count), 1):
            try:
                verdict = judged(root, flip, sound)
            except Exception as error:
                verdict = "failed"
                report(f"{flip}: {failure_of('crash', error, []).place}: {error}")
            counts.setdefault(flip.what, Counter())[verdict] += 1
            if verdict == SILENT:
                report(f"silently different: {flip}, seed {seed}")
            if number % 500 == 0:
                report(f"{number:,} flips: {dict(sum(counts.values(), Counter()))}")
    finally:
        shutil.rmtree(folder)
    return [{"what": what, "seed": seed, **dict(found)} for what, found in sorted(counts.items())]


def flips_table(lines: Sequence[str]) -> list[str]:
    """Markdown of lines of JSON: kinds of files, all runs together."""
    rows = [json.loads(line) for line in lines]
    verdicts = list(dict.fromkeys([NOTICED, CHECKED, NOTHING, SILENT, *_verdicts(rows)]))
    table = [f"| file | flips | {' | '.join(verdicts)} |", f"| --- | --- |{' --- |' * len(verdicts)}"]
    for what in (*dict.fromkeys(row["what"] for row in rows), "**all**"):
        mine = [row for row in rows if what in (row["what"], "**all**")]
        sums = [sum(row.get(verdict, 0) for row in mine) for verdict in verdicts]
        table.append(f"| {what} | {sum(sums):,} | {' | '.join(f'{one:,}' for one in sums)} |")
    return table


def _verdicts(rows: Sequence[Mapping[str, object]]) -> list[str]:
    return sorted({name for row in rows for name in row} - {"what", "seed"})
