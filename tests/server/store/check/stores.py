"""Stores with a job, what they answer, and ways to spoil them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from roofline_server.store.check.reading import check
from roofline_server.store.store import Store

from ...builders import open_store
from ..histories import ALL, JOB, greet, raw_rows, steps

AGAIN = "again"  # a job of which nothing was known before


def filled(root: Path, count: int = len(ALL)) -> Store:
    """A store of two sealings whose inbox is empty."""
    store = open_store(root)
    greet(store)
    for number, (node, one) in enumerate(ALL[:count]):
        node.put(store, one)
        if number == count // 2:
            store.seal()
    store.seal()
    return store


def answers(store: Store, job: str = JOB) -> dict[str, Any]:
    """Who, steps, raw rows and kernels of a job, by names and not by ids."""
    view, raw = store.view(job), store.raw(job)
    assert view and raw
    numbers = {number: key[1:] for number, key in view.ranks.items()}
    named = {}
    for name, rows in steps(store, job).items():
        at = sorted(view.steps[name]).index("rank")
        window = sorted(view.steps[name]).index("window")
        named[name] = sorted(
            repr([numbers.get(v, v) if n in (at, window) else v for n, v in enumerate(row)]) for row in rows
        )
    return {
        "ranks": sorted(numbers.values()),
        "processes": sorted((numbers[w.rank], w[2:], life) for w, life in view.process_lifetimes.items()),
        "steps": named,
        "marks": raw_rows(store, "marks", job),
        "calls": raw_rows(store, "calls", job),
        "kernels": sorted(set(raw.kernels.values())),
        "machines": sorted(repr(machine) for machine in view.machines.values()),
    }


def lose(root: Path, name: str) -> None:
    for path in root.glob(f"{name}.db*"):
        if not path.name.startswith("catalog.copy"):
            path.unlink()


def flip(path: Path, seed: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[random.Random(seed).randrange(len(data) // 4, 3 * len(data) // 4)] ^= 4
    path.write_bytes(data)


def kinds(root: Path) -> list[str]:
    return sorted({finding.kind for finding in check(root).problems})
