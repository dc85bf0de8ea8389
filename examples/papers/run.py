"""`make papers`: the experiments of the four papers at this machine's size; roofline is the only instrument.

Nodes are namespaces of this machine with shaped links (nodes.py). Started again it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import launch
import nodes
from instruments import ROOT, Instruments, ServiceError, instruments, settle
from points import RATE, Point, points
from services import main, say

NAMES = ("chief0", "ps0", "ps1", "worker0", "worker1", "worker2", "worker3")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--tensorflow-python", type=absolute, required=True, help="interpreter with TensorFlow"
    )
    parser.add_argument(
        "--torch-python", type=absolute, required=True, help="interpreter with PyTorch, Horovod"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "papers", help="data, logs and results")
    parser.add_argument("--quick", action="store_true", help="a point or two of each experiment")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="points whose name has one")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no point after so long")
    parser.add_argument("--list", action="store_true", help="list the points and what became of them")
    return parser.parse_args()


def absolute(text: str) -> Path:
    """Commands on a node start in its root directory. No link is followed: a venv's python is one."""
    return Path(text).absolute()


class Results:
    """What became of each point: lines of JSON, appended."""

    def __init__(self, file: Path) -> None:
        self.file = file
        lines = file.read_text().splitlines() if file.exists() else []
        self.rows = [json.loads(line) for line in lines]

    def add(self, **row: object) -> None:
        self.rows.append(row)
        with open(self.file, "a") as file:
            file.write(json.dumps(row) + "\n")

    def job(self, point: Point) -> str:
        """The job that recorded the point; "": none has."""
        return next((row["job"] for row in self._of(point) if row["done"]), "")

    def failed(self, point: Point) -> str:
        return next((row["why"] for row in self._of(point) if row["why"]), "")

    def _of(self, point: Point) -> list[dict[str, Any]]:
        return [row for row in reversed(self.rows) if row["key"] == point.key]

    def next_job(self, point: Point) -> str:
        """A job's name is used once."""
        tried = sum(not row["done"] and not row["why"] for row in self._of(point))
        return point.key if not tried else f"{point.key}.{tried + 1}"


def papers(asked: argparse.Namespace) -> int:
    asked.folder.mkdir(parents=True, exist_ok=True)
    results = Results(asked.folder / "results.jsonl")
    chosen = [one for one in points() if (one.quick or not asked.quick) and named(one, asked.only)]
    if asked.list:
        for point in chosen:
            print(f"{point.key:70} {'done' if results.job(point) else results.failed(point)[:40] or '-'}")
        return 0
    if why := nodes.lacking():
        raise ServiceError(f"nothing is run: {why}")
    todo = [point for point in chosen if not results.job(point)]
    begin = time.monotonic()
    say(f"{len(chosen)} points, {len(chosen) - len(todo)} of them done before")
    with nodes.cluster(NAMES, RATE) as cluster, instruments(asked.folder, cluster) as having:
        for index, point in enumerate(todo, 1):
            if time.monotonic() - begin > 60 * asked.minutes:
                say(f"{len(todo) - index + 1} points are left: the time is over; run it again to go on")
                break
            say(f"[{index} of {len(todo)}] {point.key}")
            run(point, having, results, asked)
        settle()
    return int(any(not results.job(point) for point in chosen))


def named(point: Point, words: list[str]) -> bool:
    return not words or any(word in point.key for word in words)


def run(point: Point, having: Instruments, results: Results, asked: argparse.Namespace) -> None:
    """One point; when it fails that is noted, and the others go on."""
    job = results.next_job(point)
    results.add(key=point.key, job=job, done=False, why="")
    begin = time.monotonic()
    try:
        if point.program == "net":
            measure_network(having)
        else:
            launch.train(point, job, having, launch.Pythons(asked.tensorflow_python, asked.torch_python))
    except (launch.TrainingError, ServiceError) as error:
        results.add(key=point.key, job=job, done=False, why=str(error))
        print(f"   failed: {error}", flush=True)
        return
    results.add(key=point.key, job=job, done=True, why="", seconds=round(time.monotonic() - begin, 1))


def measure_network(having: Instruments) -> None:
    found = having.ask("bench", "net", "--from", "worker0", "--to", "ps0")
    (having.folder / "net.json").write_text(json.dumps(found))


if __name__ == "__main__":
    options = parse()
    try:
        sys.exit(main("papers", lambda: papers(options)))
    except nodes.NodeError as error:
        sys.exit(f"papers: {error}")
