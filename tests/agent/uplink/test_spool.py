"""Batches wait in order until they are durable; every one that is dropped is counted."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent import __version__
from roofline_agent.errors import Unavailable
from roofline_agent.uplink.memory_queue import MEMORY_BATCHES
from roofline_agent.uplink.pending import MAX_SEQUENCE
from roofline_agent.uplink.spool import Spool
from roofline_agent.uplink.spool_file import FORMAT


class Disk:
    """The disk of one spool, which a test can fill up."""

    def connect(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        self._connection = sqlite3.connect(*arguments, **options)
        return self._connection

    def refuse(self) -> None:
        self._connection.execute("pragma query_only = on")

    def accept(self) -> None:
        self._connection.execute("pragma query_only = off")

    def fill_up(self) -> None:
        self._connection.execute("pragma max_page_count = 1")  # SQLite takes it as what is used already

    def stops_reads(self, stops: bool) -> None:
        self._connection.set_progress_handler((lambda: 1) if stops else None, 1)

    def checkpoint(self) -> None:
        """All is in the file itself, and nothing of it in SQLite's memory."""
        self._connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        self._connection.execute("pragma shrink_memory")

    def batches(self) -> list[int]:
        found = self._connection.execute("select sequence from batch order by sequence")
        return [sequence for (sequence,) in found]

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def spool(tmp_path: Path, disk: Disk) -> Iterator[Spool]:
    spool = Spool(tmp_path / "state" / "spool.db", 1000, disk.connect)
    yield spool
    spool.close()


def fill(spool: Spool, count: int, size: int = 1) -> None:
    for _ in range(count):
        sequence = spool.next_sequence()
        spool.append(sequence, bytes([sequence % 256]) * size)


def sequences(spool: Spool, after: int = 0, limit: int = 10_000) -> list[int]:
    return [pending.sequence for pending in spool.pending(after, limit)]


def test_first_sequence_is_one(spool: Spool) -> None:
    assert spool.next_sequence() == 1
    assert spool.pending(0, 10) == []


def test_batches_come_back_in_order_and_whole(spool: Spool) -> None:
    fill(spool, 5, 3)
    assert spool.pending(2, 2) == [(3, b"\3\3\3"), (4, b"\4\4\4")]
    assert spool.bytes_waiting == 15


def test_acked_batches_are_gone_and_only_they(spool: Spool) -> None:
    fill(spool, 5)
    spool.ack(3)
    assert sequences(spool) == [4, 5]
    assert (spool.bytes_waiting, spool.dropped) == (2, 0)
    spool.ack(2)
    assert sequences(spool) == [4, 5]


def test_full_spool_drops_the_oldest_and_counts(spool: Spool) -> None:
    fill(spool, 7, 300)
    assert sequences(spool) == [5, 6, 7]
    assert (spool.dropped, spool.bytes_waiting) == (4, 900)


def test_reopened_spool_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    first = Spool(path)
    fill(first, 5)
    first.ack(2)
    first.close()
    second = Spool(path)
    assert (second.next_sequence(), sequences(second), second.bytes_waiting) == (6, [3, 4, 5], 3)
    second.ack(5)
    second.close()
    third = Spool(path)
    assert (third.next_sequence(), sequences(third)) == (6, [])
    third.close()


def test_sequence_goes_on_behind_what_the_server_knows(spool: Spool) -> None:
    spool.skip_to(40)
    assert spool.next_sequence() == 41
    spool.skip_to(7)
    assert spool.next_sequence() == 41


def test_welcome_between_number_and_append_is_not_undone(spool: Spool) -> None:
    sequence = spool.next_sequence()
    spool.skip_to(40)
    spool.append(sequence, b"x")
    assert spool.next_sequence() == 41


def test_rejected_batch_is_dropped_and_counted(spool: Spool) -> None:
    fill(spool, 3)
    spool.drop_refused(2)
    assert (sequences(spool), spool.refused, spool.bytes_waiting) == ([1, 3], 1, 2)


def test_batches_wait_in_memory_while_the_disk_takes_nothing(spool: Spool, disk: Disk) -> None:
    fill(spool, 2)
    disk.refuse()
    fill(spool, 2)
    assert spool.pending(0, 10) == [(n, bytes([n])) for n in (1, 2, 3, 4)]
    assert (spool.bytes_waiting, spool.dropped) == (4, 0)
    disk.accept()
    fill(spool, 1)
    assert sequences(spool) == [1, 2, 3, 4, 5]
    spool.ack(4)
    assert sequences(spool) == [5]


def read_only(**_: Any) -> Any:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.parametrize("is_read_only", [False, True])
def test_batches_that_are_lost_at_the_end_are_counted_with_what_the_disk_said(
    tmp_path: Path,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_read_only: bool,
) -> None:
    spool = Spool(tmp_path / "spool.db", connect=disk.connect)
    disk.refuse()
    if is_read_only:
        monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    fill(spool, 2)
    spool.close()
    why = "the file system is read-only" if is_read_only else "attempt to write a readonly database"
    assert f"cannot write the spool ({why}): batches wait in memory" in caplog.text
    assert f"2 batches that wait in memory are lost: {why}" in caplog.text


def test_full_disk_is_like_no_disk(tmp_path: Path, disk: Disk) -> None:
    spool = Spool(tmp_path / "spool.db", connect=disk.connect)
    fill(spool, 10, 4000)
    disk.fill_up()
    fill(spool, 30, 4000)
    assert spool.dropped == 0
    assert sequences(spool) == list(range(1, 41))
    assert len(disk.batches()) < 40, "the others wait in memory"
    assert spool.bytes_waiting == 160_000
    spool.close()


def test_memory_is_bounded_and_counts_its_drops(spool: Spool, disk: Disk) -> None:
    disk.refuse()
    fill(spool, MEMORY_BATCHES + 3)
    assert sequences(spool)[0] == 4
    assert spool.dropped == 3


def test_memory_is_bounded_in_bytes_too(spool: Spool, disk: Disk) -> None:
    disk.refuse()
    fill(spool, 10, 500)
    assert spool.bytes_waiting <= 1000


def test_rejection_survives_a_full_disk(spool: Spool, disk: Disk) -> None:
    fill(spool, 1)
    disk.refuse()
    spool.drop_refused(1)
    assert spool.refused == 1


def test_ack_survives_a_full_disk(spool: Spool, disk: Disk) -> None:
    fill(spool, 1)
    disk.refuse()
    spool.ack(1)
    assert (sequences(spool), spool.bytes_waiting) == ([], 0), "not sent again, though it stays on the disk"
    fill(spool, 1)
    disk.accept()
    fill(spool, 1)
    assert sequences(spool) == disk.batches() == [2, 3]


def test_acked_batches_leave_the_disk_with_the_next_one(spool: Spool, disk: Disk) -> None:
    fill(spool, 3)
    spool.ack(2)
    fill(spool, 1)
    assert disk.batches() == [3, 4]
    spool.ack(4)
    assert (sequences(spool), spool.bytes_waiting) == ([], 0)
    fill(spool, 2, 300)
    assert (disk.batches(), spool.bytes_waiting, spool.dropped) == ([5, 6], 600, 0)


def test_acked_batches_are_not_counted_as_dropped_when_the_spool_is_full(spool: Spool) -> None:
    fill(spool, 3, 300)
    spool.ack(3)
    fill(spool, 4, 300)
    assert (sequences(spool), spool.dropped) == ([5, 6, 7], 1)


def test_agent_killed_before_it_forgets_sends_again_and_loses_no_number(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "spool.db"
    disk_of_killed = Disk()
    killed = Spool(path, connect=disk_of_killed.connect)
    fill(killed, 3)
    killed.ack(3)
    second = Spool(path, connect=disk.connect)  # the first one never closed
    assert (second.next_sequence(), sequences(second)) == (4, [1, 2, 3])
    second.ack(3)  # the server's welcome
    assert (sequences(second), second.bytes_waiting) == ([], 0)
    fill(second, 1)
    assert disk.batches() == [4]
    second.close()
    disk_of_killed.close()


def test_newest_is_returned_whatever_happened_before_it(spool: Spool, disk: Disk) -> None:
    fill(spool, 2)
    assert spool.pending(1, 10) == [(2, b"\2")]
    assert spool.pending(2, 10) == []
    assert spool.pending(1, 0) == []
    spool.drop_refused(2)
    assert spool.pending(1, 10) == []
    disk.refuse()
    fill(spool, 1)
    assert sequences(spool, 2) == [3]
    disk.accept()
    fill(spool, 1)
    assert (sequences(spool, 2), sequences(spool, 3)) == ([3, 4], [4])


def test_identity_is_kept(tmp_path: Path) -> None:
    for fresh in ("a", "b"):
        spool = Spool(tmp_path / "spool.db")
        assert spool.identity(fresh) == "a"
        spool.close()


def test_directory_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="choose another --state"):
        Spool(tmp_path / "file" / "spool.db")


def test_every_opening_of_a_spool_begins_a_lineage(tmp_path: Path) -> None:
    lineages = set()
    for _ in range(2):
        spool = Spool(tmp_path / "spool.db")
        lineages.add(spool.lineage)
        spool.begin_lineage()
        lineages.add(spool.lineage)
        spool.close()
    assert len(lineages) == 4


@pytest.mark.parametrize("number", [MAX_SEQUENCE + 1, 2**63 - 1])
def test_spool_with_an_absurd_number_goes_on(tmp_path: Path, number: int) -> None:
    spool = Spool(tmp_path / "spool.db")
    fill(spool, 2)
    spool.append(number, b"x")
    spool.ack(number)
    spool.close()
    again = Spool(tmp_path / "spool.db")
    fill(again, 2)
    assert again.next_sequence() < MAX_SEQUENCE
    assert len(sequences(again)) == 2
    again.close()


def test_batch_that_waits_can_be_had_and_taken_away_uncounted(spool: Spool) -> None:
    fill(spool, 3)
    assert (spool.get(2), spool.get(4)) == (b"\2", None)
    spool.remove(2)
    assert (spool.get(2), sequences(spool), spool.dropped, spool.bytes_waiting) == (None, [1, 3], 0, 2)


def test_single_batches_leave_at_once_and_the_disk_with_the_next_one(spool: Spool, disk: Disk) -> None:
    fill(spool, 5, 10)
    spool.ack_single([2, 5])
    assert sequences(spool) == [1, 3, 4]
    assert sequences(spool, 1, 1) == [3]
    assert spool.bytes_waiting == 30
    assert disk.batches() == [1, 2, 3, 4, 5]
    fill(spool, 1, 10)
    assert disk.batches() == [1, 3, 4, 6]
    spool.ack_single([1, 3, 4, 6])
    assert spool.bytes_waiting == 0
    assert spool.acked == 6


def test_agent_killed_before_it_forgets_single_ones_sends_them_again(tmp_path: Path, disk: Disk) -> None:
    spool = Spool(tmp_path / "spool.db", 1000, disk.connect)
    fill(spool, 4)
    spool.ack_single([3, 4])
    disk.close()
    again = Spool(tmp_path / "spool.db")
    assert sequences(again) == [1, 2, 3, 4]
    assert again.next_sequence() == 5
    again.close()


def test_none_overtakes_an_end_or_what_an_earlier_process_left(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db")
    assert spool.in_order_through == 0
    fill(spool, 3)
    spool.append(4, b"ends", has_ends=True)
    fill(spool, 3)
    assert spool.in_order_through == 4
    spool.close()
    again = Spool(tmp_path / "spool.db")
    assert again.in_order_through == 7
    again.close()


class Model(NamedTuple):
    """What should wait: number -> bytes."""

    waiting: dict[int, int]

    def check(self, spool: Spool) -> None:
        assert sequences(spool) == sorted(self.waiting)
        assert spool.bytes_waiting == sum(self.waiting.values())


@given(
    st.lists(st.tuples(st.sampled_from(("fill", "single", "ack", "remove", "reopen")), st.integers(0, 40)))
)
def test_spool_holds_what_is_not_acknowledged_whatever_the_order_of_acks(
    tmp_path_factory: pytest.TempPathFactory, does: list[tuple[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("spool") / "spool.db"
    spool, model = Spool(path), Model({})
    for what, number in does:
        if what == "fill":
            model.waiting[spool.next_sequence()] = number + 1  # no batch is empty
            spool.append(spool.next_sequence(), bytes(number + 1))
        elif what == "single":
            some = [number, number + 2]
            spool.ack_single([one for one in some if one < spool.next_sequence()])
            for one in some:
                model.waiting.pop(one, None)
        elif what == "ack":
            spool.ack(number)
            for one in [one for one in model.waiting if one <= number]:
                del model.waiting[one]
        elif what == "remove":
            spool.remove(number)
            model.waiting.pop(number, None)
        else:
            spool.close()
            spool = Spool(path)
        model.check(spool)
    spool.close()


def test_spool_of_a_later_release_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    spool = Spool(path)
    fill(spool, 3)
    spool.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        said = dict(db.execute("select name, value from state"))
        assert (said["format"], said["release"]) == (str(FORMAT), __version__)
        for name, value in (("format", str(FORMAT + 1)), ("release", "9.9.9")):
            db.execute("update state set value = ? where name = ?", (value, name))
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    with pytest.raises(Unavailable, match=f"format {FORMAT + 1} .* roofline-agent 9[.]9[.]9; .* later one"):
        Spool(path)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


SMALL_DISK = """
import logging, os, signal, subprocess, sys
from pathlib import Path
from roofline_agent.uplink.spool import Spool
logging.basicConfig(format="%(message)s", stream=sys.stdout)
folder, killed = Path(sys.argv[1]), sys.argv[2] == "killed"
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder], check=True)
first = os.fork()
if not first:
    spool = Spool(folder / "spool.db")
    spool.identity("a" * 32)
    for sequence in range(1, 8):
        spool.append(sequence, b"x")
    spool.ack(3)
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
    spool.close()
    os._exit(0)
os.waitpid(first, 0)
ballast = folder / "ballast"
with open(ballast, "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        pass
again = Spool(folder / "spool.db")
again.append(again.next_sequence(), b"y")
print(again.identity("b" * 32)[0], [one.sequence for one in again.pending(0, 10)], again.dropped)
again.ack(8)
print(again.pending(0, 10), again.bytes_waiting)
again.close()
ballast.unlink()
third = Spool(folder / "spool.db")
print(third.identity("c" * 32)[0], [one.sequence for one in third.pending(0, 10)])
third.close()
"""


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("unshare"), reason="needs a disk of its own, as root"
)
@pytest.mark.parametrize(
    ("ended", "left"), [("stopped", "[4, 5, 6, 7]"), ("killed", "[1, 2, 3, 4, 5, 6, 7]")]
)
def test_agent_that_starts_on_a_full_disk_goes_on_in_memory_as_the_same(
    tmp_path: Path, ended: str, left: str
) -> None:
    if subprocess.run(["unshare", "--mount", "true"]).returncode:
        pytest.skip("unshare --mount is not permitted here")
    command = ["unshare", "--mount", sys.executable, "-c", SMALL_DISK, tmp_path, ended]
    done = subprocess.run(command, capture_output=True, text=True)
    said, *found = done.stdout.splitlines()
    assert "batches wait in memory until the agent is started again" in said, done.stderr
    assert found == ["a [8] 0", "[] 0", f"a {left}"]


PAGE = 4096


def overwrite(path: Path, begin: int, size: int) -> None:
    data = bytearray(path.read_bytes())
    data[begin : begin + size] = b"\xa5" * size
    path.write_bytes(data)


def asides(path: Path) -> list[Path]:
    return sorted(path.parent.glob("spool.db.damaged-*Z"))


def filled(path: Path) -> str:
    """A spool with 30 batches, on several pages: its agent's name."""
    spool = Spool(path)
    agent = spool.identity(uuid.uuid4().hex)
    fill(spool, 30, 1000)
    spool.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma wal_checkpoint(truncate)")
    return agent


def test_damaged_page_costs_what_waits_and_not_the_identity(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "spool.db"
    agent = filled(path)
    overwrite(path, path.stat().st_size - PAGE, PAGE)
    damaged = path.read_bytes()
    spool = Spool(path)
    assert (spool.next_sequence(), sequences(spool), spool.bytes_waiting) == (1, [], 0)
    assert (spool.identity("another"), spool.dropped) == (agent, 0)
    assert 1 <= spool.damaged <= 30
    (aside,) = asides(path)
    assert aside.read_bytes() == damaged
    assert f"it is now {aside.name}" in caplog.text
    fill(spool, 2)
    spool.close()
    again = Spool(path)
    assert (sequences(again), again.identity("another"), again.damaged) == ([1, 2], agent, 0)
    again.close()


@pytest.mark.parametrize("begin", [0, 100, 16], ids=["magic", "schema page", "header"])
def test_file_that_cannot_be_read_at_all_is_set_aside_and_the_last_one_kept(
    tmp_path: Path, begin: int
) -> None:
    path = tmp_path / "spool.db"
    for _ in range(2):
        filled(path)
        overwrite(path, begin, 2000)
        spool = Spool(path)
        assert spool.identity("anew") == "anew"
        assert spool.damaged >= 1
        fill(spool, 3)
        spool.close()
        path.unlink()
    assert len(asides(path)) == 1


def test_damaged_text_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    filled(path)
    data = bytearray(path.read_bytes())
    data[data.index(b"acked") + 5] = 0xFF  # its value, "0"
    path.write_bytes(data)
    spool = Spool(path)
    assert spool.damaged == 30
    spool.close()


def damage_while_open(path: Path, disk: Disk) -> None:
    disk.checkpoint()
    with path.open("r+b") as file:
        file.seek(2 * PAGE)
        file.write(b"\xa5" * (path.stat().st_size - 2 * PAGE))


@pytest.mark.parametrize("does", ["pending", "ack", "ack_single", "remove", "append"])
def test_damage_of_an_open_spool_costs_what_waits_and_nothing_later(
    tmp_path: Path, disk: Disk, does: str
) -> None:
    path = tmp_path / "spool.db"
    spool = Spool(path, connect=disk.connect)
    agent, lineage = spool.identity(uuid.uuid4().hex), spool.lineage
    fill(spool, 30, 1000)
    damage_while_open(path, disk)
    if does == "ack":
        spool.ack(3)
    elif does == "ack_single":
        spool.ack_single([3])
    elif does == "remove":
        spool.remove(3)
    elif does == "append":
        spool.ack(30)
        fill(spool, 1)
    assert all(one > 30 for one in sequences(spool, limit=5))
    fill(spool, 2)
    assert sequences(spool)[-2:] == [spool.next_sequence() - 2, spool.next_sequence() - 1]
    assert spool.damaged >= 1
    assert len(asides(path)) == 1
    spool.close()
    again = Spool(path)
    assert again.identity("another") == agent
    assert again.lineage != lineage
    assert sequences(again)[-1] == again.next_sequence() - 1
    again.close()


def test_disk_that_does_not_answer_for_a_while_costs_nothing(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "spool.db"
    spool = Spool(path, connect=disk.connect)
    fill(spool, 5, 1000)
    disk.stops_reads(True)
    with pytest.raises(Unavailable, match="cannot be read now"):
        spool.pending(0, 10)
    disk.stops_reads(False)
    assert sequences(spool) == [1, 2, 3, 4, 5]
    assert spool.damaged == 0 and asides(path) == []
    spool.close()


def test_full_spool_that_is_damaged_goes_on(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "spool.db"
    spool = Spool(path, 30_000, connect=disk.connect)
    fill(spool, 30, 1000)
    damage_while_open(path, disk)
    fill(spool, 3, 1000)
    assert sequences(spool)[-1] == 33
    assert spool.damaged >= 1
    spool.close()


def test_without_a_new_file_batches_wait_in_memory(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state" / "spool.db"
    spool = Spool(path, connect=disk.connect)
    fill(spool, 30, 1000)
    damage_while_open(path, disk)
    path.parent.rename(tmp_path / "away")
    assert sequences(spool) == []
    fill(spool, 3)
    assert sequences(spool) == [31, 32, 33]
    spool.close()
    assert "3 batches that wait in memory are lost" in caplog.text


def test_use_after_the_end_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    spool = Spool(path)
    fill(spool, 3)
    spool.close()
    with pytest.raises(Unavailable):
        spool.pending(0, 9)
    assert asides(path) == []


def test_directory_that_is_no_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "spool.db").mkdir()
    with pytest.raises(Unavailable, match=r"cannot keep a spool .* choose another --state"):
        Spool(tmp_path / "spool.db")
    assert asides(tmp_path / "spool.db") == []


def test_what_waits_in_memory_goes_to_the_disk_when_that_has_room_again(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "spool.db"
    spool = Spool(path, 1000, disk.connect)
    fill(spool, 1)
    disk.refuse()
    fill(spool, 3)
    disk.accept()
    fill(spool, 1)
    assert disk.batches() == sequences(spool) == [1, 2, 3, 4, 5] and spool.bytes_waiting == 5
    disk.refuse()
    fill(spool, 1)
    disk.accept()
    spool.close()
    assert sequences(Spool(path)) == [1, 2, 3, 4, 5, 6], "an agent that is stopped loses none"


def test_memory_that_is_lost_at_the_end_is_told(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path / "spool.db", 1000, disk.connect)
    disk.refuse()
    fill(spool, 3)
    spool.close()
    assert "3 batches that wait in memory are lost" in caplog.text


def test_backlog_is_read_once(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the server has of it, but what is still on disk, is not read with each of its acks."""
    fill(spool, 100)
    read: list[int] = []
    in_file = spool._in_file
    monkeypatch.setattr(spool, "_in_file", lambda *asked: read.append(len(found := in_file(*asked))) or found)
    for first in range(0, 100, 10):
        spool.pending(first, 10)
        spool.ack_single(range(first + 1, first + 11))
    assert sum(read) <= 110


def test_losses_are_told_by_what_they_come_from(spool: Spool) -> None:
    fill(spool, 5, 300)
    spool.drop_refused(4)
    spool.drop_damaged(5)
    assert spool.take_losses() == [
        (2, "spool full"),
        (1, "spool damaged"),
        (1, "refused by the server"),
    ]
    assert spool.take_losses() == []
