"""The watch on real files that grow as Horovod makes them grow."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from roofline_agent.horovod import private_file
from roofline_agent.horovod.timeline import READ, TimelineWatch, watch

from tests.fakes import AGENT, clean_environ

from .events import begin, end, sized, started

RANK_0 = {"HOROVOD_RANK": "0"}


class Writer:
    """Writes as Horovod does: always valid JSON, a comma over the last bracket."""

    def __init__(self, path: str | Path, epoch_us: int | None = None) -> None:
        self.file: IO[bytes] = open(path, "wb", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self.file.close)
        epoch_us = time.time_ns() // 1000 if epoch_us is None else epoch_us
        sort = {"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}}
        lines = f"{_text(started(epoch_us))},\n{_text(sort)},\n"
        self.file.write(b"[\n" + lines.encode() + b'{"ph": "i", "name": "CYCLE_START", "ts": 0, "s": "g"}]')

    def write(self, *events: dict[str, Any]) -> None:
        for event in events:
            self.file.seek(-1, os.SEEK_CUR)
            self.file.write(b"," + _text(event).encode() + b"]")


def _text(event: dict[str, Any]) -> str:
    return json.dumps(event).replace('micros": ', 'micros":')


def allreduces(count: int, pid: int = 1) -> list[dict[str, Any]]:
    events = []
    for k in range(count):
        events += [begin("ALLREDUCE", 10 * k, pid), begin("MPI_ALLREDUCE", 10 * k + 1, pid)]
        events += [end(10 * k + 5, pid), sized(10 * k + 6, pid, 3)]
    return events


def executed(spans: list[Any]) -> int:
    return sum(span[4] for span in spans if span[0] == "engine.allreduce")


@pytest.fixture
def own() -> Iterator[TimelineWatch]:
    made = watch({}, True)
    assert made is not None
    yield made
    made.close()


def test_file_of_our_own_is_read_as_it_grows(own: TimelineWatch) -> None:
    writer = Writer(own.environ["HOROVOD_TIMELINE"])
    assert own.look() == []
    before = time.monotonic_ns()
    for _ in range(3):
        writer.write(*allreduces(5))
        assert executed(own.look()) == 5
    writer.write(*allreduces(1))
    span = next(span for span in own.look() if span[0] == "engine.allreduce")
    assert abs(span[1] - before) < 1_000_000_000 and span[2] - span[1] == 4000 and span[3] == 12
    assert own.environ["HOROVOD_TIMELINE_MARK_CYCLES"] == "1" and own.environ[READ] == "1"


def test_what_has_been_read_takes_up_no_disk(own: TimelineWatch) -> None:
    writer = Writer(own.environ["HOROVOD_TIMELINE"])
    for _ in range(20):
        writer.write(*allreduces(300))
        assert executed(own.look()) == 300
    status = os.fstat(writer.file.fileno())
    assert status.st_size > 1_000_000
    assert status.st_blocks * 512 < 100_000


def test_file_of_our_own_has_no_name_and_ends_with_us(own: TimelineWatch) -> None:
    path = own.environ["HOROVOD_TIMELINE"]
    assert os.readlink(path).endswith("(deleted)")
    own.close()
    assert not os.path.exists(path)
    assert own.look() == []


def test_reset_of_an_elastic_job_begins_the_file_anew(own: TimelineWatch) -> None:
    path = own.environ["HOROVOD_TIMELINE"]
    Writer(path).write(*allreduces(50))
    assert executed(own.look()) == 50
    again = Writer(path, time.time_ns() // 1000 + 5)
    again.write(*allreduces(3))
    assert executed(own.look()) == 3
    again.write(*allreduces(4))
    assert executed(own.look()) == 4


def test_torn_event_comes_with_its_rest(own: TimelineWatch) -> None:
    writer = Writer(own.environ["HOROVOD_TIMELINE"])
    writer.write(*allreduces(1)[:-1])
    rest = ("," + _text(sized(6, 1, 3)) + "]").encode()
    writer.file.seek(-1, os.SEEK_CUR)
    writer.file.write(rest[:20])
    assert executed(own.look()) == 0
    writer.file.write(rest[20:])
    assert executed(own.look()) == 1


def test_users_file_is_read_by_rank_0_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    environ = {"HOROVOD_TIMELINE": str(path)}
    assert watch({**environ, "HOROVOD_RANK": "1"}, True) is None
    assert watch({**environ, "OMPI_COMM_WORLD_RANK": "3"}, False) is None
    found = watch({**environ, **RANK_0}, False)
    assert found is not None and "HOROVOD_TIMELINE" not in found.environ
    assert found.look() == []
    writer = Writer(path)
    writer.write(*allreduces(2000))
    assert executed(found.look()) == 2000
    assert b"\0" not in path.read_bytes()
    json.loads(path.read_text())
    found.close()
    assert path.exists()


def test_file_of_an_earlier_run_is_not_this_ones(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    Writer(path, time.time_ns() // 1000 - 60_000_000).write(*allreduces(7))
    found = watch({"HOROVOD_TIMELINE": str(path), **RANK_0}, False)
    assert found is not None
    assert found.look() == []
    Writer(path).write(*allreduces(2))
    assert executed(found.look()) == 2
    path.unlink()
    assert found.look() == []
    Writer(path).write(*allreduces(3))
    assert executed(found.look()) == 3
    found.close()


def test_nothing_is_watched_unless_somebody_wants_it() -> None:
    assert watch(RANK_0, False) is None
    assert watch({"HOROVOD_TIMELINE": "DYNAMIC"}, True) is None


def test_ranks_agree_even_where_no_file_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job in which only some ranks have HOROVOD_TIMELINE hangs."""
    monkeypatch.setattr("roofline_agent.horovod.timeline.private_file", lambda: None)
    messages: list[str] = []
    made = watch(RANK_0, True, messages.append)
    assert made is not None and made.environ["HOROVOD_TIMELINE"] == "DYNAMIC" and READ not in made.environ
    assert made.look() == []
    assert "set TMPDIR" in messages[0]


def test_no_file_where_blocks_cannot_be_given_back(tmp_path: Path) -> None:
    assert private_file.private_file([str(tmp_path / "missing"), "/proc"]) is None
    code = "from roofline_agent.horovod import private_file; print(private_file.private_file())"
    limited = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, resource.RLIM_INFINITY)),
    )
    assert limited.stdout == "None\n", limited.stderr


def test_holes_are_made_where_they_are_meant() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * 40_000)
        file.flush()
        assert private_file.free_blocks(file.fileno(), 5000, 30_000)
        content = os.pread(file.fileno(), 50_000, 0)
        assert len(content) == 40_000
        assert content[:8192] == b"x" * 8192 and content[28_672:] == b"x" * 11_328
        assert set(content[8192:28_672]) == {0}


PROGRAM = "import os; print({name: value for name, value in os.environ.items() if 'HOROVOD' in name})"


@pytest.mark.parametrize("option", [[], ["--horovod-timeline"]], ids=["without", "with"])
def test_command_has_a_timeline_only_if_asked_for(option: list[str]) -> None:
    done = subprocess.run(
        [*AGENT, "run", "--quiet", *option, "--", sys.executable, "-c", PROGRAM],
        env=clean_environ(ROOFLINE_SOCKET="/nowhere"),
        capture_output=True,
        text=True,
    )
    assert ("HOROVOD_TIMELINE" in done.stdout) == bool(option), done.stderr
