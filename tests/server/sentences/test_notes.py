"""Notes of a report: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import notes as texts


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
                "step 0 took 40% of the time of all steps of worker:0, worker:1: rates are over all of "
                "them; --steps leaves it out"
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
            texts.source_failed("perf: not allowed"),
            "source failed: perf: not allowed",
        ),
        (
            texts.absent(["worker:0"], ["power", "energy_per_step"], "no energy counter was read"),
            "absent for worker:0: power, energy_per_step: no energy counter was read",
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text
