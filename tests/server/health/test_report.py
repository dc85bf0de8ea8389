"""What `status` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from roofline_server.health.condition import from_json, to_json
from roofline_server.health.report import Status, text, warnings
from roofline_server.health.running import Running

from .conditions import WELL, condition

LEFT = Running(7, "127.0.0.1:7642", "", 1000.0, "0.1.0")
RUNS = Status(Path("/srv/data"), True, True, LEFT, WELL, 1 << 30, 50 << 30, 100 << 30, 0)


def changed(**changes: Any) -> Status:
    return Status(**{**vars(RUNS), **changes})


def test_condition_travels() -> None:
    assert from_json(to_json(WELL)) == WELL
    for odd in ("{}", "[]", "1", "", '{"version": 1}'):
        with pytest.raises(ValueError):
            from_json(odd)


@pytest.mark.parametrize(
    ("status", "state", "code", "says"),
    [
        (RUNS, "ready", 0, "running (pid 7"),
        (changed(condition=condition(reasons=("it is stopping",))), "not ready", 1, "no: it is stopping"),
        (changed(condition=None), "no answer", 1, "(pid 7 at 127.0.0.1:7642), but it does not answer"),
        (changed(condition=None, left=None), "no answer", 1, "running, but it does not answer"),
        (changed(locked=False, condition=None), "not running", 3, "was killed"),
        (changed(locked=False, condition=None, left=None), "not running", 3, "not running\n"),
        (
            changed(exists=False, locked=False, condition=None),
            "not running",
            3,
            "no data directory /srv/data",
        ),
    ],
)
def test_states(status: Status, state: str, code: int, says: str) -> None:
    assert (status.state, status.exit_code) == (state, code)
    assert says in text(status)


def test_server_that_is_well_has_no_warnings() -> None:
    assert warnings(RUNS) == []
    said = text(RUNS)
    for words in ("3 connected, 2.5 batches/s", "500 batches, 9000 rows", "4.0 KiB of at most 128.0 MiB"):
        assert words in said
    assert "the last 10 s ago, 0.07 s each" in said
    assert "1.0 GiB used, 50.0 GiB free" in said


def test_status_says_how_long_agents_are_asked_to_gather() -> None:
    said = text(changed(condition=condition(hold_s=4.0)))
    assert "3 connected, 2.5 batches/s, asked to gather for 4 s before they send" in said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"damaged": tuple(f"{n}.parquet" for n in range(7))}, "7 files are damaged"),
        ({"seal_failure": "disk full"}, "disk full"),
        ({"last_seal": None, "time": 2000.0}, "nothing was sealed for 1000 s"),
        ({"unsealed_bytes": 120 << 20}, "sealing barely keeps up"),
        ({"queued_bytes": 31 << 20}, "disk barely keeps up"),
        ({"refused": 2}, "2 batches refused"),
        ({"loop_lag_s": 2.5}, "2.5 s"),
        ({"clock_error_s": 0.03}, "30 ms"),
    ],
)
def test_each_warning(changes: dict[str, Any], words: str) -> None:
    (warning,) = warnings(changed(condition=condition(**changes)))
    assert words in warning


def test_disk_and_quarantine_are_seen_without_a_server() -> None:
    found = warnings(changed(condition=None, locked=False, quarantined=2, disk_free_bytes=1 << 20))
    assert len(found) == 2
    assert "1.0 MiB" in found[0] and "README.txt" in found[1]
    assert warnings(changed(condition=None, disk_free_bytes=None, disk_size_bytes=None)) == []
