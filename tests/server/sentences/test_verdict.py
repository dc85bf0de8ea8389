"""The sentences of a verdict: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import verdict as texts

TWO, MANY = ["ddp:0", "ddp:1"], [f"ddp:{number}" for number in range(8)]


@pytest.mark.parametrize(
    ("kind", "ranks", "text"),
    [
        ("blocked", ["ddp:0"], "ddp:0 sleeps, or is blocked on something not traced"),
        ("blocked", [], "every rank sleeps, or is blocked on something not traced"),
        ("blocked", TWO, "ddp:0 and ddp:1 sleep, or are blocked on something not traced"),
        (
            "input|blocked",
            MANY,
            "ddp:0, ddp:1, ddp:2 and 5 more wait for input, sleep or are blocked: what they wait for is not "
            "traced",
        ),
        ("input", [*TWO, "ddp:2"], "slow input on ddp:0, ddp:1 and ddp:2"),
        ("contention", TWO, "CPU contention on ddp:0 and ddp:1: other processes use their CPUs"),
        ("gpu_idle", TWO, "GPUs idle on ddp:0 and ddp:1: they wait for the host"),
        ("paging", TWO, "page faults on ddp:0 and ddp:1: their memory comes from disk or swap"),
        ("evaluates", TWO, "ddp:0 and ddp:1 evaluate between steps, and the others wait"),
        ("saves", TWO, "ddp:0 and ddp:1 save a checkpoint between steps, and the others wait"),
        ("busy_alone", TWO, "ddp:0 and ddp:1 do something else between steps, and the others wait"),
        ("between", TWO, "ddp:0 and ddp:1 spend much of the time between steps"),
        ("slow_link", TWO, "slow network links of ddp:0 and ddp:1: what they send is held up"),
        ("server_slow", ["ps:0"], "slow parameter server ps:0: it lacks CPUs"),
        ("server_slow", ["ps:0", "ps:1"], "slow parameter servers ps:0 and ps:1: they lack CPUs"),
        (
            "server_work",
            ["ps:0", "ps:1"],
            "more work on parameter servers ps:0 and ps:1 than their variables need",
        ),
        ("new_kind", TWO, "ddp:0 and ddp:1: new_kind"),
    ],
)
def test_finding_of_several_ranks_is_in_the_plural(kind: str, ranks: list[str], text: str) -> None:
    assert texts.finding(kind, ranks) == text


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.between_steps([("without_gradients", 3, 0.5)], alone=0),
            "3 stretches without gradients of 500 ms each between steps",
        ),
        (
            texts.between_steps([("evaluation", 1, 0.5)], alone=1),
            "1 evaluation of 500 ms between its steps; the others spend at most half as much time between "
            "theirs",
        ),
        (texts.between_steps([("other", 3, 0.5)], alone=0), "3 stretches of 500 ms each between steps"),
        (
            texts.between_steps([("checkpoint", 2, 0.5)], alone=2),
            "2 checkpoints of 500 ms each between their steps; the others spend at most half as much time "
            "between theirs",
        ),
        (
            texts.between_steps(
                [("evaluation", 4, 0.05), ("checkpoint", 1, 0.1), ("other", 2, 0.02)], alone=0
            ),
            "4 evaluations of 50 ms each, 1 checkpoint of 100 ms, 2 other stretches of 20 ms each "
            "between steps",
        ),
        (
            texts.uneven("compute", 0.54),
            "not certain: 54% of the step goes to kernels, but that varies too much to say what it costs",
        ),
        (texts.more_than_others("input", 0.01, 1), "10 ms a step more in input than the other rank"),
        (texts.more_than_others("input", 0.01, 2), "10 ms a step more in input than the other ranks"),
        (texts.more_than_others("blocked", 0.05, 1), "50 ms a step more off the CPU than the other rank"),
        (texts.why_low(["few_steps"], 38), "only 38 steady steps"),
        (texts.next_gain("input|blocked", False, False), "input or time off the CPU"),
        (texts.next_gain("input"), "input, not overlapped with kernels"),
        (texts.work(1.0, 1, 1), "it does the same work as the other rank (examples, FLOPs, bytes)"),
        (texts.work(1.0, 2, 3), "they do the same work as the other ranks (examples, FLOPs, bytes)"),
        (
            texts.shared_batch(2, 4),
            "up to 8 ranks share a batch (tensor parallel over 2, pipelines of 4), and examples/s counts it "
            "for each",
        ),
        (
            texts.stretched([1.9, 2.08, 2.2], 1),
            "against the other rank: forward 1.9x, backward 2.1x, optimizer 2.2x as long",
        ),
        (texts.work(1.5, 1, 3), "its work is 1.5x that of the other ranks"),
        (texts.work(1.5, 2, 3), "their work is, in the mean, 1.5x that of the other ranks"),
        (texts.too_few_steps(1), "not known: 1 steady step is too few"),
        (texts.too_few_steps(4), "not known: 4 steady steps are too few"),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text


@pytest.mark.parametrize(("part", "why"), [("compute", " for different reasons"), ("input", "")])
def test_several_ranks_are_late_for_different_reasons_only_where_these_differ(part: str, why: str) -> None:
    said = texts.several_late([("ddp:0", "input", 0.02), ("ddp:1", part, 0.01)], 0.01, 0.1)
    assert said.startswith(f"no single cause: ranks are late{why}, ddp:0 by 20 ms a step of input, ")
    assert said.endswith("; fixing both saves 10 ms a step (10%)")
