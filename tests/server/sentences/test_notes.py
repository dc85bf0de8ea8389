"""Notes of a report: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import notes as texts

MANY = [f"worker:{number}" for number in range(1000)]
FOUR = "worker:0, worker:1, worker:2, worker:3 and 996 more"
TIMES = ["12:00:00 to 12:05:00"]


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.gap("n1", 12.34, "12:00:01", texts.AGENT_RESTARTED),
            (
                "gap: n1 was not watched for 12.3 s from 12:00:01: the agent was not running and was "
                "started again"
            ),
        ),
        (
            texts.missing_steps("worker:0", 3, 0, 99),
            "worker:0: 3 steps between 0 and 99 were not seen",
        ),
        (
            texts.missing_steps("worker:0", 1, 0, 99),
            "worker:0: 1 step between 0 and 99 was not seen",
        ),
        (
            texts.left_out(["worker:0"], 40),
            "at least 40 optimizer updates of worker:0 in no step: made in other threads than the training's",
        ),
        (
            texts.unseen(["worker:0"], 1),
            "1 step of worker:0 not seen",
        ),
        (
            texts.clock_error("n1", 0.0012, 0.01),
            "clock of n1 is known only to 1.20 ms, 12% of a median step: steps across nodes are blurred",
        ),
        (
            texts.restarted(["worker:0", "worker:1"], 1),
            "worker:0, worker:1: started again once; the numbers are of all processes",
        ),
        (
            texts.restarted(["worker:0"], 2),
            "worker:0: started again 2 times; the numbers are of all processes",
        ),
        (
            texts.steps_from(["worker:0"], "its output"),
            "steps of worker:0 are from its output",
        ),
        (
            texts.heavy_step(0, 0.4, ["worker:0", "worker:1"]),
            (
                "step 0 took 40% of the time of all steps of worker:0, worker:1 and is included in all "
                "rates; exclude it with --steps"
            ),
        ),
        (
            texts.replayed("5,100-102", ["worker:0", "worker:1"]),
            "steps 5,100-102 of worker:0, worker:1",
        ),
        (
            texts.ncu_replayed(texts.replayed("5", ["worker:0"])),
            (
                "ncu replayed steps 5 of worker:0: FLOPs and bytes of a step are theirs, times and rates "
                "those of the other steps"
            ),
        ),
        (
            texts.tag_differs("batch", {"32": ["worker:0"], "64": ["worker:1", "worker:2"]}, "64"),
            "tag batch differs: '32' (worker:0), '64' (worker:1, worker:2); '64', given last, is used",
        ),
        (
            texts.lost("marks", 12),
            "lost: 12 marks",
        ),
        (
            texts.refused("a batch too large", 2),
            "refused: a batch too large (2 times)",
        ),
        (
            texts.refused("a batch too large", 1),
            "refused: a batch too large (once)",
        ),
        (
            texts.damaged({"a.parquet": 1}),
            "1 row of this job cannot be read and is missing here: a.parquet, damaged or missing",
        ),
        (
            texts.source_failed("perf: not allowed"),
            "source failed: perf: not allowed",
        ),
        (
            texts.absent(["worker:0"], ["power", "energy_per_step"], "no energy counter was read"),
            "not measured for worker:0 (power, energy_per_step), because no energy counter was read",
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (texts.restarted(MANY, 1), f"{FOUR}: started again once; the numbers are of all processes"),
        (texts.steps_from(MANY, "its output"), f"steps of {FOUR} are from its output"),
        (
            texts.heavy_step(0, 0.4, MANY),
            "step 0 took 40% of the time of all steps of worker:0, worker:1 and 998 more and is included in "
            "all rates; exclude it with --steps",
        ),
        (texts.replayed("5", MANY), f"steps 5 of {FOUR}"),
        (
            texts.tag_differs("batch", {"32": ["chief:0"], "64": MANY}, "64"),
            f"tag batch differs: '32' (chief:0), '64' ({FOUR}); '64', given last, is used",
        ),
        (texts.absent(MANY, ["power"], "no counter"), f"not measured for {FOUR} (power), because no counter"),
    ],
)
def test_of_many_ranks_the_first_are_named(made: str, text: str) -> None:
    assert made == text


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.slowed("4 s", ["n1"], TIMES, 1, "busy"),
            "n1 sampled every 4 s from 12:00:00 to 12:05:00 and 1 more time: busy",
        ),
        (
            texts.fewer_kernels("2", ["n1"], TIMES, 2, "busy"),
            "n1 recorded kernels in 2 times fewer steps from 12:00:00 to 12:05:00 and 2 more times: busy",
        ),
        (
            texts.held("4 s", ["n1", "n2"], TIMES, 1, "busy"),
            "n1, n2 sent their data only every 4 s from 12:00:00 to 12:05:00 and 1 more time: busy",
        ),
        (
            texts.held("4 s", ["n1"], TIMES, 0, "busy"),
            "n1 sent its data only every 4 s from 12:00:00 to 12:05:00: busy",
        ),
    ],
)
def test_stretches_in_which_nodes_recorded_less(made: str, text: str) -> None:
    assert made == text
