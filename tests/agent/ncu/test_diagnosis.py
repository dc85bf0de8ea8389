"""Why ncu profiles nothing: told from made-up /proc trees and from what ncu prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_agent.ncu.diagnosis import admin_only, denied, in_container, may_administer, reason

DENIED = "==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n"


def proc(root: Path, admins: str | None = "1", capabilities: int = 0, container: bool = False) -> str:
    (root / "self").mkdir(parents=True)
    (root / "1").mkdir()
    (root / "self/status").write_text(f"Name:\tx\nCapEff:\t{capabilities:016x}\n")
    (root / "1/environ").write_bytes(b"PATH=/bin\0" + (b"container=podman\0" if container else b""))
    if admins is not None:
        (root / "driver/nvidia").mkdir(parents=True)
        (root / "driver/nvidia/params").write_text(f"ResmanDebugLevel: 4\nRmProfilingAdminOnly: {admins}\n")
    return str(root)


def test_users_get_the_module_option_and_root_as_ways_out(tmp_path: Path) -> None:
    where = proc(tmp_path / "proc")
    assert admin_only(where) is True and not may_administer(where)
    text = denied(where, str(tmp_path))
    assert "NVreg_RestrictProfilingToAdminUsers=0" in text and "CAP_SYS_ADMIN" in text
    assert "container" not in text


def test_containers_get_the_capability_as_way_out(tmp_path: Path) -> None:
    where = proc(tmp_path / "proc", container=True)
    assert in_container(where, str(tmp_path))
    assert "--cap-add=SYS_ADMIN" in denied(where, str(tmp_path))
    (tmp_path / ".dockerenv").touch()
    assert in_container(str(tmp_path), str(tmp_path))


def test_driver_open_to_all_is_not_blamed(tmp_path: Path) -> None:
    where = proc(tmp_path / "proc", admins="0")
    assert admin_only(where) is False
    assert "though RmProfilingAdminOnly is 0" in denied(where, str(tmp_path))
    assert admin_only(str(tmp_path)) is None


def test_administrators_are_not_advised_to_become_some(tmp_path: Path) -> None:
    where = proc(tmp_path / "proc", capabilities=1 << 21)
    assert may_administer(where)
    assert "though this process has CAP_SYS_ADMIN" in denied(where, str(tmp_path))


def test_dcgm_is_to_be_paused(tmp_path: Path) -> None:
    log = "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool"
    assert "dcgmi profile --pause" in reason(log, str(tmp_path), str(tmp_path))


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (DENIED, "ERR_NVGPUCTRPERM"),
        ("==ERROR== Unknown option --x\n", "ncu says: Unknown option --x"),
        ("==ERROR== The application returned an error code (1).\n", ""),
        ("==PROF== Connected\n==WARNING== No kernels were profiled.\n", ""),
        ("", ""),
    ],
)
def test_reason_is_the_error_that_ncu_printed(tmp_path: Path, log: str, says: str) -> None:
    found = reason(log, str(tmp_path), str(tmp_path))
    assert (says in found) if says else found == ""
