"""Why a value is absent: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import reasons as texts


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.no_step_marks({}),
            (
                "no step marks were received: no framework with a hook was imported, or Python ran with -I, "
                "-E or -S; mark them with roofline_step, or give `roofline-agent run --step-regex`"
            ),
        ),
        (
            texts.no_step_marks({"torch": "installed", "tf": "failed: no module"}),
            (
                "no step marks were received (hooks: tf failed: no module, torch installed); mark them with "
                "roofline_step, or give `roofline-agent run --step-regex`"
            ),
        ),
        (
            texts.none_in_range(0, 99),
            "no step is in the range asked for: the job has 0 to 99",
        ),
        (
            texts.no_such_steps("42", "5000:", 0, 79),
            "no steps in 5000: - job 42 has steps 0 to 79",
        ),
        (
            texts.ran_backwards(-12.0, "FLOP/s"),
            "-12 FLOP/s: a counter ran backwards",
        ),
        (
            texts.not_configured("tcp"),
            "source tcp is not configured",
        ),
        (
            texts.no_source("energy"),
            "no source on this node reads energy",
        ),
        (
            texts.not_shared_out("DRAM traffic"),
            "DRAM traffic was read, but there are no steps, or no CPU times, to share it out by",
        ),
        (
            texts.nothing_reads("energy", [("rapl", "not allowed"), ("ipmi", "not there")]),
            "nothing reads energy on this node (rapl: not allowed; ipmi: not there)",
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text
