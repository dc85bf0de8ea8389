from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from roofline_agent.calibrate import store
from roofline_agent.calibrate.calibration import Calibration, Ceiling, SweepPoint, to_json
from roofline_agent.calibrate.errors import CalibrationError

PEAK = Ceiling(
    "peak.f32.512", "compute", "", "f32", 512, 4.1e11, "FLOP/s", 0.03, "AVX-512", 1_700_000_000_000_000_001
)
DRAM = Ceiling(
    "dram.triad", "memory", "dram", "", 0, 4.4e10, "byte/s", 0.1, "STREAM", 1_700_000_000_000_000_002
)
THEORY = PEAK._replace(name="peak.f32.512.theory", provenance=3, threads=2, clock_hz=3.1e9, operation="fma")
CALIBRATION = Calibration(
    "node1",
    "a CPU",
    2,
    1_700_000_000_000_000_003,
    (PEAK, DRAM, THEORY._replace(median=4e11, device="gpu 0", peer="node2")),
    ("no L3",),
    (SweepPoint("triad", True, 2, 1 << 30, 4e10),),
)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ceilings.json"
    store.save(CALIBRATION, path)
    assert store.load(path) == CALIBRATION


def test_file_of_the_first_version_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "ceilings.json"
    old = to_json(CALIBRATION._replace(ceilings=(PEAK,)))
    del old["notes"], old["sweep"], old["is_complete"]
    for newer in ("device", "threads", "provenance", "median", "clock_hz", "peer", "operation"):
        del old["ceilings"][0][newer]
    path.write_text(json.dumps(old))
    assert store.load(path) == CALIBRATION._replace(ceilings=(PEAK,), notes=(), sweep=())


def test_saving_replaces_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "ceilings.json"
    store.save(CALIBRATION, path)
    store.save(CALIBRATION._replace(host="node2"), path)
    loaded = store.load(path)
    assert loaded
    assert loaded.host == "node2"
    assert list(tmp_path.iterdir()) == [path]


def test_only_its_owner_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ceilings.json"
    path.touch(0o644)
    store.save(CALIBRATION, path)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.getuid() != 0, reason="takes root")
def test_what_root_measures_belongs_to_who_owns_the_folder(tmp_path: Path) -> None:
    os.chown(tmp_path, 4321, 4322)
    store.save(CALIBRATION, path := tmp_path / "ceilings.json")
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (4321, 4322, 0o600)


def test_whole_file_then_directory_are_on_disk_in_that_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "ceilings.json", []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor)))
    store.save(CALIBRATION, path)
    assert [(s.st_ino, s.st_size) for s in synced[:1]] == [(path.stat().st_ino, path.stat().st_size)]
    assert [s.st_ino for s in synced[1:]] == [tmp_path.stat().st_ino]


def test_no_file_is_no_calibration(tmp_path: Path) -> None:
    assert store.load(tmp_path / "ceilings.json") is None


def test_failed_save_keeps_the_old_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ceilings.json"
    store.save(CALIBRATION, path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CalibrationError, match=r"ceilings\.json: No space left"):
        store.save(CALIBRATION._replace(host="node2"), path)
    assert store.load(path) == CALIBRATION
    assert list(tmp_path.iterdir()) == [path]


def test_infinite_value_is_never_saved(tmp_path: Path) -> None:
    endless = CALIBRATION._replace(ceilings=(PEAK._replace(value=float("inf")),))
    with pytest.raises(ValueError, match="JSON compliant"):
        store.save(endless, tmp_path / "ceilings.json")
    assert list(tmp_path.iterdir()) == []


def changed(**fields: Any) -> str:
    return json.dumps({**to_json(CALIBRATION), **fields})


def changed_ceiling(**fields: Any) -> str:
    return changed(ceilings=[{**PEAK._asdict(), **fields}])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "Expecting value"),
        ('{"format": 1, "host": "no', "Unterminated string"),
        ("[]", "expected an object"),
        ("[" * 100_000, "recursion"),
        (changed(format=2), "format 2, of a later release"),
        (changed(host=None), "host is not a string"),
        (changed(cpus="2"), "cpus is not a whole number"),
        (changed(cpus=True), "cpus is not a whole number"),
        (changed(ceilings={}), "ceilings is not a list"),
        (changed(ceilings=[7]), "a ceiling is not an object"),
        (changed(notes="no L3"), "notes is not a list"),
        (changed(notes=[7]), "note is not a string"),
        (changed(sweep=[7]), "a point of the sweep is not an object"),
        (changed(sweep=[{"streaming": 1}]), "streaming true or false"),
        (changed(sweep=[{"streaming": True, "operation": "read", "threads": -1}]), "threads is not a whole"),
        (changed_ceiling(value="fast"), "value is not a number"),
        (changed_ceiling(value=float("nan")), "value is not a finite number"),
        (changed_ceiling(value=-1), "value is not a finite number of at least 0"),
        (changed_ceiling(time_ns=1.5), "time_ns is not a whole number"),
    ],
)
def test_malformed_file_is_named_with_its_fault(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "ceilings.json"
    path.write_text(text)
    with pytest.raises(CalibrationError) as caught:
        store.load(path)
    assert str(path) in str(caught.value)
    assert complaint in str(caught.value)


def test_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ceilings.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CalibrationError, match=r"ceilings\.json is no calibration"):
        store.load(path)


def test_directory_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="can't read the calibration in"):
        store.load(tmp_path)
