"""Files that were sealed after the catalog's copy, which says what their ids mean, was made.

Each file says which store, epoch and job it belongs to. A file with ids that the copy does not know cannot be
understood.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np

from ...clock import NodeClock
from ..catalog.catalog import Catalog
from ..catalog.clocks import ClockRegistry
from ..catalog.name_ids import NameIds
from ..identity import identity_of_catalog
from ..segments.files import Origin, Segment, directory_name, footer_checksum, is_derived
from ..segments.reader import DamagedSegment, batches, on_server_clock
from ..segments.unknown import QUARANTINE
from .reading import DAMAGE, read_through

ROWS = 1 << 17


def younger_files(root: Path, source: Catalog, others: Collection[str]) -> Iterator[tuple[Segment, Segment]]:
    """(segment, the same where it is now) of each such file in quarantine but `others`."""
    identity = identity_of_catalog(source)
    name_ids = NameIds(source)
    clocks = ClockRegistry(source, name_ids).clocks()
    known = _ids(source)
    for path in sorted((root / QUARANTINE / "segments").rglob("*.parquet*")):
        relative = str(path.relative_to(root))
        if relative in others:
            continue
        try:
            count, origin = read_through(path)
            if not origin or (origin.store, origin.epoch) != identity:
                continue
            found = _segment(root, path, count, origin, clocks, known)
        except (*DAMAGE, DamagedSegment):
            continue  # a check says what is wrong with it
        yield found, found._replace(path=relative)


def _segment(
    root: Path,
    path: Path,
    count: int,
    origin: Origin,
    clocks: Mapping[int, NodeClock],
    known: Mapping[str, Collection[int]],
) -> Segment:
    """Raises LookupError for an id that is not known."""
    name = os.path.basename(path).partition(".")[0]
    place = f"segments/{directory_name(origin.job)}/{origin.dataset}/{name}.parquet"
    size, footer = path.stat().st_size, footer_checksum(path)
    segment = Segment(origin.job, origin.dataset, place, count, size, 0, 0, footer)
    begins, ends = [], []
    for table in batches(root, segment._replace(path=str(path.relative_to(root))), ROWS):
        for column, ids in known.items():
            if column in table and not set(np.unique(table[column]).tolist()) <= {-1, *ids}:
                raise LookupError(f"{path} has a {column} that no catalog knows")
        timed = table if is_derived(origin.dataset) else on_server_clock(table, clocks)
        begin = timed["time_ns"] if "time_ns" in timed else timed["begin_ns"]
        begins.append(int(begin.min()))
        ends.append(int(timed.get("end_ns", begin).max()))
    return segment._replace(begin_ns=min(begins), end_ns=max(ends))


def _ids(source: Catalog) -> dict[str, Collection[int]]:
    nodes, ranks, kernels = source.name_ids()
    of_ranks = set(ranks.values())
    return {
        "node": set(nodes.values()),
        "rank": of_ranks,
        "sender": of_ranks,
        "kernel": set(kernels.values()),
    }
