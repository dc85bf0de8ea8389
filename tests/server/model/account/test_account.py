from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from roofline.answers.values import Provenance
from roofline_server.model.account.account import Account, account, account_of_each, with_waits
from roofline_server.model.account.ledger import PARTS
from roofline_server.model.account.signals import RankSignals
from roofline_server.model.barrier import Grid
from roofline_server.records import Floats, Ints

STEPS = 50


def signals(count: int = STEPS, duration: float | Floats = 0.1, **columns: Any) -> RankSignals:
    """A rank; columns: numbers are the same in every step."""
    lasting = np.full(count, duration) if isinstance(duration, float) else duration
    known = {}
    for name, value in columns.items():
        number = (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and name not in ("cores", "kernel_threads")
        )
        known[name] = np.full(len(lasting), float(value)) if number else value
    number_of = np.arange(len(lasting), dtype=np.int64)
    end = np.cumsum(lasting * 1e9).astype(np.int64)
    begin = end - (lasting * 1e9).astype(np.int64)
    return RankSignals("ddp:0", "ddp", "node", number_of, begin, end, lasting, **known)


def means(found: Account) -> dict[str, float]:
    return {part: round(float(values.mean()), 6) for part, values in found.parts.items()}


def main_thread(**columns: Any) -> RankSignals:
    """A rank of which everything is known: 10 ms input (6 of them blocked), 20 held, 50 in kernels, 12 on a
    CPU besides, 8 blocked."""
    usual = {
        "input": 0.010,
        "held": 0.020,
        "kernels": 0.050,
        "run": 0.067,
        "delay": 0.0,
        "input_run": 0.004,
        "input_delay": 0.0,
        "held_run": 0.001,
        "held_delay": 0.0,
    }
    return signals(**{**usual, **columns})


def test_parts_of_a_rank_of_which_everything_is_known() -> None:
    assert means(account(main_thread())) == {
        "input": 0.010,
        "compute": 0.050,
        "host": 0.012,
        "transfer|wait_ranks": 0.020,
        "blocked": 0.008,
    }


def test_kernels_that_lack_a_cpu_are_contention_and_not_compute() -> None:
    # 50 ms of kernels take 75 ms, as a third of their time no CPU was free.
    found = account(main_thread(duration=0.125, kernels=0.075, delay=0.025, run=0.067 - 0.012))
    assert means(found)["compute"] == pytest.approx(0.050, abs=1e-4)
    assert means(found)["contention"] == pytest.approx(0.025, abs=1e-4)


def test_kernels_of_one_thread_take_no_longer_than_it_ran() -> None:
    # To trace a step stretched its kernels to 75 ms; in the usual step the thread was on a CPU for 62 ms.
    stretched = {"kernels": 0.075, "traced": np.arange(STEPS) % 8 == 0}
    found = means(account(main_thread(**stretched, kernel_threads=1)))
    assert found == {"input": 0.010, "compute": 0.062, "transfer|wait_ranks": 0.020, "blocked": 0.008}
    # Of several threads others may compute while it sleeps.
    assert means(account(main_thread(**stretched, kernel_threads=4)))["compute"] > 0.062


def test_kernels_of_traced_steps_are_stretched_as_those_steps_were() -> None:
    # Traced steps lacked a CPU half of the time, the others never: their kernels took half as long.
    traced = np.arange(STEPS) < 10
    held_up = np.where(traced, 0.050, 0.0)
    found = account(
        main_thread(
            duration=0.1 + held_up,
            kernels=0.100,
            traced=traced,
            run=0.050 + 0.005,
            delay=held_up,
            input_run=0.004,
        )
    )
    assert found.parts["compute"][:10] == pytest.approx(0.050, rel=0.02)
    assert found.parts["compute"][10:] == pytest.approx(0.050, rel=0.02)


def test_wait_for_a_cpu_in_input_is_contention() -> None:
    found = means(account(main_thread(input_delay=0.005, delay=0.005)))
    assert found["input"] == pytest.approx(0.005)
    assert found["contention"] == pytest.approx(0.005)


def test_other_threads_that_lack_a_cpu_hold_kernels_up() -> None:
    found = means(account(main_thread(threads_run=0.107, threads_delay=0.040)))
    # The other thread ran 40 ms and waited for 40: half of the kernels' time was such a wait.
    assert found["contention"] == pytest.approx(0.025, abs=1e-3)


def test_what_pools_of_threads_compute_without_a_kernel_that_was_seen() -> None:
    """TensorFlow's main thread waits for 70 ms while its pools compute: 10 of them oneDNN's kernels, the rest
    Eigen's, which nobody reports."""
    usual = {"kernels": 0.010, "run": 0.006, "threads_run": 0.086, "threads_delay": 0.0}
    found = means(account(main_thread(**usual, cores=1.0)))
    # 80 ms of other threads, of which 20 may be communication while the rank is held.
    assert found["compute|host"] == pytest.approx(0.050)
    assert found["blocked"] == pytest.approx(0.010)
    # Two CPUs at once need 30 ms for it, one 60.
    found = means(account(main_thread(**usual, cores=2.0)))
    assert found["compute|host"] == pytest.approx(0.020)
    assert found["compute|host|blocked"] == pytest.approx(0.030)
    # In every other step it was not seen when the rank was held: it may have been as long as in the others.
    seen = np.where(np.arange(STEPS) % 2 == 0, 0.020, np.nan)
    found = means(account(main_thread(**usual, cores=1.0, held=seen)))
    assert found["compute|host"] == pytest.approx(0.050)
    # Of PyTorch's threads it is known how many compute in a kernel: the others communicate, or load data.
    assert means(account(main_thread(**usual, cores=1.0, kernel_threads=1)))["blocked"] > 0.05


def test_threads_of_communication_hold_no_kernel_up() -> None:
    assert "contention" not in means(account(main_thread(threads_run=0.075, threads_delay=0.040)))


def test_stop_is_what_blocked_the_rank() -> None:
    duration = np.full(STEPS, 0.1)
    duration[::5] += 0.2
    stopped = np.full(STEPS, 0.04)  # sampled: spread over the steps about it
    found = account(main_thread(duration=duration, stopped=stopped))
    assert found.parts["stopped"].mean() == pytest.approx(0.04, rel=0.1)
    # Where the rank was blocked longest it was stopped longest.
    assert found.parts["stopped"][0] > 5 * found.parts["stopped"][1]


def test_stops_are_sampled_more_often_in_long_steps() -> None:
    """Some steps hold a sample; of those samples two in five found the rank stopped."""
    random = np.random.default_rng(0)
    stops = np.where(np.arange(2000) % 5 == 0, 0.2, 0.0)
    duration = 0.1 + stops  # a share of 0.04 / 0.14
    sampled = random.random(2000) < duration
    seen = random.random(2000) < stops / duration
    stopped = np.where(sampled, seen * duration, np.nan)
    found = account(main_thread(duration=duration, stopped=stopped))
    assert found.parts["stopped"].mean() == pytest.approx(0.04, rel=0.2)


def test_throttled_rank_is_not_in_contention() -> None:
    found = means(account(main_thread(duration=0.15, delay=0.05, throttled=0.05)))
    assert found["throttled"] == pytest.approx(0.05, rel=0.05)
    assert found.get("contention", 0.0) == pytest.approx(0, abs=0.003)


@pytest.mark.parametrize(("column", "part"), [("faults", "paging"), ("blocks", "disk")])
def test_time_blocked_in_steps_that_read_a_disk(column: str, part: str) -> None:
    reading = np.arange(STEPS) % 2 == 0
    duration = np.where(reading, 0.13, 0.1)
    found = account(main_thread(duration=duration, **{column: np.where(reading, 4.0, 0.0)}))
    assert found.parts[part] == pytest.approx(np.where(reading, 0.03, 0.0))
    assert found.provenance[part] == Provenance.ESTIMATED


def test_garbage_collection_is_apart_from_host() -> None:
    found = means(account(main_thread(gc=0.004)))
    assert (found["gc"], found["host"]) == (0.004, 0.008)


def test_gpu_works_while_the_main_thread_runs() -> None:
    found = means(account(main_thread(on_gpu=True, kernels=0.040)))
    # Of its own 70 ms the GPU idles 30. The main thread ran for 62: at least 22 of them with an idle GPU.
    # The other 8 may be the 8 that it was blocked.
    assert (found["compute"], found["host"], found["host|blocked"]) == (0.040, 0.022, 0.008)
    assert "blocked" not in found


def test_gpus_that_may_work_in_turns_compute_or_leave_the_host_alone() -> None:
    # Each of two is busy for 20 ms: one of them for 20 to 40.
    found = means(account(main_thread(on_gpu=True, kernels=0.020, kernels_most=0.040)))
    assert (found["compute"], found["compute|host"]) == (0.020, 0.020)
    assert (found["host"], found["host|blocked"]) == (0.022, 0.008)


def test_device_that_idles_while_the_host_sleeps() -> None:
    found = means(account(main_thread(on_gpu=True, kernels=0.020, run=0.025)))
    assert (found["compute"], found["blocked"], found["host|blocked"]) == (0.020, 0.030, 0.020)


def test_thread_of_the_backward_pass_is_the_host_of_a_gpu_too() -> None:
    """PyTorch runs it in a thread of its own, for which the main one waits."""
    columns = {"run": 0.035, "threads_run": 0.067, "threads_delay": 0.0}
    found = means(account(main_thread(on_gpu=True, kernels=0.040, **columns)))
    assert (found["compute"], found["host"], found["host|blocked"]) == (0.040, 0.022, 0.008)


def test_input_that_a_busy_gpu_hides_costs_nothing() -> None:
    found = means(account(main_thread(on_gpu=True, kernels=0.098, held=None, held_run=None, held_delay=None)))
    assert found == {"input": 0.002, "compute": 0.098}


def test_collectives_of_a_gpu_are_not_told_from_its_kernels() -> None:
    found = means(account(main_thread(on_gpu=True, on_gpu_meets=True, kernels=0.040)))
    assert found["compute|transfer"] == 0.040 and "compute" not in found


def test_rank_of_whose_gpu_nothing_is_known_computes_or_is_host() -> None:
    found = means(account(main_thread(on_gpu=True, kernels=None)))
    assert found["compute|host"] == 0.062


# -- less is known ---------------------------------------------------------------------------------


def test_without_kernels_compute_and_host_are_one_part() -> None:
    found = means(account(main_thread(kernels=None)))
    assert found == {"input": 0.010, "compute|host": 0.062, "transfer|wait_ranks": 0.020, "blocked": 0.008}


def test_without_an_input_phase_host_may_be_input() -> None:
    found = means(account(main_thread(input=None, input_run=None, input_delay=None)))
    assert found["input|host"] == pytest.approx(0.016)
    assert found["input|blocked"] == pytest.approx(0.014)


def test_computing_in_other_threads_is_not_blocked() -> None:
    found = means(account(signals(input=0.0, run=0.005, delay=0.0, threads_run=0.095, threads_delay=0.0)))
    assert found == {"input": 0.0, "compute|host": 0.095, "blocked": 0.005}


def test_without_a_main_thread_sums_over_threads_tell_contention() -> None:
    found = means(account(signals(input=0.01, held=0.02, kernels=0.06, threads_run=0.03, threads_delay=0.03)))
    assert found["compute"] == pytest.approx(0.03)
    assert found["contention"] == pytest.approx(0.03)
    assert found["host|blocked"] == pytest.approx(0.01)


def test_kernels_alone() -> None:
    found = means(account(signals(kernels=0.06)))
    assert found == {"compute|contention": 0.06, "other": 0.04}


def test_nothing_known_is_other() -> None:
    assert means(account(signals())) == {"other": 0.1}


def test_too_few_measured_steps_do_not_speak_for_the_others() -> None:
    run = np.full(STEPS, np.nan)
    run[:4] = 0.067
    found = means(account(main_thread(run=run, threads_run=0.07, threads_delay=0.0)))
    assert found["host|blocked"] == pytest.approx(0.02)


def test_steps_that_were_not_measured_are_like_those_that_were() -> None:
    """Every third step is measured; every other step sleeps 20 ms longer."""
    sleeps = np.where(np.arange(STEPS) % 2 == 0, 0.02, 0.0)
    measured = np.arange(STEPS) % 3 == 0
    found = account(main_thread(duration=0.1 + sleeps, run=np.where(measured, 0.067, np.nan)))
    assert "other" not in found.parts
    assert found.parts["host"] == pytest.approx(0.012, abs=1e-6)
    assert found.parts["blocked"] == pytest.approx(0.008 + sleeps, abs=1e-6)


def test_pauses_longer_than_all_measured_steps_are_no_waits_for_a_cpu() -> None:
    """Each tenth step pauses for a second and is not measured. Of the others those that lack a CPU longer
    last longer; all threads together lack one for no more than that."""
    pause = np.where(np.arange(STEPS) % 10 == 9, 1.0, 0.0)
    delay = np.where(np.arange(STEPS) % 2 == 0, 0.002, 0.0)
    measured = np.where(pause == 0, 0.0, np.nan)
    mine = main_thread(
        duration=0.1 + delay + pause,
        run=0.067 + measured,
        delay=delay + measured,
        threads_run=np.full(STEPS, 0.067),
        threads_delay=delay,
    )
    of_pause = account(mine).parts["blocked"][pause > 0].mean()
    assert of_pause == pytest.approx(1.008, rel=0.05)
    unknown = account(mine._replace(threads_run=None, threads_delay=None))
    assert unknown.parts["other"][pause > 0].mean() == pytest.approx(1.0, rel=0.05)
    assert unknown.parts["other"][pause == 0].sum() == 0
    assert unknown.parts["contention"].mean() < 0.002


def test_collection_of_steps_that_were_not_measured() -> None:
    measured = np.arange(STEPS) % 3 == 0
    found = account(main_thread(gc=np.where(measured, 0.004, np.nan)))
    assert found.parts["gc"] == pytest.approx(0.004)


def test_sums_over_threads_are_too_coarse_for_single_steps() -> None:
    """Read every tenth step or so: what the other threads ran is below nothing in half of the steps."""
    noise = np.where(np.arange(STEPS) % 2 == 0, 0.03, -0.03)
    found = means(account(main_thread(threads_run=0.068 + noise, threads_delay=0.01 + noise / 3)))
    assert "contention" not in found


def test_worker_of_servers_waits_where_nothing_runs() -> None:
    worker = signals(kernels=0.03, threads_run=0.04, threads_delay=0.0, waits_for_servers=True, cores=1.0)
    found = means(account(worker._replace(input=np.full(STEPS, 0.01))))
    assert found == {"input": 0.01, "compute": 0.03, "host": 0.01, "wait_ps": 0.05}


def test_kernels_of_a_worker_of_servers_lack_cpus_as_its_busiest_thread_does() -> None:
    """Its many other threads wake for a moment, and wait for that."""
    worker = signals(kernels=0.06, threads_run=0.05, threads_delay=0.15, waits_for_servers=True, cores=1.0)
    busiest = worker._replace(busiest_run=np.full(STEPS, 0.04), busiest_delay=np.full(STEPS, 0.02))
    assert means(account(busiest))["compute"] == pytest.approx(0.04)
    assert means(account(worker))["compute"] == pytest.approx(0.015)


def test_threads_beside_the_only_one_that_computes_are_communication() -> None:
    """Two thirds of a kernel's time run other threads, mostly waiting for a CPU."""
    busy = {"threads_run": 0.067 + 0.035, "threads_delay": 0.09}
    assert means(account(main_thread(**busy)))["contention"] > 0.02
    assert "contention" not in means(account(main_thread(**busy, kernel_threads=1)))


def test_stops_of_a_worker_of_servers_are_taken_from_all_that_went_on() -> None:
    worker = signals(kernels=0.03, threads_run=0.04, threads_delay=0.0, waits_for_servers=True, cores=1.0)
    found = means(account(worker._replace(stopped=np.full(STEPS, 0.02))))
    assert found["stopped"] == pytest.approx(0.02)
    assert sum(found.values()) == pytest.approx(0.1)
    assert found["compute"] == pytest.approx(0.8 * 0.03)


def test_end_of_a_rank_after_the_last_reading_of_its_threads_is_like_the_rest() -> None:
    """All threads are read every two seconds, and not when the process ends."""
    read = np.where(np.arange(STEPS) < 40, 0.02, np.nan)
    worker = signals(kernels=0.03, threads_run=0.04, threads_delay=read, waits_for_servers=True, cores=1.0)
    found = account(worker)
    assert "other" not in found.parts
    assert found.parts["contention"] == pytest.approx(found.parts["contention"][0])
    assert found.provenance["contention"] == Provenance.ESTIMATED


def test_threads_that_were_read_in_few_steps_do_not_speak_for_all() -> None:
    read = np.where(np.arange(STEPS) < 20, 0.02, np.nan)
    found = account(signals(kernels=0.03, threads_run=0.04, threads_delay=read, waits_for_servers=True))
    assert found.parts["other"][:20] == pytest.approx(0)
    assert found.parts["other"][20:] == pytest.approx(0.1)


def test_worker_held_by_a_join_waits_after_its_step() -> None:
    found = account(signals(held=0.02, barrier="join"))
    assert found.duration == pytest.approx(0.12)
    assert means(found) == {"transfer|wait_ranks": 0.02, "other": 0.1}


def side_by_side(at: Ints, is_whole: bool = False) -> Grid:
    """Two ranks; at: which step of each rank a row is."""
    return Grid(at[:, 0], at[:, 0], at[:, 0], at, is_whole)


@pytest.mark.parametrize("is_whole", [False, True])
def test_last_to_come_waits_for_nobody(is_whole: bool) -> None:
    early, late = account(signals(held=0.03)), account(signals(held=0.02))
    at = np.column_stack([np.arange(STEPS), np.arange(STEPS)])
    first, second = with_waits([early, late], side_by_side(at, is_whole))
    assert means(first) == {"transfer": 0.02, "wait_ranks": 0.01, "other": 0.07}
    assert means(second) == {"transfer": 0.02, "wait_ranks": 0.0, "other": 0.08}


def test_wait_that_was_not_seen_is_not_called_blocked() -> None:
    held = np.where(np.arange(STEPS) < 10, 0.02, np.nan)
    found = account(main_thread(held=held, held_run=None, held_delay=None))
    assert found.parts["transfer|wait_ranks|blocked"][10:] == pytest.approx(0.027)
    assert found.parts["transfer|wait_ranks|blocked"][:10] == pytest.approx(0)
    assert found.parts["blocked"][10:] == pytest.approx(0)


def test_step_without_others_stays_undivided() -> None:
    at = np.column_stack([np.arange(STEPS), np.arange(STEPS)])
    at[10] = (10, -1)
    first, _ = with_waits([account(signals(held=0.03)), account(signals(held=0.02))], side_by_side(at))
    assert first.parts["transfer|wait_ranks"][10] == pytest.approx(0.03)
    assert sum(v[10] for v in first.parts.values()) == pytest.approx(0.1)


# -- laws ------------------------------------------------------------------------------------------

SECONDS = arrays(np.float64, 7, elements=st.floats(0, 0.3) | st.just(np.nan))
COLUMNS = [
    "input",
    "held",
    "kernels",
    "run",
    "delay",
    "input_run",
    "input_delay",
    "held_run",
    "held_delay",
    "gc",
    "threads_run",
    "threads_delay",
    "busiest_run",
    "busiest_delay",
    "stopped",
    "throttled",
    "faults",
    "blocks",
]


@pytest.mark.law
@given(
    arrays(np.float64, 7, elements=st.floats(1e-3, 0.5) | st.just(0.0)),
    st.dictionaries(st.sampled_from(COLUMNS), SECONDS),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "communicate", "join", "kernels"]),
)
def test_parts_add_up_whatever_is_known(
    duration: Floats, columns: dict[str, Floats], on_gpu: bool, servers: bool, barrier: str
) -> None:
    rank = signals(duration=duration, on_gpu=on_gpu, waits_for_servers=servers, barrier=barrier, **columns)
    found = account(rank)
    assert sum(found.parts.values()) == pytest.approx(found.duration)
    for part, values in found.parts.items():
        assert (values >= 0).all(), part
        assert not np.isnan(values).any(), part
        assert set(part.split("|")) <= set(PARTS)
    assert list(found.provenance) == list(found.parts)
    at = np.column_stack([np.arange(7), np.arange(7)])
    for one in with_waits([found, account(signals(duration=duration, held=0.001))], side_by_side(at)):
        assert sum(one.parts.values()) == pytest.approx(one.duration)


def test_account_with_other_parts_has_other_sums() -> None:
    one = Account("w:0", "w", "n1", np.full(4, 3.0), {"compute": np.full(4, 2.0)}, {}, None)
    assert one.sums == {"compute": 8.0}
    assert (one.mean("compute"), one.mean("input")) == (2.0, 0.0)
    other = one._replace(parts={**one.parts, "input": np.full(4, 1.0)})
    assert other.sums == {"compute": 8.0, "input": 4.0}


def test_ranks_that_are_looked_at_together_have_the_accounts_that_each_has_alone() -> None:
    random = np.random.default_rng(0)

    def known(most: float, unknown: float = 0.0) -> Floats:
        return np.where(random.random(STEPS) < unknown, np.nan, random.random(STEPS) * most)

    ranks = [main_thread(kernels=known(0.05), run=known(0.07), held=known(0.03)) for _ in range(5)]
    # Where these go on is decided by how much of something each has.
    ranks += [main_thread(threads_run=known(0.3), threads_delay=known(0.1, 0.1)) for _ in range(3)]
    ranks += [main_thread(run=known(0.07, unknown), kernels=known(0.05, unknown)) for unknown in (0.0, 0.5)]
    ranks += [main_thread(stopped=known(0.01 * number), gc=known(0.01)) for number in range(2)]
    ranks += [
        signals(STEPS + number, kernels=0.05, threads_run=0.06, threads_delay=0.0) for number in (0, 1, 1)
    ]
    ranks += [main_thread(traced=random.random(STEPS) < share) for share in (1.0, 0.3)]
    for together, one in zip(account_of_each(ranks), ranks, strict=True):
        own = account(one)
        assert list(together.parts) == list(own.parts)
        assert all(np.array_equal(together.parts[part], own.parts[part]) for part in own.parts)
        assert together.provenance == own.provenance


def test_no_ranks_have_no_accounts() -> None:
    assert account_of_each([]) == []
