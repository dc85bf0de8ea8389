"""Workers of a parameter server, each in a process of its own as in a training, kept for all their turns."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from typing import Any

from .calls import Caller, channel
from .child import COMMAND, FOLDER
from .errors import NetBenchError
from .payloads import Payload
from .rpc import MODES


class Workers:
    """So many processes, started when they are first needed. They end with this one, however it ends."""

    def __init__(self, address: str, port: int, key: str, count: int) -> None:
        self.count = count
        self._greeting = {"role": "work", "address": address, "port": port, "key": key}
        self._children: list[subprocess.Popen[str]] = []

    def work(self, payload: Payload, serialized: bool, seconds: float) -> list[list[int]]:
        """When the pulls and pushes of each worker ended, ns. Raises NetBenchError."""
        if not self._children:
            self._start()
        turn = {"payload": payload._asdict(), "serialized": serialized, "seconds": seconds}
        for child in self._children:
            _tell(child, turn)
        # All are heard before any failure is told: else an answer would be taken for one of the next turn.
        answers = [_hear(child) for child in self._children]
        if problem := next((str(a["error"]) for a in answers if "error" in a), ""):
            raise NetBenchError(problem)
        return [list(map(int, answer["ends"])) for answer in answers]

    def _start(self) -> None:
        for _ in range(self.count):
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._children.append(subprocess.Popen(COMMAND, **pipes, text=True, cwd=FOLDER))
            _tell(self._children[-1], self._greeting)
        # Connected, all of them, before the first turn begins.
        for child in self._children:
            if problem := _hear(child).get("error"):
                raise NetBenchError(str(problem))

    def close(self) -> None:
        for child in self._children:
            child.kill()
            child.communicate()


def _tell(child: subprocess.Popen[str], message: dict[str, Any]) -> None:
    assert child.stdin
    try:
        child.stdin.write(json.dumps(message) + "\n")
        child.stdin.flush()
    except OSError:
        raise NetBenchError(
            "a worker process has ended; look at the kernel's log, perhaps for memory"
        ) from None


def _hear(child: subprocess.Popen[str]) -> dict[str, Any]:
    assert child.stdout
    line = child.stdout.readline()
    if not line.endswith("\n"):
        return {"error": "a worker process has ended; look at the kernel's log, perhaps for memory"}
    answer: dict[str, Any] = json.loads(line)
    return answer


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
