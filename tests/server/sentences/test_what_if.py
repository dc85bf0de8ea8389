"""What-if answers: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import what_if as texts


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (texts.instead(3, 2, "ranks"), "3 ranks instead of 2"),
        (texts.instead(1, 2, "ranks"), "1 rank instead of 2"),
        (texts.instead(1, 8, "examples a rank and step"), "1 example a rank and step instead of 8"),
        (texts.of_bandwidth(2), "links with 2 times the bandwidth"),
        (texts.links_of(1.25e9), "links of 1.25 GB/s"),
        (
            texts.answer("3 ranks instead of 2", 150, 140, 160, 100),
            "with 3 ranks instead of 2: about 150 examples/s (140 to 160) instead of 100",
        ),
        (
            texts.answer_of_step("input fixed", 0.01, 0.009, 0.011, 0.02),
            "with input fixed: about 10 ms a step (9 ms to 11 ms) instead of 20 ms",
        ),
        (texts.cannot_tell(texts.NO_STEPS), "cannot be predicted: too few steady steps were seen"),
        (texts.steady_steps(1200, 2), "1,200 steady steps of 2 ranks"),
        (texts.steady_steps(1, 1), "1 steady step of 1 rank"),
        (
            texts.exposed_transfer(0.004, 2.5e6),
            "communication that nothing hides: 4 ms a step for 2.5 MB a step",
        ),
        (texts.link(1e-4, 1e9), "link: 100 us and 1 GB/s, measured by bench net"),
        (
            texts.cpu_of_all(0.023, 2),
            "CPU time of all ranks for a worker step: 23 ms; their node has 2 CPUs",
        ),
        (
            texts.demands(["ps:0", "ps:1"], [0.002, 0.03]),
            "busy time of the servers per worker step: ps:0 2 ms, ps:1 30 ms",
        ),
        (
            texts.stands_for("input", ["input|host", "input|blocked"]),
            "'input' is known only as a part of 'input or host' and 'input or blocked': the prediction "
            "removes these parts entirely, so the real gain may be smaller",
        ),
        (
            texts.stands_for("input", ["input|host"]),
            "'input' is known only as a part of 'input or host': the prediction removes that part entirely, "
            "so the real gain may be smaller",
        ),
        (
            texts.no_such("x", ["ddp:0"], ["input"]),
            "'x' is no rank of the job and no part of its steps; these are: ddp:0, input",
        ),
        (
            texts.no_such("x", [f"ddp:{i}" for i in range(1000)], ["input"]),
            "'x' is no rank of the job and no part of its steps; these are: ddp:0, ddp:1, ddp:2, ddp:3, "
            "ddp:4, ddp:5, ddp:6, ddp:7, ..., input",
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text
