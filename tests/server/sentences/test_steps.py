"""Notes of the table of steps: the exact texts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from roofline_server.sentences import steps as texts


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.failed_hooks([("torch", "failed: no module"), ("tf", "failed: old")]),
            (
                "hook torch failed: no module; hook tf failed: old; mark steps with roofline_step.step(k) "
                "or give `roofline-agent run --step-regex`"
            ),
        ),
        (
            texts.idle_hooks(["torch"]),
            (
                "hook torch was installed but no step happened that it sees; mark steps with "
                "roofline_step.step(k) or give `roofline-agent run --step-regex`"
            ),
        ),
        (
            texts.idle_hooks(["torch", "tf"]),
            (
                "hooks torch, tf were installed but no step happened that they see; mark steps with "
                "roofline_step.step(k) or give `roofline-agent run --step-regex`"
            ),
        ),
        (
            texts.may_wait_for(["ddp:2"], 1),
            (
                "no step happened that hooks see. Perhaps the ranks wait for ddp:2, which was not seen: look "
                "whether it has started. Else mark steps with roofline_step.step(k) or give "
                "`roofline-agent run --step-regex`"
            ),
        ),
        (
            texts.may_wait_for(["ddp:2", "ddp:3"], 2),
            (
                "no step happened that hooks see. Perhaps the ranks wait for ddp:2, ddp:3, which were not "
                "seen: look whether they have started. Else mark steps with roofline_step.step(k) or give "
                "`roofline-agent run --step-regex`"
            ),
        ),
        (
            texts.no_steps_of(["ps:0", "ps:1"], texts.NOTHING_SERVED),
            "no steps of ps:0, ps:1: it has none of its own, and no worker's steps are known",
        ),
        (
            texts.none_in_range(["worker:0"], 5, None, (0, 3)),
            "worker:0: no step from 5 to the last; the job has steps 0 to 3",
        ),
        (
            texts.none_in_range(["worker:0"], None, 7, None),
            "worker:0: no step from the first to 7; the job has no steps",
        ),
        (
            texts.windows_of_time(["ps:0"], 2.0),
            "rows of ps:0 are not steps but windows of at most 2 s (column window_of: time)",
        ),
        (
            texts.shorter_than_sampling(10, 10, [20_000_000]),
            (
                "all of the steps are shorter than the sampling interval (20 ms): their counters are "
                "averages over the samples around them (column samples: how many lie inside)"
            ),
        ),
        (
            texts.shorter_than_sampling(5, 10, [20_000_000, 100_000_000]),
            (
                "50% of the steps are shorter than the sampling interval (20 ms and 100 ms): their counters "
                "are averages over the samples around them (column samples: how many lie inside)"
            ),
        ),
        (
            texts.united_steps(["ps:0"]),
            (
                "no steps of their own, ps:0: a row lasts from the first worker's start of a step to the "
                "last worker's end"
            ),
        ),
        (
            texts.overlapping_steps(["ps:0"]),
            ("no steps of their own, ps:0: a row is one worker's step (column window_of), and these overlap"),
        ),
        (
            texts.collectives_of_some(["ddp:0"], 10, 100),
            (
                "collectives of ddp:0: known in 10 of 100 steps; of the others the framework reports only "
                "how long the rank was blocked"
            ),
        ),
        (
            texts.replayed("steps 5 of ddp:0"),
            "ncu replayed steps 5 of ddp:0: its time means nothing",
        ),
        (
            texts.left_out([("warm-up", 1, 0.94), ("after a break", 10, 0.87)]),
            (
                "left out: 1 warm-up step (940 ms), 10 steps after a break (870 ms); "
                "--steps all has every step"
            ),
        ),
        (
            texts.kernels_shown(2_000_000, 3_000_000),
            "only 2,000,000 of 3,000,000 kernels: choose steps or ranks to see the others",
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text


@pytest.mark.parametrize(
    "note",
    [
        lambda ranks: texts.no_steps_of(ranks, texts.NOTHING_SERVED),
        lambda ranks: texts.none_in_range(ranks, 5, None, (0, 3)),
        lambda ranks: texts.windows_of_time(ranks, 2.0),
        texts.united_steps,
        texts.overlapping_steps,
    ],
)
def test_of_many_ranks_the_first_are_named(note: Callable[[list[str]], str]) -> None:
    made = note([f"ps:{number}" for number in range(1000)])
    assert "ps:0, ps:1, ps:2, ps:3 and 996 more" in made and "ps:4" not in made
