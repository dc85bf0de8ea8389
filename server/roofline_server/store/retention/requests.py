"""What `roofline-server prune` asks of a server that works with the same data: files in the data directory,
which only the server's user can write.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import UnknownJob
from ...records import CutLevel
from .apply import MakeReport, Retention
from .plan import Cut, Policy

ASKED, ANSWERED = "prune.ask", "prune.answer"
LOOK_S = 0.1


class PruneRequest(NamedTuple):
    policy: Policy
    dry_run: bool


def fulfil(request: PruneRequest, retention: Retention, make_report: MakeReport) -> list[Cut]:
    """What was cut, or would be. Raises what cannot be read or written."""
    if request.dry_run:
        return retention.plan(request.policy)
    return retention.apply(request.policy, make_report)


# -- the server's end ----------------------------------------------------------------------------------------


def waits(data: Path) -> bool:
    """Whether somebody has asked."""
    return (data / ASKED).exists()


def forget(data: Path) -> None:
    """What is of a time before this server. Who asked while it was starting waits still, and has the lock."""
    folder = _folder(data)
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for name in (ASKED, ANSWERED):
                (data / name).unlink(missing_ok=True)
    finally:
        os.close(folder)


def _folder(data: Path) -> int:
    """The folder itself is locked by who asks: another user could not open a file that root has made."""
    return os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def answer(data: Path, retention: Retention, make_report: MakeReport) -> None:
    """Do what is asked for. Raises OSError."""
    text = (data / ASKED).read_text()
    (data / ASKED).unlink()
    made: dict[str, Any] = {}
    try:
        fields = json.loads(text)
        made["id"] = fields["id"]
        cuts = fulfil(_request(fields), retention, make_report)
        made["cuts"] = [[cut.job, int(cut.level), cut.bytes] for cut in cuts]
    except Exception as error:
        made["error"] = str(error) or type(error).__name__
        made["unknown_job"] = isinstance(error, UnknownJob)
    _write(data / ANSWERED, made)


# -- the command's end ---------------------------------------------------------------------------------------


def ask(data: Path, request: PruneRequest, runs: Callable[[], bool], seconds: float) -> list[Cut] | None:
    """What the server did; None: it stopped, or was silent for so many seconds. runs: whether it still works.

    Raises OSError, UnknownJob, and ValueError with what else went wrong at the server.
    """
    deadline = time.monotonic() + seconds
    with _turn(data, lambda: runs() and time.monotonic() < deadline) as mine:
        return _ask(data, request, runs, deadline) if mine else None


@contextlib.contextmanager
def _turn(data: Path, waits: Callable[[], bool]) -> Iterator[bool]:
    """One asks after another: there is one file to ask with. False: it was in vain to wait."""
    folder = _folder(data)
    try:
        while waits():
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(LOOK_S)
        yield waits()
    finally:
        os.close(folder)


def _ask(data: Path, request: PruneRequest, runs: Callable[[], bool], deadline: float) -> list[Cut] | None:
    name = uuid.uuid4().hex
    policy = {**request.policy._asdict(), "deepest": int(request.policy.deepest)}
    policy["times"] = {int(level): times for level, times in request.policy.times.items()}
    _write(data / ASKED, {"id": name, "policy": policy, "dry_run": request.dry_run})
    try:
        while time.monotonic() < deadline and runs():
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                made = json.loads((data / ANSWERED).read_text())
                if made.get("id") == name:
                    (data / ANSWERED).unlink(missing_ok=True)
                    return _cuts(made)
            time.sleep(LOOK_S)
        return None
    finally:
        (data / ASKED).unlink(missing_ok=True)  # nobody waits for it any more


def _cuts(made: dict[str, Any]) -> list[Cut]:
    if made.get("unknown_job"):
        raise UnknownJob(made["error"])
    if "error" in made:
        raise ValueError(made["error"])
    return [Cut(job, CutLevel(level), size) for job, level, size in made["cuts"]]


def _request(fields: dict[str, Any]) -> PruneRequest:
    policy = dict(fields["policy"])
    policy["deepest"] = CutLevel(policy["deepest"])
    policy["times"] = {CutLevel(int(level)): times for level, times in policy["times"].items()}
    tagged: Sequence[str] = policy["tagged"]
    return PruneRequest(Policy(**{**policy, "tagged": tuple(tagged)}), bool(fields["dry_run"]))


def _write(path: Path, fields: dict[str, Any]) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(json.dumps(fields))
        temporary.rename(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
