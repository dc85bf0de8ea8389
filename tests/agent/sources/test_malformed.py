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

from . import test_cgroup, test_network, test_node, test_rapl, test_resctrl
from .trees import settings, write

RANK = Rank("j", "worker", 0, 100, 1)
TREES: dict[Callable[[SourceSettings], Source], dict[str, str]] = {
    NodeSource: test_node.FILES,
    RaplSource: test_rapl.TWO_SOCKETS,
    NetworkSource: {
        "proc/net/dev": test_network.HEAD + test_network.line("eth0", 3, 4),
        **test_network.interface("eth0", speed="1000"),
        **test_network.port("mlx5_0", 1),
    },
    ResctrlSource: {
        **test_resctrl.INFO,
        **test_resctrl.cpu(0, 0, 0),
        **test_resctrl.monitor(0, 5, 4),
        **test_resctrl.monitor(0, 3, 2, "job/"),
    },
    CgroupSource: {
        "proc/self/mountinfo": test_cgroup.V2 + test_cgroup.V1,
        **test_cgroup.home(RANK, "/a/b"),
        **test_cgroup.v2("a", "100000 100000", "4096"),
        **test_cgroup.v2("a/b"),
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
