"""What a kept validation says against values of this node."""

from __future__ import annotations

import os
from pathlib import Path

from roofline_agent.machine import Machine
from roofline_agent.validate import kept
from roofline_agent.validate.caveats import KeptCaveats, caveats_of

from .made import FOUND, RIGHT, WRONG

HERE = Machine("node1", "a CPU", 1, 2, 2, 1 << 30, "6.1.0")


def test_metric_that_was_off_has_a_caveat_with_amount_day_work_and_tolerance() -> None:
    (only,) = caveats_of(FOUND, HERE).items()
    assert only[0] == ("perf", "flops.f32.512")
    assert only[1] == (
        "flops.f32.512 was 20 % too low by `roofline-agent validate` on 2026-11-25 (a thread computes for "
        "0.5 s; tolerance 2 %)"
    )


def test_metric_that_is_off_in_two_works_has_both() -> None:
    twice = FOUND._replace(checks=(WRONG, WRONG._replace(work="another", median=0.3)))
    (why,) = caveats_of(twice, HERE).values()
    assert "20 % too low" in why and "30 % too high" in why


def test_validation_of_another_machine_says_nothing_of_this_one() -> None:
    assert caveats_of(FOUND, HERE._replace(host="node2")) == {}
    assert caveats_of(FOUND, HERE._replace(cpu_model="another")) == {}
    assert caveats_of(None, HERE) == {}
    assert caveats_of(FOUND._replace(checks=(RIGHT,)), HERE) == {}


def test_running_agent_notices_a_new_validation(tmp_path: Path) -> None:
    caveats = KeptCaveats(tmp_path, HERE)
    assert caveats.now == {} and not caveats.read()
    kept.keep(tmp_path, FOUND)
    assert caveats.read()
    assert list(caveats.now) == [("perf", "flops.f32.512")]
    assert not caveats.read()

    kept.path_in(tmp_path).write_text("{")
    os.utime(kept.path_in(tmp_path), (1, 1))
    assert not caveats.read()
    assert list(caveats.now) == [("perf", "flops.f32.512")], "a broken file changes nothing"
