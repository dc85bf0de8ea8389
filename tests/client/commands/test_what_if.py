"""`roofline-client what-if` as a user runs it."""

from __future__ import annotations

import json
from typing import Any

from roofline.v1 import query_pb2 as pb

from ..command_line import run
from ..fake_server import answer, serving


def of_step(seconds: float | None) -> Any:
    found = pb.WhatIf(job="42", sentence="cannot be predicted: no steps")
    found.step.then.unit = "s"
    if seconds is not None:
        found.step.then.value = seconds
    return answer(found)


def test_what_cannot_be_predicted_is_printed_and_ends_with_5() -> None:
    for form in ("text", "json", "csv"):
        with serving(GetWhatIf=of_step(None)) as asked:
            done = run("what-if", "--job", "42", "--ranks", "4", "--format", form, "--server", asked.address)
        assert done.returncode == 5, done.stderr
        if form == "json":
            assert json.loads(done.stdout)["sentence"].startswith("cannot be predicted")
    with serving(GetWhatIf=of_step(0.5)) as asked:
        done = run("what-if", "--job", "42", "--ranks", "4", "--server", asked.address)
    assert done.returncode == 0, done.stderr
