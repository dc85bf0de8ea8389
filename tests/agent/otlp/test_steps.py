"""Which spans are steps and phases, on spans as a training sends them."""

from __future__ import annotations

import itertools

from roofline_agent.marks.packets import parse_mark, parse_spans
from roofline_agent.otlp import steps
from roofline_agent.otlp.attributes import BLOCK, ITERATION
from roofline_agent.otlp.steps import OtlpSpan, Sender, SpanSteps

MS = 1_000_000
_ids = itertools.count(1)


def span(
    name: str, begin: int, end: int, parent: OtlpSpan | None = None, step: int | None = None
) -> OtlpSpan:
    """Times in ms."""
    number = next(_ids).to_bytes(8, "big")
    return OtlpSpan(name, begin * MS, end * MS, number, parent.id if parent else b"", step)


def read(packets: list[bytes]) -> tuple[list[tuple[int, int, int, int | None]], list[tuple[str, int, int]]]:
    """Marks (kind, step, ms, examples) and phases (name, ms, ms)."""
    marks, phases = [], []
    for data in packets:
        if data[:1] == b"M":
            first = parse_mark(data)
            both = (first, parse_mark(data, first.size))
            marks += [(one.kind, one.step, one.time_ns // MS, one.examples) for one in both]
        else:
            found = parse_spans(data)
            rows = zip(found.which, found.begins, found.ends, strict=True)
            phases += [(found.names[at], begin // MS, end // MS) for at, begin, end in rows]
    return marks, phases


def test_root_span_with_a_number_is_a_step_and_its_children_are_phases() -> None:
    step = span("train_step", 10, 50, step=7)
    forward, loss = span("Forward pass", 10, 30, step), span("optimizer_step", 30, 50, step)
    deeper = span("attention", 12, 15, forward)
    marks, phases = read(SpanSteps().packets([deeper, forward, loss, step], 32))
    assert marks == [(1, 7, 10, None), (2, 7, 50, 32)]
    assert phases == [("phase.forward_pass", 10, 30), ("phase.optimizer", 30, 50)]


def test_of_megatrons_spans_the_iteration_is_the_step_also_when_its_block_ends_in_a_later_request() -> None:
    block = span(BLOCK, 0, 60, step=3)
    one = span(ITERATION, 0, 40, block, step=3)
    check = span("nv.dl.training.evaluate", 40, 60, block, step=3)
    part = span(f"{ITERATION}.forward_backward", 0, 30, one)
    made = SpanSteps()
    marks, phases = read(made.packets([part, one], None))
    assert [(kind, at) for kind, _, at, _ in marks] == [(1, 0), (2, 40)]
    assert phases == [("phase.forward_backward", 0, 30)]
    assert made.packets([check, block], None) == [] and made._count == 0
    together = SpanSteps().packets([part, one, check, block], None)
    assert read(together)[0] == marks


def test_children_that_came_in_an_earlier_request_are_phases_of_their_step() -> None:
    made, step = SpanSteps(), span("step", 0, 20, step=1)
    assert made.packets([span("load", 0, 5, step)], None) == []
    assert read(made.packets([step], None))[1] == [("phase.load", 0, 5)]


def test_spans_whose_parent_never_ends_are_held_in_bounds_and_counted() -> None:
    made, parents = SpanSteps(), [span("open", 0, 9, step=0) for _ in range(100)]
    for parent in parents:
        made.packets([span("part", 0, 1, parent) for _ in range(100)], None)
    assert made._count <= steps.MOST_HELD
    assert made.left_out == 100 * 100 - made._count


def test_spans_without_a_number_make_nothing() -> None:
    assert SpanSteps().packets([span("GET /", 0, 5), span("evaluate", 5, 9)], None) == []


def test_what_a_process_says_of_itself() -> None:
    about = {"nv.dl.rank": 3, "nv.dl.world_size": 8, "nv.dl.role": "trainer", "nv.dl.run.uuid": "r"}
    sizes = {"nv.dl.training.config.global_batch_size": 64, "nv.dl.topology.size.dp": 2}
    assert Sender.of({**about, **sizes}) == Sender(3, 8, "r", 32, True)
    assert not Sender.of({"nv.dl.rank": 0, "nv.dl.role": "ckpt_worker"}).is_rank
    assert Sender.of({"nv.dl.rank": "3", "nv.dl.world_size": -1}) == Sender(None, None, "", None, True)
