"""What a user says of a job reaches the agent, by options or by the environment; nonsense does not."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofline_agent.ranks.settings import RankFacts
from roofline_agent.ranks.tags import (
    EXPERIMENT,
    MAX_TAGS,
    TAGS,
    TagError,
    as_environ,
    from_environ,
    from_options,
    parse,
)
from roofline_agent.records import Rank

from tests.fakes import FakeAgent, clean_environ

from ..run.wrapped import python, run

PRINT = f"import json, os; print(json.dumps([os.environ.get({TAGS!r}), os.environ.get({EXPERIMENT!r})]))"
names = st.text("abz09_.-", min_size=0, max_size=63).map("t".__add__)
values = st.text("a 9=,\\é漢", min_size=1, max_size=12)  # all that may be in one and means something


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return clean_environ(ROOFLINE_SOCKET=str(tmp_path / "agent.sock"))


@settings(deadline=None)
@given(st.dictionaries(names, values, max_size=8))
def test_environment_gives_back_what_was_written_into_it(tags: dict[str, str]) -> None:
    assert from_environ(as_environ(tags)) == (tags, [])


@settings(deadline=None)
@given(st.text(max_size=400), st.text(max_size=300))
def test_any_environment_gives_tags_that_can_be(said: str, experiment: str) -> None:
    found = from_environ({TAGS: said, EXPERIMENT: experiment})
    assert len(found.tags) <= MAX_TAGS
    for name, value in found.tags.items():
        assert parse(f"{name}={value}") == (name, value)


def test_environment_as_people_write_it() -> None:
    environ = {TAGS: "nodes=4, batch=32,,", EXPERIMENT: "scaling"}
    assert from_environ(environ) == ({"nodes": "4", "batch": "32", "experiment": "scaling"}, [])
    assert from_environ({TAGS: r"path=C:\data,layers=1\,2,eq=a=b"}).tags == {
        "path": r"C:\data",
        "layers": "1,2",
        "eq": "a=b",
    }


def test_tag_that_an_environment_gives_twice_is_named_and_the_last_counts() -> None:
    found = from_environ({TAGS: "a=1,b=3,a=2,b=3"})
    assert found.tags == {"a": "2", "b": "3"}
    assert found.problems == [f"{TAGS}: tag a is given twice, as '1' and as '2'; the last one counts"]
    assert from_environ({TAGS: "experiment=x", EXPERIMENT: "x"}).problems == []
    found = from_environ({TAGS: "experiment=x", EXPERIMENT: "y"})
    assert found.tags == {"experiment": "y"}
    assert found.problems == [
        f"{EXPERIMENT}: tag experiment is given twice, as 'x' and as 'y'; the last one counts"
    ]


def test_part_of_an_environment_that_is_no_tag_is_named_and_left_out() -> None:
    found = from_environ({TAGS: "Nodes=4,batch,ok=1,=5,x=", EXPERIMENT: "a\nb"})
    assert found.tags == {"ok": "1"}
    assert len(found.problems) == 5
    assert "'batch' must be NAME=VALUE" in found.problems[1]


def test_more_tags_than_are_kept() -> None:
    found = from_environ({TAGS: ",".join(f"t{n}=1" for n in range(MAX_TAGS + 1))})
    assert len(found.tags) == MAX_TAGS and str(MAX_TAGS + 1) in found.problems[0]


@pytest.mark.parametrize(
    "text", ["nodes", "Nodes=4", "4=4", "nodes=", "n=" + "x" * 257, "n=a\x1bb", "n" * 65 + "=1"]
)
def test_what_is_no_tag(text: str) -> None:
    with pytest.raises(TagError):
        parse(text)


def test_options_go_before_the_environment_and_are_inherited(environ: dict[str, str]) -> None:
    environ |= {TAGS: "nodes=2,batch=32", EXPERIMENT: "old"}
    done = python(environ, PRINT, "--tag", "nodes=4", "--tag", "note=a,b", "--experiment", "scaling")
    assert json.loads(done.stdout) == ["nodes=4,batch=32,note=a\\,b", "scaling"]


def test_same_tag_may_be_given_again() -> None:
    assert from_options(["a=1", "a=1", "experiment=x"], "x") == {"a": "1", "experiment": "x"}
    with pytest.raises(TagError, match="tag a is given twice, as '1' and as '2'"):
        from_options(["a=1", "b=1", "a=2"], None)


def test_rank_without_tags_is_given_none(environ: dict[str, str]) -> None:
    assert json.loads(python(environ, PRINT).stdout) == [None, None]


@pytest.mark.parametrize(
    "option",
    [
        ("--tag", "Nodes=4"),
        ("--tag", "nodes"),
        ("--experiment", ""),
        ("--tag", "nodes=1", "--tag", "nodes=2"),
        ("--tag", "experiment=a", "--experiment", "b"),
    ],
)
def test_option_that_is_no_tag_starts_nothing(environ: dict[str, str], option: tuple[str, ...]) -> None:
    done = run(environ, "echo", "started", options=option)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--tag" in done.stderr


def test_malformed_tags_in_the_environment_stop_nothing(environ: dict[str, str]) -> None:
    done = python(environ | {TAGS: "nodes=4,BATCH=3"}, PRINT)
    assert (done.returncode, json.loads(done.stdout)) == (0, ["nodes=4", None])
    assert b"tags: " in done.stderr and b"BATCH" in done.stderr


def test_wrapper_sends_tags_to_the_agent(environ: dict[str, str], tmp_path: Path) -> None:
    with FakeAgent(tmp_path / "agent.sock") as agent:
        assert run(environ, "true", options=("--tag", "nodes=4", "--experiment", "s")).returncode == 0
        packets = [data for _, data in agent.poll(0.5)]
    facts = [p[4:] for p in packets if p[:1] == b"F"]
    assert facts[:2] == [b"tag.nodes=4", b"tag.experiment=s"]
    assert [fact.partition(b" ")[0] for fact in facts[2:]] == [b"exit=0"]


def test_agent_reads_them_where_no_wrapper_is(caplog: pytest.LogCaptureFixture) -> None:
    one = Rank("j", "worker", 0, 100)
    with caplog.at_level(logging.WARNING):
        facts = RankFacts().of_started([(one, {TAGS: "nodes=4,No=1", EXPERIMENT: "s"})], [one], 7)
    assert [f.text for f in facts][:2] == ["tag.nodes=4", "tag.experiment=s"]
    assert "worker:0 of job j" in caplog.text and "'No'" in caplog.text
