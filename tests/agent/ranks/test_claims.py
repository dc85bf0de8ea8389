"""Two processes that claim one rank at the same time are two ranks."""

from __future__ import annotations

from roofline_agent.ranks.claims import Claim, Owned, moved_apart, owners_of, rivals


def claim(pid: int, index: int, job: str = "j", role: str = "worker", world: int = 0) -> Claim:
    return Claim(100 + pid, pid, job, role, index, world)


def test_the_oldest_has_the_rank_and_others_the_next_free_index() -> None:
    first, second, third = claim(1, 0), claim(2, 0), claim(3, 0)
    other = claim(4, 1)
    assert moved_apart([third, other, second, first], {}, [first, second, third, other]) == {
        second: 2,
        third: 3,
    }


def test_who_was_moved_stays_where_it_is_when_the_first_has_ended() -> None:
    first, second = claim(1, 0), claim(2, 0)
    moved = moved_apart([first, second], {}, [first, second])
    assert moved_apart([second], moved, [second]) == moved == {second: 1}


def test_a_rank_that_overlaps_with_the_one_before_is_not_moved_at_once() -> None:
    first, second = claim(1, 0), claim(2, 0)
    assert moved_apart([first, second], {}, [first]) == {}
    assert moved_apart([second], {}, [second]) == {}


def test_of_several_the_one_that_trains_keeps_the_rank() -> None:
    first, second, third = claim(1, 0), claim(2, 0), claim(3, 0)
    claims = [first, second, third]
    assert moved_apart(claims, {}, claims, holders=[2]) == {first: 1, third: 2}
    assert moved_apart(claims, {}, [first], holders=[2]) == {}, "the first may be about to end"


def test_ranks_of_other_jobs_and_roles_are_no_rivals() -> None:
    claims = [claim(1, 0), claim(2, 0, job="k"), claim(3, 0, role="ps"), claim(4, 1)]
    assert moved_apart(claims, {}, claims) == {}


def test_an_index_that_another_node_may_have_is_not_given() -> None:
    first, second = claim(1, 0, world=8), claim(2, 0, world=8)
    assert moved_apart([first, second], {}, [first, second]) == {second: 8}


def test_a_step_inside_the_job_gets_no_index_of_a_rank_on_another_node() -> None:
    ranks = [claim(1, 0, world=8), claim(2, 1, world=8)]
    step = claim(3, 0, world=1)  # as of srun --overlap --pty
    elsewhere = claim(4, 0, job="k", world=64)
    claims = [*ranks, step, elsewhere]
    assert moved_apart(claims, {}, claims) == {step: 8}


def test_rivals_are_those_that_claim_one_rank_until_they_are_told_apart() -> None:
    first, second, other = claim(1, 0), claim(2, 0), claim(3, 1)
    rank = ("j", "worker", 0)
    assert rivals([first, second, other], {}) == {1: rank, 2: rank}
    assert rivals([first, second, other], {second: 2}) == {}


def test_job_is_of_the_user_of_its_oldest_process() -> None:
    assert owners_of([Owned(20, 2, "42", 1001), Owned(10, 3, "42", 1000), Owned(30, 1, "7", 1001)], {}) == {
        "42": 1000,
        "7": 1001,
    }


def test_job_stays_with_its_user_while_he_has_a_process_of_it() -> None:
    before = {"42": 1000}
    assert owners_of([Owned(10, 2, "42", 1001), Owned(20, 3, "42", 1000)], before) == before
    assert owners_of([Owned(10, 2, "42", 1001)], before) == {"42": 1001}
