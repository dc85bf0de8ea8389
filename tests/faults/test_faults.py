"""Some rounds of the fault matrix, one of each kind; and that what judges them sees what is wrong."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .check import Tally, expected_rows, tally
from .network import network_rounds
from .places import PLACES, Cell
from .power import cut
from .results import PAGE, from_json, line, table, to_json, write_section
from .rounds import Outcome, disk_round
from .sender import Sender
from .shim import (
    EIO,
    ENOSPC,
    KILL_BEFORE,
    POWER_BEFORE,
    SHORT,
    TORN,
    CannotBuild,
    Control,
    Fault,
    Rule,
    build,
)
from .statistics import slope

BY_NAME = {place.name: place for place in PLACES}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return build(tmp_path_factory.mktemp("shim"))
    except CannotBuild as error:
        pytest.skip(str(error))


def judged(outcome: Outcome) -> None:
    assert outcome.is_good, line(outcome)
    assert outcome.is_reached, line(outcome)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("inbox append, write", TORN),
        ("inbox append, fsync", EIO),
        ("catalog commit, fsync", POWER_BEFORE),
        ("sealing, write", ENOSPC),
        ("sealing, rename", KILL_BEFORE),
        ("start, inbox opened", EIO),
        ("start, tidy", KILL_BEFORE),
    ],
    ids=str,
)
def test_fault_of_the_disk_costs_no_acknowledged_row(
    place: str, fault: Fault, tmp_path: Path, library: Path
) -> None:
    judged(asyncio.run(disk_round(Cell(BY_NAME[place], fault), 1, tmp_path, library)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["network: resets", "network: server killed thrice"])
def test_bad_network_costs_nothing(name: str, tmp_path: Path) -> None:
    judged(asyncio.run(network_rounds(None)[name](1, tmp_path)))


@pytest.mark.slow
def test_jump_of_the_servers_clock_costs_nothing(tmp_path: Path, library: Path) -> None:
    judged(asyncio.run(network_rounds(library)["server's clock: an hour back"](1, tmp_path)))


# -- the shim -----------------------------------------------------------------------------------------

WRITES = """
import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for _ in range(4):
    try:
        print(os.write(file, b"12345678"), flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
print("an hour later" if time.time() > float(sys.argv[2]) + 1800 else "now")
"""


@pytest.fixture
def control(tmp_path: Path, library: Path) -> Iterator[Control]:
    yield Control(tmp_path / "control", library)


def written(control: Control, path: Path, since: float = 2.0**40) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WRITES, str(path), str(since)],
        env={**os.environ, **control.environ},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_call_of_a_number_fails_and_is_counted(control: Control, tmp_path: Path) -> None:
    control.arm(Rule("write", "*/chosen", ENOSPC, skip=1, most=2))
    full = os.strerror(ENOSPC.error)
    assert written(control, tmp_path / "chosen").stdout.splitlines()[:4] == ["8", full, full, "8"]
    assert (control.seen(), control.fired()) == (4, 2)
    assert written(control, tmp_path / "other").stdout.splitlines()[:4] == ["8"] * 4
    control.clear()
    assert written(control, tmp_path / "chosen").stdout.splitlines()[:4] == ["8"] * 4


def test_write_that_is_short_and_one_that_is_torn(control: Control, tmp_path: Path) -> None:
    control.arm(Rule("write", "*/short", SHORT, most=1), Rule("write", "*/torn", TORN, skip=1, most=1))
    assert written(control, tmp_path / "short").stdout.splitlines()[:4] == ["4", "8", "8", "8"]
    done = written(control, tmp_path / "torn")
    assert (done.stdout, done.returncode) == ("8\n", -9)
    assert (tmp_path / "torn").read_bytes() == b"123456781234"
    assert (control.fired(0), control.fired(1)) == (1, 1)


def test_kill_comes_before_the_call(control: Control, tmp_path: Path) -> None:
    control.arm(Rule("write", "*/file", KILL_BEFORE, skip=2))
    assert written(control, tmp_path / "file").returncode == -9
    assert (tmp_path / "file").read_bytes() == b"12345678" * 2


UNSYNCED = """
import os, sys
folder = sys.argv[1]
def made(name, data):
    file = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT)
    os.write(file, data)
    return file
half = made("half", b"durable!")
os.fsync(half)
os.pwrite(half, b"XX", 2)
os.write(half, b" and more")
os.ftruncate(half, 5)
os.fsync(made("kept.tmp", b"kept"))
os.rename(f"{folder}/kept.tmp", f"{folder}/kept")
os.fsync(os.open(folder, os.O_RDONLY))
os.fsync(made("late.tmp", b"late"))
os.rename(f"{folder}/late.tmp", f"{folder}/late")
made("never", b"never")
"""


class Worst(random.Random):
    """No write survives that need not."""

    def choice(self, options: Any) -> Any:
        return options[0]


def test_power_cut_takes_what_was_not_synced(control: Control, tmp_path: Path) -> None:
    data, journal = tmp_path / "data", tmp_path / "journal"
    data.mkdir()
    journal.touch()
    environ = {"ROOFLINE_JOURNAL": str(journal), "ROOFLINE_JOURNALED": str(data)}
    command = [sys.executable, "-c", UNSYNCED, str(data)]
    subprocess.run(command, env={**os.environ, **control.environ, **environ}, check=True, timeout=60)
    assert (data / "half").read_bytes() == b"duXXb"
    assert cut(journal, Worst()) == 5
    found = {path.name: path.read_bytes() for path in data.iterdir()}
    assert found == {"half": b"durable!", "kept": b"kept", "late.tmp": b"late", "never": b""}
    assert cut(journal, Worst()) == 0, "the journal begins anew"


def test_clock_of_a_process_is_moved(control: Control, tmp_path: Path) -> None:
    now = (tmp_path / "control").stat().st_mtime
    assert written(control, tmp_path / "file", now).stdout.splitlines()[4] == "now"
    control.move_clock(3600)
    assert written(control, tmp_path / "file", now).stdout.splitlines()[4] == "an hour later"


# -- who judges ---------------------------------------------------------------------------------------


def test_lost_doubled_and_unknown_rows_are_counted() -> None:
    acked, sent = np.array([1, 2, 3, 4]), np.array([1, 2, 3, 4, 5, 6])
    assert tally(acked, sent, np.array([4, 3, 2, 1])) == (0, 0, 0)
    assert tally(acked, sent, np.array([4, 3, 2, 1, 6])) == (0, 0, 0), "not acknowledged, and there"
    assert tally(acked, sent, np.array([4, 2, 2, 2, 1, 5, 5, 9])) == (1, 3, 1)


def test_no_row_of_a_sender_is_like_another() -> None:
    senders = [Sender(number, lambda: "") for number in range(3)]
    rows = np.concatenate([expected_rows(sender, 100) for sender in senders])
    assert len(np.unique(rows)) == 3 * 100 * senders[0].rows


EXACT = Tally(10, 0, 0, 0, 4, 0, 0, 0)
GOOD = Outcome("disk", "inbox", "EIO", 1, 3, EXACT, 0, 0, 0, 1.5)


@pytest.mark.parametrize(
    "changed",
    [
        {"tally": EXACT._replace(lost=1)},
        {"tally": EXACT._replace(steps_doubled=1)},
        {"tally": None},
        {"forgotten": 1},
        {"tracebacks": 1},
        {"exit_code": 1},
        {"problem": "it did not come back"},
    ],
    ids=str,
)
def test_outcome_is_good_only_if_nothing_is_wrong(changed: dict[str, object]) -> None:
    assert GOOD.is_good
    assert not GOOD._replace(**changed).is_good


def test_table_has_a_line_for_each_place_and_the_sum(tmp_path: Path) -> None:
    lost = GOOD._replace(fault="ENOSPC", tally=EXACT._replace(lost=2), fired=0)
    outcomes = [GOOD, lost, GOOD._replace(place="segments")]
    assert from_json(to_json(outcomes)) == outcomes
    lines = table(outcomes)
    assert lines[2:] == [
        "| inbox | EIO, ENOSPC | 2 | 1 | 20 | 2 | 0 | 1 |",
        "| segments | EIO | 1 | 1 | 10 | 0 | 0 | 1 |",
        "| **all** | 2 kinds | 3 | 2 | 30 | 2 | 0 | 2 |",
    ]
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- x: begin -->\nold\n<!-- x: end -->\nafter\n")
    write_section(page, "x", lines)
    assert "old" not in page.read_text()
    assert page.read_text().startswith("before\n<!-- x: begin -->\n\n| place")
    with pytest.raises(ValueError, match="lacks the comments"):
        write_section(page, "y", lines)


@pytest.mark.parametrize("name", ["fault matrix", "kills", "flips", "fuzz", "soak"])
def test_page_has_a_place_for_each_table(name: str) -> None:
    assert f"<!-- {name}: begin -->" in PAGE.read_text()


def test_slope_of_a_line_and_of_noise() -> None:
    x = [float(at) for at in range(200)]
    line_ = slope(x, [3 + 2 * at for at in x])
    assert (line_.slope, line_.low, line_.high) == pytest.approx((2, 2, 2))
    noise = slope(x, [(at * 7919) % 13 for at in x])
    assert noise.low < 0 < noise.high
