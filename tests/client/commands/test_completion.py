"""What a shell is offered while a line is typed, asked as bash asks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from roofline.v1 import query_pb2 as pb

from ...fakes import clean_environ
from ..fake_server import answer, never_answering, serving

JOBS = answer(
    pb.ListJobsResponse(
        jobs=[
            pb.Job(job="41", begin_ns=1, hosts=["h"], tags={"experiment": "scaling"}),
            pb.Job(job="42", begin_ns=2, hosts=["h"], tags={"experiment": "batch"}),
        ]
    )
)
REPORT = answer(pb.Report(job="42", ranks=[pb.RankReport(rank="worker:0"), pb.RankReport(rank="ps:0")]))


def offered(address: str, line: str) -> list[str]:
    """Of the last word of the line, which may be empty."""
    words = line.split(" ")
    environ = clean_environ(
        _ROOFLINE_CLIENT_COMPLETE="complete_bash",
        COMP_WORDS=line,
        COMP_CWORD=str(len(words) - 1),
        ROOFLINE_SERVER=address,
        PYTHONPATH=os.pathsep.join(sys.path),
    )
    code = "import sys; sys.argv = ['roofline-client']; from roofline_client.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("report ", ["42", "41", "last"]),
        ("report --job 4", ["42", "41"]),
        ("plot --job 41 --job 42", ["42"]),
        ("steps --job 42 --rank w", ["worker:0"]),
        ("steps 42 --rank ", ["worker:0", "ps:0"]),
        ("steps --rank ", []),
        ("trajectory --experiment s", ["scaling"]),
    ],
)
def test_names_are_those_the_server_knows(line: str, words: list[str]) -> None:
    with serving(jobs=JOBS, report=REPORT) as asked:
        assert offered(asked.address, f"roofline-client {line}") == words


def test_server_that_does_not_answer_offers_nothing() -> None:
    with never_answering() as asked:
        assert offered(asked.address, "roofline-client steps --job 42 --rank w") == []
    assert offered("127.0.0.1:1", "roofline-client report 4") == []
    assert offered("no address at all", "roofline-client report 4") == []
