"""The code of docs/first-change.md works as it is there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.agent.recorded.reading import read_text

PAGE = Path(__file__).parents[1] / "docs" / "first-change.md"
COUNTER, ITS_TEST, HOOK, READER = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def made(name: str, code: str) -> ModuleType:
    """A module of this name, as if the code stood in its file."""
    module = ModuleType(name)
    module.__package__ = name.rpartition(".")[0]
    exec(compile(code, f"{PAGE.name}: {name}", "exec"), module.__dict__)
    return module


@pytest.fixture
def switches() -> Iterator[ModuleType]:
    name = "roofline_agent.sources.switches"
    sys.modules[name] = made(name, COUNTER)
    yield sys.modules[name]
    del sys.modules[name]


def test_counter_passes_the_test_of_the_page(switches: ModuleType, tmp_path: Path) -> None:
    test = made("tests.agent.sources.test_switches", ITS_TEST)
    test.test_switches_of_the_node_are_read(tmp_path)


def test_counter_works_on_this_node(switches: ModuleType) -> None:
    from roofline_agent.records import SourceSettings

    source = switches.SwitchesSource(SourceSettings())
    assert source.probe().works
    (row,) = source.sample([])
    assert row.rank is None and row.values[0] > 0


def test_hook_marks_each_step() -> None:
    hook = made("roofline_agent.hooks.toytrain", HOOK)
    windows: list[tuple[int, int]] = []

    class Marker:
        def window(self, number: int, begin_ns: int, end_ns: int, examples: int) -> None:
            assert 0 < begin_ns <= end_ns
            windows.append((number, examples))

    class Trainer:
        def step(self, batch: list[int]) -> int:
            return sum(batch)

    hook.patch(SimpleNamespace(Trainer=Trainer), Marker())
    assert [Trainer().step([1, 2, 3]) for _ in range(2)] == [6, 6]
    assert windows == [(0, 3), (1, 3)]


def test_reader_reads_its_file_and_warns_of_what_is_none() -> None:
    reader = made("roofline_agent.recorded.powerlog", READER)
    text = "# powerlog 1\n0.0 81.5\nnonsense\n1.0 95.0\n"
    assert (reader.sniff(text), reader.sniff("other")) == (100, 0)
    found = read_text(reader.read, text)
    assert [(one.t_s, one.value, one.unit) for one in found.counters] == [(0.0, 81.5, "W"), (1.0, 95.0, "W")]
    assert [warning.line for warning in found.warnings] == [3]
