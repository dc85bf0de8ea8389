"""A source that fails costs its own samples, never the others' and never the agent."""

from __future__ import annotations

from collections.abc import Sequence

from roofline_agent.daemon import merge
from roofline_agent.records import (
    CounterSet,
    EventKind,
    Metric,
    MetricKind,
    Rank,
    Sample,
    SampleBlock,
    Settings,
)
from roofline_agent.records import SourceStatus as Status
from roofline_agent.sampler import Sampler
from roofline_agent.sources.example import ExampleSource

RANK = Rank("j", "worker", 0, 11, 1)


class Made:
    """A source that does what its test says."""

    def __init__(self, name: str, works: bool = True, fails: int = 0, probe_fails: bool = False) -> None:
        self.name, self._works, self._probe_fails = name, works, probe_fails
        self.fills, self.measures = "everything", False
        self.fails = fails
        self.closed = False
        self.counter_set = CounterSet(name, (Metric("m", MetricKind.GAUGE, "1"),))

    def probe(self) -> Status:
        if self._probe_fails:
            raise RuntimeError("broken")
        return Status(self.name, self._works, "" if self._works else "no reason")

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        if self.fails:
            self.fails -= 1
            raise OSError("no such thing")
        return [Sample(rank, 5, (1,)) for rank in ranks]

    def close(self) -> None:
        self.closed = True


def names(blocks: list[SampleBlock]) -> list[str]:
    return [block.counter_set.name for block in blocks]


def test_failing_source_is_reported_once_and_comes_back() -> None:
    sampler = Sampler({"bad": Made("bad", fails=2), "good": Made("good")})
    blocks, events = sampler.sample([RANK])
    assert names(blocks) == ["good"]
    assert [(e.kind, e.text) for e in events] == [(EventKind.SOURCE_FAILED, "bad: no such thing")]
    assert sampler.sample([RANK])[1] == []
    assert names(sampler.sample([RANK])[0]) == ["bad", "good"]


def test_source_that_is_off_is_named_and_never_asked() -> None:
    sampler = Sampler({"off": Made("off", works=False, fails=9), "bad": Made("bad", probe_fails=True)})
    assert sampler.sample([RANK]) == ([], [])
    assert [(s.name, s.works, s.reason) for s in sampler.statuses] == [
        ("off", False, "no reason"),
        ("bad", False, "its own check failed: broken"),
    ]


def test_without_rows_there_is_no_block() -> None:
    assert Sampler({"good": Made("good")}).sample([]) == ([], [])


def test_close_closes_all() -> None:
    sources = {"a": Made("a"), "b": Made("b")}
    Sampler(sources).close()
    assert all(source.closed for source in sources.values())


def test_source_that_fails_to_close_harms_no_other() -> None:
    class Stubborn(Made):
        def close(self) -> None:
            raise OSError

    good = Made("good")
    Sampler({"bad": Stubborn("bad"), "good": good}).close()
    assert good.closed


def test_example_to_copy_works() -> None:
    source = ExampleSource(Settings())
    sampler = Sampler({"example": source})
    sampler.sample([RANK])
    ((block,), events) = sampler.sample([RANK])
    assert events == []
    assert [row.values for row in block.rows] == [(2,)]
    sampler.close()


def test_blocks_of_one_set_are_merged_in_order() -> None:
    a, b = Made("a").counter_set, Made("b").counter_set
    one, two, three = (Sample(RANK, n, (n,)) for n in (1, 2, 3))
    blocks = [SampleBlock(a, [one]), SampleBlock(b, [two]), SampleBlock(a, [three])]
    assert merge(blocks) == [SampleBlock(a, [one, three]), SampleBlock(b, [two])]
    assert blocks[0].rows == [one], "what was given stays as it is"
    assert merge([]) == []
