"""Fuzz targets on few inputs, on inputs that failed once, and on whatever hypothesis thinks of."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .fuzz.kept import kept, packed, unpacked
from .fuzz.running import Reach, Target, fed_once, fuzz
from .fuzz.targets import TARGETS

FEW = {"ingest": 300, "stored": 1, "marks": 10, "recorded": 20, "questions": 20, "http": 50, "joining": 500}


@pytest.fixture(scope="module")
def targets() -> Iterator[dict[str, Target]]:
    made = {name: make() for name, make in TARGETS.items()}
    yield made
    for target in made.values():
        target.close()


def test_each_target_has_its_number_of_inputs() -> None:
    assert FEW.keys() == TARGETS.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_input_is_read_or_refused(name: str, targets: dict[str, Target]) -> None:
    counts = fuzz(targets[name], 60, 1, FEW[name])
    assert [failure.text for failure in counts.failures] == []
    assert counts.inputs == FEW[name]
    assert 0 < counts.read <= counts.parts
    assert counts.taken <= counts.read


@pytest.mark.parametrize("name", TARGETS)
def test_input_that_failed_once_does_so_no_more(name: str, targets: dict[str, Target]) -> None:
    for path in kept(name):
        failure = fed_once(targets[name], unpacked(path.read_bytes()))
        assert failure is None, f"{path.name}: {failure.text}"


@given(data=st.binary(max_size=200))
@pytest.mark.parametrize("name", ["ingest", "marks", "recorded", "http", "joining"])
def test_any_bytes_are_read_or_refused(name: str, targets: dict[str, Target], data: bytes) -> None:
    parts = [bytes([data[0] % 3]) + data[1:]] if name == "joining" and data else [data or b"\0"]
    failure = fed_once(targets[name], parts)
    assert failure is None, failure.text


class _Broken:
    """A target that fails on half of its inputs, at one place, and hangs on none."""

    def make(self, chance: random.Random) -> list[bytes]:
        return [bytes([chance.randrange(2)])]

    def feed(self, parts: list[bytes]) -> Reach:
        if parts[0][0]:
            raise ZeroDivisionError
        return Reach(1, 0)

    def close(self) -> None:
        pass


def test_crashes_are_counted_and_one_of_each_place_is_kept() -> None:
    counts = fuzz(_Broken(), 60, 1, 100)
    assert counts.inputs == 100
    assert 20 < counts.crashes < 80
    assert counts.hangs == 0
    assert (counts.read, counts.taken) == (100 - counts.crashes, 0)
    (failure,) = counts.failures
    assert failure.parts == [b"\1"]
    assert "ZeroDivisionError" in failure.place


class _Endless(_Broken):
    def feed(self, parts: list[bytes]) -> Reach:
        while True:
            pass


def test_input_that_takes_too_long_is_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.faults.fuzz.running.HANG_S", 0.05)
    counts = fuzz(_Endless(), 60, 1, 2)
    assert (counts.crashes, counts.hangs) == (0, 2)


@given(parts=st.lists(st.binary(max_size=20)))
def test_kept_input_is_what_was_fed(parts: list[bytes]) -> None:
    assert unpacked(packed(parts)) == parts
