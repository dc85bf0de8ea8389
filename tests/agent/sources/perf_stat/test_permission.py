"""Why perf may not count: from what it prints and from a recorded /proc."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_agent.sources.perf_stat.permission import paranoid, privileged, refusal

from ..fake_tools import REFUSED, proc_tree

CAP_PERFMON, CAP_SYS_ADMIN, CAP_NET_ADMIN = 1 << 38, 1 << 21, 1 << 12


@pytest.mark.parametrize(
    ("level", "most", "named"),
    [(3, 2, True), (4, 2, True), (2, 2, False), (1, 0, True), (2, 0, True), (0, 0, False)],
)
def test_sysctl_is_named_where_it_forbids(tmp_path: Path, level: int, most: int, named: bool) -> None:
    found = refusal(str(proc_tree(tmp_path, "", level)), [REFUSED], most)
    assert found is not None
    reason, advice = found
    assert (f"kernel.perf_event_paranoid is {level}" in reason) == named
    assert "CAP_PERFMON" in advice
    assert (f"sysctl kernel.perf_event_paranoid={most}" in advice) == named


@pytest.mark.parametrize(
    ("mask", "may"), [(CAP_PERFMON, True), (CAP_SYS_ADMIN, True), (CAP_NET_ADMIN, False), (0, False)]
)
def test_capability_overrules_the_sysctl(tmp_path: Path, mask: int, may: bool) -> None:
    proc = str(proc_tree(tmp_path, "", 4, capabilities=mask))
    assert privileged(proc) == may
    assert (refusal(proc, ["<not supported>"], 2) is None) == may


def test_seccomp_is_suspected_where_the_sysctl_allows(tmp_path: Path) -> None:
    proc = str(proc_tree(tmp_path, "", 1, seccomp=2))
    reason, advice = refusal(proc, [REFUSED], 2) or ("", "")
    assert "seccomp" in reason and "CAP_PERFMON" in advice


def test_perf_of_another_kernel(tmp_path: Path) -> None:
    text = "WARNING: perf not found for kernel 6.8.0-31\n\n  You may need to install the following packages"
    reason, advice = refusal(str(proc_tree(tmp_path, "", 4)), [text], 2) or ("", "")
    assert "6.8.0-31" in reason and "install" in advice


def test_kernel_without_the_call(tmp_path: Path) -> None:
    text = "The sys_perf_event_open() syscall returned with 38 (Function not implemented) for event (cycles)."
    reason, _ = refusal(str(proc_tree(tmp_path, "", 2)), [text], 2) or ("", "")
    assert "perf_event_open" in reason


@pytest.mark.parametrize("text", ["<not supported>;;cycles;0;100.00;;", "event syntax error: 'x'", ""])
def test_what_is_no_matter_of_permission(tmp_path: Path, text: str) -> None:
    assert refusal(str(proc_tree(tmp_path, "", 2)), [text], 2) is None


@pytest.mark.parametrize("text", ["", "many\n"])
def test_unreadable_sysctl_is_unknown(tmp_path: Path, text: str) -> None:
    proc = proc_tree(tmp_path, "", None)
    assert paranoid(str(proc)) is None
    (proc / "sys/kernel/perf_event_paranoid").write_text(text)
    assert paranoid(str(proc)) is None
    assert not privileged(str(tmp_path / "nothing"))
