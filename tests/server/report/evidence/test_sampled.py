"""With kernels of a sample of steps every answer is the one that kernels of all steps give."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from roofline.answers.report import Report
from roofline.answers.values import Provenance, Value
from roofline.v1 import ingest_pb2 as pb
from roofline_server.chunks import Chunk
from roofline_server.report.breakdown.breakdowns import breakdown
from roofline_server.report.job.build import build
from roofline_server.report.kernels.totals import kernel_totals
from roofline_server.report.questions import ALL_STEPS, Steps, Subject
from roofline_server.report.roofline.rooflines import roofline
from roofline_server.report.steps.steps import steps_table
from roofline_server.report.time_roofline.time_rooflines import TimeRooflineQuery, time_roofline
from roofline_server.report.trajectory.trajectories import TrajectoryQuery, trajectory
from roofline_server.report.waits import stragglers
from roofline_server.store.store import Store

from ...builders import BORDER, MS, batch, calls, marks, open_store, rank, spans
from ..work import CPU, FIRST, Host, kernel

CONV = kernel("convolution", 40_000_000, 128_000, problem="32x3x8x8", implementation="jit:avx512_core")
HALF = kernel("convolution", 20_000_000, 64_000, problem="16x3x8x8", implementation="jit:avx2")
BACK = kernel("matmul", 30_000_000, 200_000, precision="bf16")
REORDER = kernel("reorder", 0, 50_000)
STEPS = 960
ALL, ONE_IN_8 = 1, 8
TOLERANCE = 0.01


def like_of(step: int) -> int:
    """1: a full batch; 2: the smaller one that ends an epoch of 12 steps; 3: every 40th does more."""
    return 2 if step % 12 == 11 else 3 if step % 40 == 7 else 1


def is_sampled(step: int, one_in: int) -> bool:
    return 1 <= step < 5 or step * 2654435761 % 2**32 < 2**32 // one_in


def noise(step: int, share: float) -> float:
    return 1 + share * math.sin(step * 12.9898)


@dataclasses.dataclass
class Training:
    """Two workers on one node whose steps are of several kinds. slower: what sampled steps take more."""

    one_in: int = ALL
    likes: bool = True
    examples: bool = True
    slower: float = 0.0
    job: str = "job"
    batch_size: int = 32
    facts: tuple[str, ...] = ()

    def put(self, store: Store, host: Host, sequence: int = 1) -> None:
        called, said, phases, covered = [], [], [], []
        end = FIRST
        for r in range(2):
            now = FIRST
            said.append((r, BORDER, 0, 0, now))
            for step in range(1, STEPS + 1):
                like, recorded = like_of(step), self.one_in == ALL or is_sampled(step, self.one_in)
                kernels = {1: (0, 2, 3), 2: (1, 2, 3), 3: (0, 2, 2, 3)}[like]
                lasted = round(20 * MS * noise(step, 0.1) * (1 + self.slower * recorded))
                at = now + MS
                for number in kernels:
                    took = round(2 * MS * noise(step + number, 0.004))
                    if recorded:
                        called.append((r, number, at, took))
                    at += took
                    if number < 2:  # the convolution is the forward pass
                        phases.append((r, "phase.forward", now, at, 0, 1))
                        forward = at
                phases.append((r, "phase.backward", forward, at, 0, 1))
                if recorded:
                    covered.append((r, now, now + lasted))
                now += lasted
                examples = self.batch_size // (2 if like == 2 else 1)
                said.append((r, BORDER, step, examples if self.examples else -(2**63), now))
            end = max(end, now)
        facts = (*self.facts, *(("cost.kernels=1/8",) if self.one_in != ALL else ()))
        events = [
            pb.Event(kind=pb.EVENT_KIND_KERNELS_COVERED, rank=r, begin_ns=b, end_ns=e) for r, b, e in covered
        ]
        events += [
            pb.Event(kind=pb.EVENT_KIND_FACT, rank=r, begin_ns=FIRST, end_ns=FIRST, text=text)
            for r in range(2)
            for text in facts
        ]
        host.put(
            store,
            batch(
                sequence,
                FIRST,
                end + 1,
                ranks=[rank(self.job, index=r, pid=100 + r) for r in range(2)],
                kernels=[CONV, HALF, BACK, REORDER],
                calls=calls(called),
                marks=marks(said, likes={s: like_of(s) for s in range(1, STEPS + 1)} if self.likes else None),
                spans=spans(phases),
                events=events,
            ),
        )


def store_of(root: Path, *found: Training) -> Store:
    store, host = open_store(root), Host("a", CPU)
    host.greet(store)
    for number, training in enumerate(found):
        training.put(store, host, 1 + number)
    store.seal()
    return store


def both(tmp_path: Path, **changes: Any) -> tuple[Store, Store]:
    return (
        store_of(tmp_path / "all", Training(**changes)),
        store_of(tmp_path / "sampled", Training(one_in=ONE_IN_8, **changes)),
    )


def numbers(answer: object, path: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of an answer that are results, by where they stand."""
    if isinstance(answer, bool) or answer is None or isinstance(answer, str):
        return
    if isinstance(answer, (int, float)):
        yield path, float(answer)
    elif isinstance(answer, Value):
        if answer.value is not None:
            yield path, answer.value
    elif hasattr(answer, "_asdict"):
        # Of a spread over single calls, the extremes and how many they are differ from sample to sample.
        fields = {n: v for n, v in answer._asdict().items() if n not in ("count", "p5", "p95", "p25", "p75")}
        labelled = f"{path}/{fields['label']} {fields.get('level')}" if "label" in fields else path
        for name, value in fields.items():
            yield from numbers(value, f"{labelled}.{name}")
    elif isinstance(answer, Mapping):
        for name, value in answer.items():
            yield from numbers(value, f"{path}[{name}]")
    elif isinstance(answer, (list, tuple)):
        for at, value in enumerate(answer):
            name = getattr(value, "label", None) or getattr(value, "part", None)
            yield from numbers(value, f"{path}/{name}" if name else f"{path}[{at}]")


def same(expected: object, found: object, but: str = "") -> None:
    """but: what only steps whose kernels were recorded have."""
    wanted, given = dict(numbers(expected)), dict(numbers(found))
    if but:
        wanted = {name: number for name, number in wanted.items() if but not in name}
    assert len(wanted) >= 2
    assert wanted.keys() == given.keys()
    assert given == {name: pytest.approx(number, rel=TOLERANCE) for name, number in wanted.items()}


def rows_of(chunk: Chunk) -> list[dict[str, Any]]:
    names = [c.name for c in chunk.columns]
    return [
        dict(zip(names, row, strict=True))
        for row in zip(*(c.values.tolist() for c in chunk.columns), strict=True)
    ]


def view_of(store: Store, job: str = "job") -> Any:
    view = store.view(job)
    assert view is not None
    return view


def reported(store: Store, steps: Steps = ALL_STEPS) -> Report:
    return build(view_of(store), steps)


RANGES = [ALL_STEPS, Steps(500, 740), Steps(11, 11)]


@pytest.mark.parametrize("steps", RANGES)
def test_report(tmp_path: Path, steps: Steps) -> None:
    whole, sampled = (reported(store, steps) for store in both(tmp_path))
    # When the last kernel of step 11 ended is not known.
    but = "wait_time" if steps == Steps(11, 11) else ""
    same([r.summary for r in whole.ranks], [r.summary for r in sampled.ranks], but)
    same([r.summary for r in whole.roles], [r.summary for r in sampled.roles], but)
    same(whole.points, sampled.points)


@pytest.mark.parametrize("kind", ["classic", "hierarchical"])
@pytest.mark.parametrize("points", ["role", "rank", "step", "phase", "kernel"])
def test_rooflines(tmp_path: Path, kind: str, points: str) -> None:
    answers = [
        roofline(store, view_of(store), Subject("job", Steps(100, 900)), kind, points)
        for store in both(tmp_path)
    ]
    same(answers[0].points, answers[1].points)
    assert not any(
        "watched" in note or "watched" in p.incomplete for a in answers for p in a.points for note in a.notes
    )


@pytest.mark.parametrize("steps", RANGES[:2])
@pytest.mark.parametrize("points", ["kernel", "step"])
def test_time_roofline(tmp_path: Path, points: str, steps: Steps) -> None:
    asked = TimeRooflineQuery(Subject("job", steps), "", (), "", points)
    answers = [time_roofline(store, asked) for store in both(tmp_path)]
    same([p.points for p in answers[0].panels], [p.points for p in answers[1].panels])
    if points == "kernel":
        same([p.no_flop_time for p in answers[0].panels], [p.no_flop_time for p in answers[1].panels])


@pytest.mark.parametrize("steps", RANGES)
@pytest.mark.parametrize("by", ["role", "rank"])
def test_breakdown(tmp_path: Path, by: str, steps: Steps) -> None:
    answers = [breakdown(store, view_of(store), Subject("job", steps), by) for store in both(tmp_path)]
    # By layer of the software it is the account, which knows these ranks' waits by their kernels alone.
    known = [[part for part in answer.parts if part.kind != "stack_by_time"] for answer in answers]
    same(known[0], known[1], "wait" if steps == Steps(11, 11) else "")
    assert answers[1].notes and "from sampled steps" in answers[1].notes[0]


def test_trajectory(tmp_path: Path) -> None:
    def experiment(root: Path, one_in: int) -> Store:
        jobs = [
            Training(
                one_in, job=f"job{size}", batch_size=size, facts=("tag.experiment=e", f"tag.batch={size}")
            )
            for size in (16, 32)
        ]
        return store_of(root, *jobs)

    stores = experiment(tmp_path / "all", ALL), experiment(tmp_path / "sampled", ONE_IN_8)
    answers = [trajectory(store, TrajectoryQuery("e", (), "batch")) for store in stores]
    same(answers[0].paths, answers[1].paths)


def test_stragglers(tmp_path: Path) -> None:
    answers = [stragglers.find(view_of(store)) for store in both(tmp_path)]
    kernels = [[r.values["kernel_time_per_step"] for r in a.ranks] for a in answers]
    same(kernels[0], kernels[1])


def test_rank_without_likes_whose_sampled_steps_differ_is_estimated_by_examples(tmp_path: Path) -> None:
    _, store = both(tmp_path, likes=False)
    value = reported(store).roles[0].summary.values["flops_per_second"]
    assert value.provenance == Provenance.ESTIMATED
    assert "are estimated" in value.reason


def test_values_say_that_they_are_from_sampled_steps(tmp_path: Path) -> None:
    whole, store = both(tmp_path)
    found = reported(store).roles[0].summary.values["flops_per_step"]
    recorded = 2 * sum(is_sampled(step, ONE_IN_8) for step in range(1, STEPS + 1))
    assert found.provenance == Provenance.ANALYTIC
    assert found.coverage == pytest.approx(recorded / (2 * STEPS))
    assert f"kernels of {recorded} of {2 * STEPS:,} steps were recorded" in found.reason
    assert "estimated" not in found.reason
    value = reported(whole).roles[0].summary.values["flops_per_step"]
    assert "sampled" not in value.reason and value.coverage == 1


def test_what_sampling_costs_does_not_lower_the_rates(tmp_path: Path) -> None:
    """Sampled steps take twice as long: rates are over the time that all steps took."""
    whole = reported(store_of(tmp_path / "all", Training()))
    slow = reported(store_of(tmp_path / "slow", Training(one_in=ONE_IN_8, slower=1.0)))
    lasted = [
        r.roles[0].summary.values["steps"].value / r.roles[0].summary.values["examples_per_second"].value
        for r in (whole, slow)
    ]  # type: ignore[operator]
    rates = [r.roles[0].summary.values["flops_per_second"].value for r in (whole, slow)]
    assert rates[0] / rates[1] == pytest.approx(lasted[1] / lasted[0], rel=TOLERANCE)  # type: ignore[operator]
    assert rates[0] / rates[1] < 1.25  # type: ignore[operator]


def test_steps_that_were_not_sampled_are_no_losses(tmp_path: Path) -> None:
    _, store = both(tmp_path)
    report = reported(store)
    assert not any("watched" in text for text in [*report.notes, *report.verdicts])
    assert report.gaps == []


def test_without_the_fact_steps_that_were_not_recorded_are_not_known(tmp_path: Path) -> None:
    """An agent's gap, or kernels that were lost: nobody said that steps were left out on purpose."""
    whole, _ = both(tmp_path)
    store = store_of(tmp_path / "none", Training(one_in=ONE_IN_8, facts=("cost.kernels=all",)))
    totals = kernel_totals(store, view_of(store))
    assert totals.of_sample != ""  # of two facts the newest holds; here that of the sample
    found = kernel_totals(whole, view_of(whole), ALL_STEPS)
    assert found.of_sample == "" and set(found.steps.values()) == {STEPS}


@pytest.mark.parametrize("steps", [ALL_STEPS, Steps(11, 14)])
def test_table_of_steps_says_how_the_kernels_of_each_are_known(tmp_path: Path, steps: Steps) -> None:
    tables = []
    for store in both(tmp_path):
        rows = [
            row for chunk in steps_table(view_of(store), [], steps, "synchronous") for row in rows_of(chunk)
        ]
        tables.append(rows)
    whole, sampled = tables
    assert [(r["rank"], r["step"], r["flops"]) for r in sampled] == [
        (r["rank"], r["step"], r["flops"]) for r in whole
    ]
    wanted = ["recorded" if is_sampled(row["step"], ONE_IN_8) else "like" for row in sampled]
    assert [row["kernels"] for row in sampled] == wanted
    assert "kernels" not in whole[0]


def test_report_says_what_the_profiler_cost(tmp_path: Path) -> None:
    facts = ("cost.hooks_ns=6000", "cost.wrapper_cpu_ns=100000000", "cost.hooks_ns=8000")
    found = reported(store_of(tmp_path, Training(one_in=ONE_IN_8, slower=0.5, facts=facts))).cost
    assert "hooks 8 us a step" in found.words and "kernels of 1 step in 8, +49.4% each" in found.words
    slower = found.values["cost.kernels.slower"].value
    assert slower == pytest.approx(0.5, abs=0.05)
    # 0.1 s of CPU of each of two wrappers on a node of 48 CPUs.
    seconds = (
        STEPS * 0.02 * (1 + 0.5 * sum(is_sampled(step, ONE_IN_8) for step in range(1, STEPS + 1)) / STEPS)
    )
    assert found.values["cost.wrapper.share"].value == pytest.approx(0.2 / seconds / 48, rel=0.05)
    assert found.values["cost.agent.share"].value is None
    nothing = reported(store_of(tmp_path / "nothing", Training())).cost
    assert nothing.words == "" and nothing.values["cost.share"].value is None


def test_report_says_what_it_takes_to_print_all_kernels(tmp_path: Path) -> None:
    facts = ("cost.kernel_lines=1000", "cost.kernel_lines=200000")
    found = reported(store_of(tmp_path, Training(facts=facts)))
    rate = found.cost.values["cost.kernels.lines_per_second"].value
    assert rate is not None and rate > 2000
    assert found.cost.values["cost.kernels.share"].value == pytest.approx(min(1.0, 5e-6 * rate))
    (note,) = [one for one in found.notes if "lines of kernels a second" in one]
    assert f"{rate:,.0f}" in note and "--no-kernels" in note
    few = reported(store_of(tmp_path / "few", Training(facts=("cost.kernel_lines=100",))))
    assert not [one for one in few.notes if "lines of kernels a second" in one]


def test_rank_of_whose_sample_no_step_was_seen_is_not_said_to_be_unwrapped(tmp_path: Path) -> None:
    store, node = open_store(tmp_path), Host("a", CPU)
    node.greet(store)
    text = "cost.kernels=1/64"
    event = pb.Event(kind=pb.EVENT_KIND_FACT, rank=0, begin_ns=FIRST, end_ns=FIRST, text=text)
    said = marks([(0, BORDER, step, 32, FIRST + step * MS) for step in range(5)])
    node.put(store, batch(1, FIRST, FIRST + 10 * MS, ranks=[rank()], marks=said, events=[event]))
    reason = reported(store).ranks[0].summary.values["flops_per_step"].reason
    assert "sample" in reason and "roofline-agent run" not in reason


def test_waits_that_kernels_of_a_few_steps_show_are_not_known(tmp_path: Path) -> None:
    view = store_of(tmp_path, Training(one_in=512)).view("job")
    assert view is not None
    found = build(view, ALL_STEPS).verdict
    assert found is not None
    assert found.headline == (
        "not known who waits for whom: it was seen in 6 of 960 steady steps, those with recorded kernels; "
        "record kernels of all steps: `roofline-agent run --kernels all`"
    )
