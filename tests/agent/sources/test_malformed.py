"""Whatever is in the kernel's files, or is missing: a source says so or leaves it out, and never fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.records import Rank, Source, SourceSettings
from roofline_agent.sources.cgroup import CgroupSource
from roofline_agent.sources.network import NetworkSource
from roofline_agent.sources.node import NodeSource
from roofline_agent.sources.rapl import RaplSource
from roofline_agent.sources.resctrl import ResctrlSource

from . import cgroup_files, network_files, node_files, rapl_files, resctrl_files
from .trees import settings, write

RANK = Rank("j", "worker", 0, 100, 1)
TREES: dict[Callable[[SourceSettings], Source], dict[str, str]] = {
    NodeSource: node_files.FILES,
    RaplSource: rapl_files.TWO_SOCKETS,
    NetworkSource: {
        "proc/net/dev": network_files.HEAD + network_files.line("eth0", 3, 4),
        **network_files.interface("eth0", speed="1000"),
        **network_files.port("mlx5_0", 1),
    },
    ResctrlSource: {
        **resctrl_files.INFO,
        **resctrl_files.cpu(0, 0, 0),
        **resctrl_files.monitor(0, 5, 4),
        **resctrl_files.monitor(0, 3, 2, "job/"),
    },
    CgroupSource: {
        "proc/self/mountinfo": cgroup_files.V2 + cgroup_files.V1,
        **cgroup_files.home(RANK, "/a/b"),
        **cgroup_files.v2("a", "100000 100000", "4096"),
        **cgroup_files.v2("a/b"),
    },
}
CONTENT = st.one_of(
    st.none(),  # gone
    st.just("directory"),
    st.binary(max_size=60),
    st.integers(-(2**70), 2**70).map(lambda number: f"{number}\n".encode()),
)


def spoil(path: Path, content: object) -> None:
    if path.is_dir():
        rmtree(path)
    path.unlink(missing_ok=True)
    if content == "directory":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("make", TREES, ids=lambda make: make.name)
@given(data=st.data())
def test_source_outlives_any_file(make: Callable[[SourceSettings], Source], data: st.DataObject) -> None:
    files = TREES[make]
    with TemporaryDirectory() as root:
        write(Path(root), files)
        source = make(settings(Path(root)))
        if data.draw(st.booleans()):
            source.sample([RANK])  # files are open when they are spoilt
        for name in data.draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=4)):
            spoil(Path(root) / name, data.draw(CONTENT))
        source.probe()
        for name in list(vars(source)):
            if name.endswith("_ns"):
                setattr(source, name, -(1 << 62))  # the last look was long ago
        for row in source.sample([RANK]):
            assert len(row.values) == len(source.counter_set.metrics)
            assert any(value is not None for value in row.values)
            assert all(type(value) is not int or abs(value) < 2**63 for value in row.values)
            assert row.instance.isprintable() and len(row.instance) <= 128
        source.close()
