"""Workers of a parameter server, each in a process of its own as in a training, kept for all their turns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ..child_process import ChildProcess
from .calls import Caller, channel
from .child import COMMAND, FOLDER
from .errors import NetBenchError
from .payloads import Payload
from .rpc import MODES

_ENDED = "a worker process has ended; look at the kernel's log, perhaps for memory"


class Workers:
    """So many processes, started when they are first needed. They end with this one, however it ends."""

    def __init__(self, address: str, port: int, key: str, count: int) -> None:
        self.count = count
        self._greeting = {"role": "work", "address": address, "port": port, "key": key}
        self._children: list[ChildProcess] = []
        self._answers: list[Iterator[str]] = []

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._children]

    def work(self, payload: Payload, serialized: bool, seconds: float) -> list[list[int]]:
        """When the pulls and pushes of each worker ended, ns. Raises NetBenchError."""
        if not self._children:
            for _ in range(self.count):
                child = ChildProcess(COMMAND, directory=FOLDER, takes_input=True)
                self._children.append(child)
                self._answers.append(child.lines())
            # Connected, all of them, before the first turn begins.
            self._ask(self._greeting)
        turn = {"payload": payload._asdict(), "serialized": serialized, "seconds": seconds}
        return [list(map(int, answer["ends"])) for answer in self._ask(turn)]

    def _ask(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """Each worker's answer. Raises NetBenchError with the first error."""
        try:
            for child in self._children:
                child.write_line(json.dumps(message))
        except OSError:
            raise NetBenchError(_ENDED) from None
        # All are received before any error is raised: else an answer would be taken for one of the next turn.
        answers = []
        for lines in self._answers:
            line = next(lines, None)
            answers.append({"error": _ENDED} if line is None else json.loads(line))
        for answer in answers:
            if "error" in answer:
                raise NetBenchError(str(answer["error"]))
        return answers

    def close(self) -> None:
        for child in self._children:
            child.close()


def be_worker(greeting: dict[str, Any], turns: Iterable[str], write: Any) -> None:
    """What a worker process does: a turn a line, until there are no more."""
    with channel(greeting["address"], greeting["port"]) as opened:
        callers = {mode.serialized: Caller(opened, greeting["key"], mode) for mode in MODES}
        write({"ready": True})
        for line in turns:
            turn = json.loads(line)
            try:
                ends = callers[turn["serialized"]].work(Payload(**turn["payload"]), turn["seconds"])
                write({"ends": ends})
            except NetBenchError as error:
                write({"error": str(error)})
