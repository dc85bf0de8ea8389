"""PyTorch trainings as processes, alone or under torchrun, bare or wrapped; what they say to the agent."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..end_to_end.conftest import COMMANDS, REPOSITORY
from ..fakes import FakeAgent, MarkPacket, SpanPacket, clean_environ, decode_mark, decode_spans

BEGIN, BORDER = 1, 3
LOOPS = Path(__file__).with_name("torch_loops.py")
DDP = REPOSITORY / "examples" / "torch_ddp" / "train.py"


@dataclass
class Heard:
    """What one process said."""

    marks: list[MarkPacket] = field(default_factory=list)
    spans: list[SpanPacket] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def borders(self) -> list[MarkPacket]:
        return [mark for mark in self.marks if mark.kind == BORDER]

    @property
    def steps(self) -> list[int]:
        return [mark.step for mark in self.borders]

    @property
    def examples(self) -> list[int]:
        """Of each step but the border before step 0; 0 where unknown."""
        return [mark.examples or 0 for mark in self.borders[1:]]

    @property
    def likes(self) -> list[int]:
        """Of each step but the border before step 0."""
        return [mark.like for mark in self.borders[1:]]

    def named(self, name: str, step: int | None = None) -> list[SpanPacket]:
        """Spans of a name, of all steps or of one."""
        begin, end = (0, 1 << 62) if step is None else self.window(step)
        return [span for span in self.spans if span.name == name and begin <= span.begin < end]

    def window(self, step: int) -> tuple[int, int]:
        times = {mark.step: mark.time_ns for mark in self.borders}
        begins = {mark.step: mark.time_ns for mark in self.marks if mark.kind == BEGIN}
        return begins.get(step, times[step - 1]), times[step]

    def between(self, kind: str = "") -> list[tuple[int, int]]:
        """Stretches between two steps, of one kind or of all."""
        return [(s.begin, s.end) for s in self.spans if s.name.startswith("between." + kind)]

    def phases_overlap(self) -> bool:
        phases = sorted((s.begin, s.end) for s in self.spans if s.name.startswith("phase."))
        return any(before[1] > after[0] for before, after in pairwise(phases))


def torchrun(python: str, wrap: list[Any], script: list[Any], ranks: int = 2, *options: Any) -> list[str]:
    """The command line of a training of several ranks. wrap: what comes before each rank's own command."""
    launcher = [Path(python).with_name("torchrun"), "--nproc-per-node", ranks, *options, "--no-python"]
    return [str(part) for part in [*launcher, *wrap, python, *script]]


def wrapping(*options: Any) -> list[Any]:
    return [COMMANDS / "roofline-agent", "run", *options, "--"]


def finish(command: list[str], environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done


def said(text: str) -> dict[int, list[dict[str, Any]]]:
    """What trainings said of themselves, by rank."""
    found: dict[int, list[dict[str, Any]]] = {}
    for line in text.splitlines():
        if line.startswith('{"'):
            own = json.loads(line)
            found.setdefault(own["rank"], []).append(own)
    return found


def listened(command: list[str]) -> tuple[dict[int, list[dict[str, Any]]], dict[int, Heard]]:
    """Run a wrapped training: what each rank said of itself, and what it said to the agent, by rank."""
    own, heard = _run(command)
    return own, {rank: heard[lines[0]["pid"]] for rank, lines in own.items()}


def listened_by_kind(command: list[str]) -> dict[str, tuple[dict[str, Any], Heard]]:
    """The same of a program that runs trainings of several kinds, each in a process of its own."""
    own, heard = _run(command)
    return {line["kind"]: (line, heard[line["pid"]]) for lines in own.values() for line in lines}


def _run(command: list[str]) -> tuple[dict[int, list[dict[str, Any]]], dict[int, Heard]]:
    """What each rank said of itself, and what each process said to the agent."""
    with (
        tempfile.TemporaryDirectory() as folder,
        FakeAgent(Path(folder) / "agent.sock") as agent,
        open(Path(folder) / "out", "w+") as out,
        open(Path(folder) / "err", "w+") as err,
    ):
        environ = clean_environ(ROOFLINE_SOCKET=str(agent.path))
        packets: list[tuple[int, bytes]] = []
        with subprocess.Popen(command, env=environ, stdout=out, stderr=err) as process:
            try:
                while process.poll() is None:
                    packets += agent.poll(0.1)
            finally:
                process.kill()
        packets += agent.poll(0.1)
        assert process.returncode == 0, Path(err.name).read_text()
        return said(Path(out.name).read_text()), _by_pid(packets)


def _by_pid(packets: list[tuple[int, bytes]]) -> dict[int, Heard]:
    found: dict[int, Heard] = {}
    for pid, data in packets:
        one = found.setdefault(pid, Heard())
        if data[:1] == b"M":
            one.marks.append(decode_mark(pid, data))
        elif data[:1] == b"S":
            one.spans += decode_spans(data)
        elif data[:1] == b"F":
            name, _, value = data[4:].decode().partition("=")
            one.facts[name] = value
    return found
