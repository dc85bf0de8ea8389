"""`make papers`: the experiments of the four papers at this machine's size; roofline is the only instrument.

Nodes are namespaces of this machine with shaped links (nodes.py). Started again it goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import launch
import nodes
from figures import draw_all
from instruments import ROOT, Instruments, ServiceError, instruments, only_server, settle
from page import not_run, page
from points import RATE, UNSHAPED, Point, points
from predictions import predictions
from readings import Readings, keep, kept, read
from roofline_client import ClientError
from services import main, say

READINGS, NETWORK = "readings.jsonl", "network.json"  # in the folder of the run
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
    parser.add_argument(
        "--docs", type=Path, default=ROOT / "docs", help="where papers.md and papers/ are written"
    )
    parser.add_argument("--quick", action="store_true", help="a point or two of each experiment")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="WORD", help="points whose name has one, in this order"
    )
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="start no point after so long; 0: write the page"
    )
    parser.add_argument(
        "--read-again", action="store_true", help="ask today's product about the jobs of earlier runs"
    )
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

    def done(self, point: Point) -> bool:
        return any(row["done"] for row in self._of(point))

    def failed(self, point: Point) -> str:
        """Why it failed last; "": it did not."""
        return next((row["why"] for row in self._of(point) if row["why"]), "")

    def next_job(self, point: Point) -> str:
        """A job's name is used once."""
        begun = sum(row["begun"] for row in self._of(point))
        return point.key if not begun else f"{point.key}.{begun + 1}"

    def _of(self, point: Point) -> list[dict[str, Any]]:
        return [row for row in reversed(self.rows) if row["key"] == point.key]


def papers(asked: argparse.Namespace) -> int:
    asked.folder.mkdir(parents=True, exist_ok=True)
    results = Results(asked.folder / "results.jsonl")
    every = [one for one in points() if one.quick or not asked.quick]
    chosen = named(every, asked.only)
    if asked.list:
        for point in chosen:
            print(f"{point.key:70} {'done' if results.done(point) else results.failed(point)[:40] or '-'}")
        return 0
    todo = [point for point in chosen if not results.done(point)]
    say(f"{len(chosen)} points, {len(chosen) - len(todo)} of them done before")
    with contextlib.ExitStack() as until_done:
        having = until_done.enter_context(only_server(asked.folder)) if asked.minutes <= 0 else None
        if having is None:
            if why := nodes.lacking():
                raise ServiceError(f"nothing is run: {why}")
            cluster = until_done.enter_context(nodes.cluster(NAMES, RATE))
            having = until_done.enter_context(instruments(asked.folder, cluster, asked.torch_python))
        if asked.read_again:
            read_again(having)
        run_all(todo, having, results, asked)
        write_page(every, having, results, asked)
    return int(not all(map(results.done, chosen)))


def named(every: Sequence[Point], words: Sequence[str]) -> list[Point]:
    """Those whose name has one of the words, in the order of the words; without any, all."""
    found = {point.key: point for word in words for point in every if word in point.key}
    return list(found.values()) if words else list(every)


def read_again(having: Instruments) -> None:
    """What the product of today says of all jobs there are."""
    file = having.folder / READINGS
    before = Readings(kept(file)).by_key.values()
    say(f"reading {len(before)} jobs again")
    now = [read(having.server, one.key, one.job) for one in before]
    file.unlink(missing_ok=True)
    for one in now:
        keep(file, one)


def run_all(todo: list[Point], having: Instruments, results: Results, asked: argparse.Namespace) -> None:
    begin = time.monotonic()
    for index, point in enumerate(todo, 1):
        if time.monotonic() - begin > 60 * asked.minutes:
            say(f"{len(todo) - index + 1} points are left: the time is over; run it again to go on")
            break
        say(f"[{index} of {len(todo)}] {point.key}")
        run(point, having, results, asked)


def run(point: Point, having: Instruments, results: Results, asked: argparse.Namespace) -> None:
    """One point; when it fails that is noted, and the others go on."""
    job = results.next_job(point)
    results.add(key=point.key, job=job, begun=True, done=False, why="")
    begin = time.monotonic()
    try:
        if point.program == "net":
            measure_network(having, point.tags["rate"])
        else:
            launch.train(point, job, having, launch.Pythons(asked.tensorflow_python, asked.torch_python))
            settle()
            keep(having.folder / READINGS, read(having.server, point.key, job))
    except (launch.TrainingError, ServiceError, ClientError, nodes.NodeError) as error:
        results.add(key=point.key, job=job, begun=False, done=False, why=str(error))
        print(f"   failed: {error}", flush=True)
        return
    seconds = round(time.monotonic() - begin, 1)
    results.add(key=point.key, job=job, begun=False, done=True, why="", seconds=seconds)


def measure_network(having: Instruments, rate: str) -> None:
    """Between two nodes, over a link of that rate; then it has the old one again."""
    ends = having.nodes["worker0"], having.nodes["ps0"]
    try:
        for node in ends:
            nodes.shape(node, "" if rate == UNSHAPED else rate)
        found = having.ask("bench", "net", "--from", "worker0", "--to", "ps0")
    finally:
        for node in ends:
            nodes.shape(node, RATE)
    values = {one["name"]: one["value"] for one in [*found["results"], *found["ceilings"]]}
    known = network_of(having.folder)
    (having.folder / NETWORK).write_text(json.dumps({**known, rate: values}))


def network_of(folder: Path) -> dict[str, dict[str, float]]:
    """What `bench net` measured, by rate and name."""
    file = folder / NETWORK
    return dict(json.loads(file.read_text())) if file.exists() else {}


def write_page(
    every: Sequence[Point], having: Instruments, results: Results, asked: argparse.Namespace
) -> None:
    readings, network = Readings(kept(having.folder / READINGS)), network_of(having.folder)
    asked.docs.mkdir(parents=True, exist_ok=True)
    drawn = draw_all(having.server, readings, network, asked.docs / "papers")
    predicted = predictions(having.server, readings)
    missing = not_run(every, readings, {point.key: results.failed(point) for point in every})
    (asked.docs / "papers.md").write_text(page(readings, network, drawn, predicted, missing))
    say(f"{asked.docs / 'papers.md'}: {len(readings.by_key)} jobs, {len(drawn)} pictures")


if __name__ == "__main__":
    options = parse()
    try:
        sys.exit(main("papers", lambda: papers(options)))
    except nodes.NodeError as error:
        sys.exit(f"papers: {error}")
