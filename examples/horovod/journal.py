"""What a rank says about itself: its own count of steps and examples, and how long each step took."""

from __future__ import annotations

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path


class Journal:
    """Begin and end of every step by this rank's own clock, written as JSON once the training is over."""

    def __init__(self, rank: int, size: int, batch: int) -> None:
        self.rank, self.size, self.batch = rank, size, batch
        self.ends_ns = [time.monotonic_ns()]

    def step_ended(self) -> None:
        self.ends_ns.append(time.monotonic_ns())

    def write(self, folder: Path, **more: object) -> None:
        """One file per rank: FOLDER/rankR.json."""
        steps = len(self.ends_ns) - 1
        seconds = [(end - begin) / 1e9 for begin, end in pairwise(self.ends_ns)]
        folder.mkdir(parents=True, exist_ok=True)
        said = {"rank": self.rank, "size": self.size, "steps": steps, "examples": steps * self.batch}
        said |= {"step_seconds": seconds, "ends_ns": self.ends_ns, **more}
        (folder / f"rank{self.rank}.json").write_text(json.dumps(said))


def options(description: str) -> argparse.ArgumentParser:
    """What all trainings here take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=60, help="default 60")
    parser.add_argument("--batch", type=int, default=16, help="images per rank and step (default 16)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each rank (default 1)")
    parser.add_argument("--slow-rank", type=int, default=-1, help="a rank that sleeps in every step")
    parser.add_argument("--slow-seconds", type=float, default=0.05, help="how long it sleeps (default 0.05)")
    parser.add_argument("--journal", type=Path, help="folder for rankR.json: the rank's own steps and times")
    return parser


def dawdle(rank: int, slow_rank: int, seconds: float) -> None:
    """The planted straggler: what a slow disk or a shared core does to a step."""
    if rank == slow_rank:
        time.sleep(seconds)
