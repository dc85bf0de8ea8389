"""Claims of papers are judged by readings; what was not measured leaves them open."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

Papers = Callable[[str], ModuleType]

OPERATIONS = (
    "convolution forward_training",
    "convolution backward_weights",
    "convolution backward_data",
    "gemm",
    "rnn forward_training",
    "rnn backward",
)
ROLES = ("worker", "ps", "horovod")


class Complete(dict[str, float]):
    """Every number, and the same one: what is judged is then without meaning, but complete."""

    def __missing__(self, name: str) -> float:
        return 1.0

    def __contains__(self, name: object) -> bool:
        return True


def numbers_of(values: tuple[str, ...]) -> dict[str, float]:
    found = {f"{role}.{name}": 1.0 for role in ROLES for name in values}
    found |= {
        f"time.{one}.{name}": 1.0 for one in OPERATIONS for name in ("launches", "time", "flops", "bytes")
    }
    found |= {
        f"ps:{server}.payload.{size}.{what}": 1.0
        for server in (0, 1)
        for size in ("small", "medium", "large", "total")
        for what in ("variables", "bytes")
    }
    found |= {f"kernel.{one}": 1.0 for one in OPERATIONS}
    more = ("width.f32 512-bit", "precision.f32", "account.compute", "asked", "engine", "launch_overhead")
    return found | dict.fromkeys(
        (*more, "seconds", "seconds_to_first_step", "ps:0.received_bytes_per_second"), 1.0
    )


def complete(papers: Papers) -> Any:
    """A reading of every point."""
    readings, points = papers("readings"), papers("points")
    numbers = numbers_of(readings.VALUES)
    return readings.Readings(
        readings.Reading(p.key, p.key, {**p.tags, "experiment": p.experiment}, "healthy", numbers)
        for p in points.points()
    )


def claims(papers: Papers) -> list[Any]:
    return [
        claim for name in ("javed2019", "wang2020", "jain2019", "lu2018") for claim in papers(name).CLAIMS
    ]


def test_every_claim_can_be_judged_where_all_was_run_or_says_why_not(papers: Papers) -> None:
    judging, points = papers("judging"), papers("points")
    network = {rate: Complete() for rate in (points.RATE, points.UNSHAPED)}
    found = [judging.judged(claim, complete(papers), network) for claim in claims(papers)]
    still_open = [one for one in found if one.verdict == judging.OPEN]
    assert len(found) - len(still_open) >= 40
    assert all(one.why and "not run" not in one.why and "not measured" not in one.why for one in still_open)


def test_claims_without_a_single_job_stay_open(papers: Papers) -> None:
    judging, readings = papers("judging"), papers("readings")
    found = [judging.judged(claim, readings.Readings([]), {}) for claim in claims(papers)]
    assert {one.verdict for one in found} == {judging.OPEN} and all(one.why for one in found)


def ps(papers: Papers, workers: int, flops: float) -> Any:
    tags = {
        "experiment": "ps",
        "network": "alexnet",
        "ps": "1",
        "workers": str(workers),
        "batch": "16",
        "onednn": "1",
    }
    return papers("readings").Reading(
        f"ps{workers}", f"job{workers}", tags, "", {"worker.flops_per_second": flops}
    )


@pytest.mark.parametrize(("at_two", "verdict"), [(12e9, "agrees"), (20.2e9, "differs")])
def test_flops_of_a_worker_that_fall_agree_with_the_paper(
    papers: Papers, at_two: float, verdict: str
) -> None:
    """10 GFLOP/s of one worker; of two together 12, so 6 each, or a little more than twice as much."""
    judging, javed = papers("judging"), papers("javed2019")
    (claim,) = [one for one in javed.CLAIMS if one.judge is javed.flops_fall_with_workers]
    found = judging.judged(
        claim, papers("readings").Readings([ps(papers, 1, 10e9), ps(papers, 2, at_two)]), {}
    )
    assert found.verdict == verdict
    assert found.jobs == ("job1", "job2")


def test_a_number_that_is_absent_is_named(papers: Papers) -> None:
    judging, javed = papers("judging"), papers("javed2019")
    (claim,) = [one for one in javed.CLAIMS if one.judge is javed.flops_fall_with_workers]
    one = ps(papers, 1, 10e9)
    found = judging.judged(claim, papers("readings").Readings([one._replace(numbers={})]), {})
    assert (found.verdict, found.why) == (judging.OPEN, "worker.flops_per_second was not measured in job1")


def test_page_has_a_row_for_each_claim_and_numbers_its_jobs(papers: Papers) -> None:
    page, points = papers("page"), papers("points")
    text = page.page(complete(papers), {}, [], [], ["`x`: not run"])
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    for claim in claims(papers):
        (row,) = [line for line in rows if line.startswith(f"| {claim.text} | {claim.where}")]
        assert row.count("|") == 6
    assert "| 1 | `" in text and "- `x`: not run" in text
    assert f"by {len(points.points())} jobs" in text


def test_points_are_distinct_and_each_has_a_launcher(papers: Papers) -> None:
    points, launchers = papers("points").points(), papers("launch").LAUNCHERS
    assert len({p.key for p in points}) == len(points)
    assert {p.program for p in points} == {*launchers, "net"}
    quick = {p.experiment for p in points if p.quick}
    assert {"ps", "horovod", "net", "conv2d-batch", "lstm-batch", "processes", "cycle"} <= quick


def test_jobs_that_differ_in_one_thing_are_asked_about_each_other(papers: Papers) -> None:
    """Of six sizes of a PS job with one network: those of another batch, or without oneDNN, are apart."""
    predictions, reading = papers("predictions"), papers("readings").Reading

    def job(**tags: object) -> Any:
        every = {
            "experiment": "ps",
            "ps": "1",
            "workers": "1",
            "onednn": "1",
            **{k: str(v) for k, v in tags.items()},
        }
        return reading(str(tags), str(tags), every, "", {})

    jobs = [job(), job(workers=2), job(ps=2, workers=2), job(onednn=0)]
    found = [(one.job, other.job, argument) for one, other, _, argument in predictions.pairs(jobs)]
    assert found == [
        (jobs[0].job, jobs[1].job, "ranks"),
        (jobs[1].job, jobs[0].job, "ranks"),
        (jobs[1].job, jobs[2].job, "servers"),
        (jobs[2].job, jobs[1].job, "servers"),
    ]


def test_points_come_in_the_order_of_the_words_that_choose_them(papers: Papers) -> None:
    run, points = papers("run"), papers("points").points()
    chosen = run.named(points, ["net-rate2gbit", "fusion-", "net-rate"])
    assert [point.key for point in chosen] == [
        "net-rate2gbit",
        "fusion-processes1-threads1-batch32-nodes2-cycle1-fusion0",
        "net-rateunshaped",
    ]
    assert run.named(points, []) == points


def test_a_longer_step_is_explained_by_the_parts_that_grew_most(papers: Papers) -> None:
    judging, reading = papers("judging"), papers("readings").Reading

    def job(step: float, **parts: float) -> Any:
        numbers = {"horovod.step_time_median": step} | {f"account.{k}": v for k, v in parts.items()}
        return judging.Job(reading("", "", {}, "", numbers))

    one = job(0.1, compute=0.8, contention=0.1, transfer=0.1)
    other = job(0.2, compute=0.4, contention=0.45, gc=0.15)
    said = judging.longer(one, other)
    assert said == "a step is 100 ms longer (+80 ms without a CPU, +30 ms gc, -10 ms in communication)"
    assert judging.longer(other, one).startswith("a step is 100 ms shorter (-80 ms without a CPU")


def test_what_cannot_be_told_counts_neither_as_right_nor_as_wrong(papers: Papers) -> None:
    predictions = papers("predictions")
    told = predictions.Prediction("a", "b", True, "workers 1 to 2", 110.0, 90.0, 120.0, 100.0)
    untold = told._replace(said=0.0, low=0.0, high=0.0, why="nobody knows")
    text = predictions.as_text([told, untold])
    assert "| synchronous | ranks or servers | 2 | 1 | 10% | 1 of 1 | 1.33 |" in text
    assert "| `a` | workers 1 to 2 | - | 100.0 | cannot be told: nobody knows |" in text
