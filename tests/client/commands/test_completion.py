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
    cursor = str(len(line.split(" ")) - 1)
    asked = {"COMP_WORDS": line, "COMP_CWORD": cursor, "_ROOFLINE_CLIENT_COMPLETE": "complete_bash"}
    return answered(address, asked).split()


def answered(address: str, asked: dict[str, str]) -> str:
    """asked: the variables by which a shell asks."""
    environ = clean_environ(**asked, ROOFLINE_SERVER=address, PYTHONPATH=os.pathsep.join(sys.path))
    code = "import sys; sys.argv = ['roofline-client']; from roofline_client.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout


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


HARMFUL = (
    "\\$(touch pwned)",
    "`touch pwned`",
    "pwned;b",
    "pwned'b",
    'pwned"b',
    "pwned b",
    "p\nwned",
    "--pwned",
)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("report ", '"a/b-1.0\\\\:x@y%+=,é"\n"43":"finished (exit 0)"\n"last":"the newest"'),
        ("steps 42 --rank ", '"ps\\\\:0"'),
        ("trajectory --job 42 --role ", '"ps"'),
        ("trajectory --experiment ", '"scaling"'),
    ],
)
def test_zsh_is_offered_no_name_that_it_might_run(line: str, words: str) -> None:
    jobs = [pb.Job(job=name, begin_ns=9, hosts=["h"], tags={"experiment": name}) for name in HARMFUL]
    jobs.append(pb.Job(job="a/b-1.0:x@y%+=,é", begin_ns=2, hosts=["h"], state="failed: $(touch pwned)"))
    experiment = {"experiment": "scaling"}
    jobs.append(pb.Job(job="43", begin_ns=1, hosts=["h"], state="finished (exit 0)", tags=experiment))
    report = pb.Report(job="42", ranks=[pb.RankReport(rank=f"{name}:0") for name in (*HARMFUL, "ps")])
    zsh = {"_ROOFLINE_CLIENT_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"roofline-client {line}"}
    with serving(jobs=answer(pb.ListJobsResponse(jobs=jobs)), report=answer(report)) as asked:
        assert answered(asked.address, zsh) == f"_arguments '*: :(({words}))'\n"
