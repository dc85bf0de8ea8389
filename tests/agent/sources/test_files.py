"""Small files of /proc, as the kernel gives them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from roofline_agent.sources.files import KeptFile, read_once

LIST = "/proc/kallsyms"  # of megabytes


def pages_of(path: str) -> int:
    return len(Path(path).read_bytes()) // os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(not os.path.exists(LIST) or pages_of(LIST) < 10, reason="no long list in /proc")
def test_list_is_read_beyond_its_first_page() -> None:
    whole = Path(LIST).read_bytes()
    size = 5 * os.sysconf("SC_PAGESIZE")
    assert read_once(LIST, size, is_list=True) == whole[:size]
    assert read_once(LIST, 2 * len(whole), is_list=True) == whole
    file = KeptFile(LIST, size, is_list=True)
    assert [file.read(), file.read()] == [whole[:size]] * 2
    file.close()


def test_other_files_take_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        calls.append((size, offset))
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", counted)
    (tmp_path / "number").write_text("17\n")
    assert KeptFile(str(tmp_path / "number"), 32).number() == 17
    assert calls == [(32, 0)]


INTERFACES = """
import subprocess, sys
from roofline_agent.records import SourceSettings
from roofline_agent.sources.network import NetworkSource, parse_interfaces
for number in range(60):
    if subprocess.run(["ip", "link", "add", f"bridge{number}", "type", "bridge"]).returncode:
        sys.exit("no bridges here")
source = NetworkSource(SourceSettings())
print(len(parse_interfaces(source._list.read()).keys() - {"lo"}))
"""
MOUNTS = """
import subprocess, sys
from roofline_agent.records import SourceSettings
from roofline_agent.sources.cgroup import CgroupSource
source = CgroupSource(SourceSettings())
source.probe()
cgroup, before = source._mounts[0].point, len(source._mounts)
for number in range(60):
    subprocess.run(["mount", "-t", "tmpfs", "none", sys.argv[1]], check=True)
subprocess.run(["mount", "--bind", cgroup, sys.argv[1]], check=True)
source.probe()
print(len(source._mounts) - before)
"""


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("unshare"), reason="needs namespaces, as root")
@pytest.mark.parametrize(
    ("namespace", "program", "expected"), [("--net", INTERFACES, "60"), ("--mount", MOUNTS, "1")]
)
def test_kernel_lists_of_over_a_page_are_read_whole(
    tmp_path: Path, namespace: str, program: str, expected: str
) -> None:
    command = ["unshare", namespace, sys.executable, "-c", program, str(tmp_path)]
    if subprocess.run(["unshare", namespace, "true"]).returncode:
        pytest.skip(f"unshare {namespace} is not permitted here")
    found = subprocess.run(command, capture_output=True, text=True)
    if "no bridges here" in found.stderr:
        pytest.skip(found.stderr)
    assert found.stdout.strip() == expected, found.stderr
