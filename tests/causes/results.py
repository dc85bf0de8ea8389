"""Results in JSON lines, a file a framework: a run that is over adds a line, and the last of a run counts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("results")


def read(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """By key; the last line of a key counts."""
    found = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            one = json.loads(line)
            found[one["key"]] = one
    return found


def add(result: dict[str, Any], folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{result['plan']['framework']}.jsonl", "a") as file:
        file.write(json.dumps(rounded(result)) + "\n")


def replace(results: Iterable[dict[str, Any]], folder: Path = FOLDER) -> None:
    """Write all of them again, sorted by key."""
    by_file: dict[str, list[dict[str, Any]]] = {}
    for one in sorted(results, key=lambda one: one["key"]):
        by_file.setdefault(one["plan"]["framework"], []).append(one)
    for name, lines in by_file.items():
        whole = folder / f".{name}"
        whole.write_text("".join(json.dumps(rounded(one)) + "\n" for one in lines))
        whole.replace(folder / f"{name}.jsonl")


def rounded(value: Any) -> Any:
    """Numbers with six digits: more were not measured."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value
