from __future__ import annotations

from pathlib import Path

import pytest
from roofline_server.store.segments.leases import Leases


@pytest.fixture
def leases(tmp_path: Path) -> Leases:
    for name in "abc":
        (tmp_path / name).touch()
    return Leases(tmp_path)


def names(root: Path) -> str:
    return "".join(sorted(path.name for path in root.iterdir()))


def test_replaced_files_are_removed_at_once_when_nobody_looks(leases: Leases, tmp_path: Path) -> None:
    leases.replaced(["a", "b"])
    leases.remove()
    assert names(tmp_path) == "c"


def test_replaced_files_stay_while_one_that_looked_before_holds_its_lease(
    leases: Leases, tmp_path: Path
) -> None:
    lease = leases.take()
    leases.replaced(["a"])
    leases.remove()
    assert names(tmp_path) == "abc"
    del lease
    leases.remove()
    assert names(tmp_path) == "bc"


def test_lease_keeps_no_file_that_was_replaced_before_it(leases: Leases, tmp_path: Path) -> None:
    leases.replaced(["a"])
    later = leases.take()
    leases.replaced(["b"])
    leases.remove()
    assert names(tmp_path) == "bc"
    del later
    leases.remove()
    assert names(tmp_path) == "c"


def test_oldest_lease_counts(leases: Leases, tmp_path: Path) -> None:
    first = leases.take()
    leases.replaced(["a"])
    second = leases.take()
    leases.replaced(["b"])
    del second
    leases.remove()
    assert names(tmp_path) == "abc"
    del first
    leases.remove()
    assert names(tmp_path) == "c"


def test_lease_is_held_while_something_is_done_even_if_it_fails(leases: Leases, tmp_path: Path) -> None:
    with pytest.raises(KeyError), leases.held():
        leases.replaced(["a"])
        leases.remove()
        assert names(tmp_path) == "abc"
        raise KeyError
    leases.remove()
    assert names(tmp_path) == "bc"


def test_leases_that_are_gone_are_forgotten(leases: Leases) -> None:
    for _ in range(100):
        leases.take()
    assert len(leases._taken) == 1


def test_file_that_is_gone_already_does_no_harm(leases: Leases, tmp_path: Path) -> None:
    leases.replaced(["nothing", "a"])
    leases.remove()
    assert names(tmp_path) == "bc"
