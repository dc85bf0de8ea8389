"""Campaigns of kills, fuzz in turns, flipped bits and soaks: a few of each, and what judges them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .campaign import POINTS, CampaignResult, Kills
from .campaigns import campaign_json, campaign_of, campaign_table
from .check import Tally, expected_rows, tally_rows
from .flips import flips_table, run_flips
from .forking import Forker
from .fuzz.campaign import SHARES, next_target
from .fuzz.coverage import Corpus
from .fuzz.running import Counts
from .fuzz.tally import Row, add, code_version, fuzz_table, row_of, rows_in, total
from .places import FAULTS
from .repairs import REPAIR, Repairs
from .sender import Sender
from .shim import CannotBuild, build
from .site import Site
from .soak import Block, Memory, SoakResult, described, memory_of, per_hour, soak_json, soak_of
from .statistics import Slope, slope, slope_beside


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return build(tmp_path_factory.mktemp("shim"))
    except CannotBuild as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("point", [*POINTS, REPAIR])
def test_kills_cost_no_acknowledged_row(point: str, tmp_path: Path, library: Path) -> None:
    kind = Repairs if point == REPAIR else Kills
    result = asyncio.run(kind(point, tmp_path, library, 1).run(6, 300, lambda _: None))
    assert result.is_good, result
    assert result.kills >= 6
    assert sum(result.killed.values()) == result.kills


@pytest.mark.slow
def test_rows_that_a_store_loses_end_a_campaign(tmp_path: Path, library: Path) -> None:
    campaign = Kills("sealing", tmp_path, library, 1)

    async def lose() -> None:
        """Stands for a kill."""
        campaign.count("sealing", FAULTS["rename"][0])
        campaign.senders[0].acked += 1
        await asyncio.sleep(0)

    campaign.break_once = lose  # type: ignore[method-assign]
    result = asyncio.run(campaign.run(40, 60, lambda _: None))
    assert not result.is_good


@pytest.mark.slow
def test_forked_server_ends_as_a_fresh_one(tmp_path: Path) -> None:
    async def both(forks: bool) -> tuple[int, int]:
        site = Site(tmp_path / str(forks), None, forks=forks)
        try:
            await site.start()
            stopped = await site.stop()
            await site.start()
            await site.kill()
            return stopped, site.server.wait()
        finally:
            site.clean_up()

    assert asyncio.run(both(True)) == asyncio.run(both(False)) == (0, -signal.SIGKILL)


def test_forked_process_has_the_arguments_and_the_log(tmp_path: Path) -> None:
    forker = Forker(os.environ)
    try:
        assert forker.start(["--version"], tmp_path / "log").wait() == 0
        assert forker.start(["--no-such-option"], tmp_path / "log").wait() == 2
    finally:
        forker.close()
    said = (tmp_path / "log").read_text()
    assert "roofline-server " in said
    assert "no-such-option" in said


# -- who judges ---------------------------------------------------------------------------------------


def senders() -> list[Sender]:
    found = [Sender(number, lambda: "", rows=4) for number in (0, 2)]
    for sender in found:
        sender.acked, sender.sequence = 3, 4
    return found


def all_rows() -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.concatenate([expected_rows(sender, 3) for sender in senders()])


@pytest.mark.parametrize("pieces", [1, 7])
def test_rows_are_counted_in_pieces(pieces: int) -> None:
    rows = all_rows()

    def counted(found: Any) -> tuple[int, ...]:
        return tally_rows(senders(), np.array_split(found, pieces))

    assert counted(rows) == (24, 0, 0, 0)
    assert counted(rows[2:]) == (24, 2, 0, 0)
    assert counted(np.concatenate([rows, rows[5:8], rows[5:6]])) == (24, 0, 4, 0)
    not_acked = expected_rows(senders()[0], 4)[-4:]
    assert counted(np.concatenate([rows, not_acked])) == (24, 0, 0, 0)
    strange = np.array([5 << 48 | 1 << 16, 1 << 16 | 4, 5 << 16], np.int64)
    assert counted(np.concatenate([rows, strange])) == (24, 0, 0, 3)


TALLY = Tally(10, 0, 0, 0, 4, 0, 0, 0)
RESULT = CampaignResult(
    "sealing", 1, False, 3, {"a: b": 2, "c: d": 1}, 0, 0, 5, 2, TALLY, 0, 0, 60.0, 30.0, ""
)


@pytest.mark.parametrize(
    "changed",
    [
        {"tally": TALLY._replace(lost=1)},
        {"tally": TALLY._replace(steps_doubled=1)},
        {"tally": None},
        {"forgotten": 1},
        {"tracebacks": 1},
        {"apart": 1},
        {"problem": "it did not come back"},
    ],
    ids=str,
)
def test_campaign_is_good_only_if_nothing_is_wrong(changed: dict[str, Any]) -> None:
    assert RESULT.is_good
    assert not RESULT._replace(**changed).is_good


def test_table_of_campaigns_has_a_line_for_each_point_and_the_sum() -> None:
    bad = RESULT._replace(point="repair", tally=TALLY._replace(lost=2))
    found = [campaign_of(campaign_json(one)) for one in (RESULT, RESULT, bad)]
    assert found == [RESULT, RESULT, bad]
    assert campaign_table(found)[2:] == [
        "| sealing | 6 | 2 | 4 | 20 | 8 | 0 | 0 | 0 | 1.0 | 2 of 2 |",
        "| repair | 3 | 2 | 2 | 10 | 4 | 2 | 0 | 0 | 0.5 | 0 of 1 |",
        "| **all** | 9 | 2 | 6 | 30 | 12 | 2 | 0 | 0 | 1.5 | 2 of 3 |",
    ]


# -- fuzz ---------------------------------------------------------------------------------------------


def test_target_that_is_behind_is_next() -> None:
    done = [Row(name, "1", seconds=100 * share) for name, share in SHARES.items()]
    done[2] = done[2]._replace(seconds=1.0)
    assert next_target(done) == list(SHARES)[2]
    assert next_target([]) in SHARES


COUNTS = Counts(10, 20, 8, 4, 100, 1, 0, 6.0, 0.5, 10**6, [])


def test_runs_of_a_target_add_up_by_version(tmp_path: Path) -> None:
    path = tmp_path / "tally.jsonl"
    assert rows_in(path) == []
    for target, code in (("marks", "1"), ("marks", "2"), ("http", "2"), ("marks", "2")):
        add(path, row_of(target, code, COUNTS))
    rows = rows_in(path)
    assert [(row.target, row.code, row.read, row.lines) for row in rows] == [
        ("marks", "1", 8, 100),
        ("marks", "2", 16, 100),
        ("http", "2", 8, 100),
    ]
    assert total(rows).inputs == 40
    assert total(rows, "marks").seconds == 18.0
    assert fuzz_table(rows)[2:] == [
        "| marks | 60 | 24 | 12 | 16 | 0.3 | 100 | 3 | 0 | 500 ms | +1 MB |",
        "| http | 20 | 8 | 4 | 8 | 0.1 | 100 | 1 | 0 | 500 ms | +1 MB |",
        "| **all** | 80 | 32 | 16 | 24 | 0.4 |  | 4 | 0 | 500 ms | +1 MB |",
    ]


def test_version_is_that_of_the_source() -> None:
    assert code_version() == code_version()
    assert len(code_version()) == 12


def test_corpus_is_known_again_as_long_as_the_source_is(tmp_path: Path) -> None:
    from roofline.joining import CannotJoin, parse_token

    fed: list[list[bytes]] = []

    def feed(parts: list[bytes]) -> None:
        fed.append(parts)
        with contextlib.suppress(CannotJoin):
            parse_token(parts[0].decode("latin-1"))

    corpus, same, other = Corpus(), Corpus(), Corpus()
    corpus.feed(feed, [b"x"])
    corpus.save(tmp_path, "1")
    same.load(tmp_path, "1", feed, 60)
    assert (same.lines, same.inputs, len(fed)) == (corpus.lines, [[b"x"]], 1)
    other.load(tmp_path, "2", feed, 60)
    assert (other.lines, other.inputs, len(fed)) == (corpus.lines, [[b"x"]], 2)


def test_input_that_reaches_a_new_line_is_mutated_further() -> None:
    from roofline.joining import CannotJoin, parse_token

    def feed(parts: list[bytes]) -> None:
        with contextlib.suppress(CannotJoin):
            parse_token(parts[0].decode("latin-1"))

    corpus = Corpus()
    corpus.feed(feed, [b"x"])
    first = len(corpus.lines)
    corpus.feed(feed, [b"x"])
    assert (first > 0, len(corpus.lines), corpus.inputs) == (True, first, [[b"x"]])
    chance = random.Random(1)
    made = [corpus.make(lambda _: [b"new"], chance) for _ in range(100)]
    assert 10 < sum(parts != [b"new"] for parts in made) < 50


# -- bits ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_flipped_bits_of_segments_are_noticed_or_change_nothing() -> None:
    rows = run_flips(1, 30, lambda _: None)
    for row in rows:
        if str(row["what"]).startswith("segments"):
            assert "silently different" not in row
    assert sum(value for row in rows for value in row.values() if isinstance(value, int)) == 30 + len(rows)


def test_table_of_flips_sums_up_runs() -> None:
    rows = [{"what": "a", "seed": 1, "noticed": 3}, {"what": "a", "seed": 2, "noticed": 1, "failed": 2}]
    assert flips_table([json.dumps(row) for row in rows]) == [
        "| file | flips | noticed | noticed by check | nothing changed | silently different | failed |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| a | 6 | 4 | 0 | 0 | 0 | 2 |",
        "| **all** | 6 | 4 | 0 | 0 | 0 | 2 |",
    ]


# -- soaks --------------------------------------------------------------------------------------------


def test_what_others_take_is_no_trend() -> None:
    chance = random.Random(1)
    x = [float(at) for at in range(120)]
    load = [0.2 + 1.5 * (at > 60) + chance.random() / 10 for at in x]
    y = [10 + 20 * other + chance.random() for other in load]
    assert slope(x, y).low > 0.1
    found = slope_beside(x, y, load)
    assert found.low < 0 < found.high
    trend = slope_beside(x, [one + at / 10 for one, at in zip(y, x, strict=True)], load)
    assert trend.low < 0.1 < trend.high and trend.low > 0.05


def test_slope_of_few_blocks_is_not_told() -> None:
    blocks = [Block(at * 30.0, 5.0, 0.1) for at in range(30)]
    assert per_hour(blocks[:10]) is None
    assert per_hour(blocks) == Slope(0.0, 0.0, 0.0)


def test_own_memory_is_that_of_no_file(tmp_path: Path) -> None:
    size = 128 << 20  # far more than what else this process may take or give back meanwhile
    before = memory_of(os.getpid())
    (tmp_path / "file").touch()
    os.truncate(tmp_path / "file", size)
    with open(tmp_path / "file", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert mapped.find(b"x") == -1  # reads all of it
        read = memory_of(os.getpid())
    taken = bytearray(b"x" * size)
    own = memory_of(os.getpid())
    assert read.all - before.all > 0.8 * size
    assert read.own - before.own < 0.2 * size
    assert own.own - read.own > 0.8 * size
    assert len(taken) == size


def test_soak_is_kept_as_it_was() -> None:
    flat = Slope(1.0, -2.0, 3.0)
    result = SoakResult(
        60.0, 2000.0, {"kill -9": 1}, 1, TALLY, 0, 0, 3, Memory(10**8, 10**7), 30.0, flat, None, 0.01, 0.02,
        0.3, None, 0.5,
    )  # fmt: skip
    assert soak_of(soak_json(result)) == result
    assert any("+1 (-2 to +3)" in line for line in described(result))
