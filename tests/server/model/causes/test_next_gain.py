from __future__ import annotations

import numpy as np
import pytest
from roofline.answers.values import Provenance
from roofline_server.model.account.account import Account
from roofline_server.model.account.signals import RankSignals
from roofline_server.model.causes.next_gain import NextGain, next_gain
from roofline_server.records import Floats

from ..jobs import job

STEPS, STEP = 100, 0.1


def gain_of(*ranks: tuple[float | None, dict[str, float]], on_gpu: bool = False) -> NextGain | None:
    """Of ranks that step independently. ranks: what the roof would need, and seconds of each part; "__"
    stands for "|"."""
    signals, accounts = [], []
    for index, (roof, parts) in enumerate(ranks):
        columns = {name.replace("__", "|"): filled(seconds) for name, seconds in parts.items()}
        total = filled(sum(parts.values()))
        number = np.arange(STEPS)
        name = f"worker:{index}"
        signals.append(RankSignals(name, "worker", "a", number, number, number, total, on_gpu=on_gpu))
        origins = dict.fromkeys(columns, Provenance.MEASURED)
        needed = None if roof is None else filled(roof)
        accounts.append(Account(name, "worker", "a", total, columns, origins, needed))
    return next_gain(signals, accounts, None)


def filled(seconds: float) -> Floats:
    return np.full(STEPS, seconds)


def test_gpus_that_run_the_collectives_have_no_gain_of_what_their_roof_needs() -> None:
    found = gain_of((0.06, {"compute__transfer": 0.085, "host": 0.015}), on_gpu=True)
    assert found is not None and (found.part, found.gain) == ("compute|transfer", pytest.approx(0.025))
    found = gain_of((0.08, {"compute__transfer": 0.085, "host": 0.015}), on_gpu=True)
    assert found is not None and found.part == "host"


@pytest.mark.parametrize("part", ["compute|host", "compute|contention", "input|compute|host"])
def test_a_part_that_may_be_kernels_has_no_gain_of_what_their_roof_needs(part: str) -> None:
    parts = {part.replace("|", "__"): 0.09, "transfer": 0.01}
    found = gain_of((0.06, parts))
    assert found is not None and (found.part, found.gain) == (part, pytest.approx(0.03))
    found = gain_of((None, parts))
    assert found is not None and found.part == "transfer", "what it needs is not known"
    found = gain_of((None, parts), on_gpu=True)
    assert found is not None and found.part == part


def test_gain_of_independent_ranks_is_that_of_their_rates() -> None:
    """One of four computes for ten times as long: the mean of the ranks' seconds is more than a step."""
    usual, slow = {"input": 0.002, "host": 0.018}, {"input": 0.004, "host": 0.396}
    found = gain_of((None, usual), (None, usual), (None, usual), (None, slow))
    assert found is not None and found.part == "host"
    assert found.step == pytest.approx(4 / (3 / 0.020 + 1 / 0.400))
    assert found.gain == pytest.approx(found.step - 4 / (3 / 0.002 + 1 / 0.004))


def test_gain_of_ranks_that_meet_is_that_of_the_replay() -> None:
    """The input of one rank, and what the other computes longer instead, hide each other."""
    found = job(plant={"input": {0: 0.020}, "kernels": {1: 0.020}}, transfer=0.015)
    gain = next_gain(found.signals, found.accounts, found.grid)
    assert gain is not None and gain.part == "transfer"
    assert gain.gain == pytest.approx(0.015, rel=0.1)
    assert gain.step == pytest.approx(float(found.step[1:].mean()), rel=0.01)


def test_waiting_for_a_rank_that_is_hardly_there_is_no_communication() -> None:
    """It took part in a third of the steps and was late in each: only the other two are played."""
    found = job(ranks=3, plant={"kernels": {2: 0.030}})
    at = found.grid.at.copy()
    at[1::3, 2], at[2::3, 2] = -1, -1
    gain = next_gain(found.signals, found.accounts, found.grid._replace(at=at))
    assert gain is not None and gain.gain == pytest.approx(0.010, rel=0.1)


def test_what_is_worth_nothing_is_no_next_gain() -> None:
    assert gain_of((0.099, {"compute": 0.099, "input": 0.001})) is None
    assert next_gain([], [], None) is None
