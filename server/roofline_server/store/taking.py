"""What a repair was changing when it was killed: the next to open the store completes it, or undoes it.

Files that are taken in are written below segments/ before one transaction makes them valid, and what they
were made from, or replace, is removed after it. In between a kill would leave each of them twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from .catalog.catalog import Catalog

TAKING = "taking"  # state of a catalog


def begin_taking(catalog: Catalog, placed: Mapping[str, str], done_with: Sequence[str]) -> None:
    """placed: path of a new file -> the one that it is made of; done_with: what is not needed once they are
    true. All relative to the data directory."""
    catalog.put_state(TAKING, json.dumps({"placed": dict(placed), "done_with": list(done_with)}))


def end_taking(root: Path, catalog: Catalog) -> None:
    """After the transaction, or when the store is opened. Raises OSError."""
    state = catalog.state(TAKING)
    if not state:
        return
    placed, known = json.loads(state)["placed"], catalog.paths()
    if not placed or any(path in known for path in placed):  # the transaction was made
        for path in set(json.loads(state)["done_with"]) - set(known):
            (root / path).unlink(missing_ok=True)
    else:
        for path, made_of in placed.items():
            if (root / made_of).exists():
                (root / path).unlink(missing_ok=True)
    catalog.put_state(TAKING, "")
