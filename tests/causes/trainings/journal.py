"""What a training keeps of itself: the ends of its steps on its own clock, and what its plant took."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

DECIDED_AT, ASKED_AT = 12, 16  # steps
LEAST, MOST = 60, 3000


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True, help="for what is kept")
    parser.add_argument("--seconds", type=float, default=10, help="so long it trains, about")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cause", default="", help="what is planted")
    parser.add_argument("--amount", type=float, default=0, help="seconds a step that the plant takes")
    parser.add_argument("--more", type=float, default=0, help="so much more work, 1: twice as much")
    parser.add_argument("--on", type=int, default=-1, help="index of the rank that has the plant")
    parser.add_argument("--pinned", action="store_true", help="each rank keeps to a core of its own")
    parser.add_argument("--interface", default="", help="network interface of the ranks")
    return parser


class Journal:
    """The file of one rank. Its process id is known from the begin; all else once the training ends."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.ends: list[int] = []
        self.replace(f"{name}.pid", str(os.getpid()))

    def step_ended(self) -> None:
        self.ends.append(time.monotonic_ns())

    def steps_wanted(self, seconds: float, decides: bool) -> int:
        """How many steps take so long: rank 0 finds out and writes it down, before the others read it."""
        file = self.folder / "steps"
        if len(self.ends) == DECIDED_AT and decides:
            step = statistics.median(b - a for a, b in zip(self.ends[3:], self.ends[4:], strict=False)) / 1e9
            self.replace("steps", str(min(MOST, max(LEAST, round(seconds / step)))))
        if len(self.ends) < ASKED_AT:
            return MOST
        while not file.exists():
            time.sleep(0.001)
        return int(file.read_text())

    def write(self, **said: Any) -> None:
        said |= {"name": self.name, "ends_ns": self.ends}
        self.replace(f"{self.name}.json", json.dumps(said))

    def replace(self, name: str, text: str) -> None:
        whole = self.folder / f".{name}.{os.getpid()}"
        whole.write_text(text)
        whole.replace(self.folder / name)
