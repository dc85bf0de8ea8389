"""Steps divided by the layers of the software stack."""

from __future__ import annotations

import numpy as np
import pytest
from roofline.answers.values import Provenance
from roofline_server.model.account.account import Account
from roofline_server.model.account.ledger import PARTS
from roofline_server.model.account.stack import layer_of, stack


def account(**parts: float) -> Account:
    """Two steps alike."""
    columns = {name.replace("__", "|"): np.full(2, seconds) for name, seconds in parts.items()}
    origins = dict.fromkeys(columns, Provenance.MEASURED)
    return Account("ddp:0", "ddp", "n1", np.full(2, sum(parts.values())), columns, origins, None)


def test_parts_of_the_account_are_put_together_and_add_up_to_the_step() -> None:
    found = stack([account(input=1, compute=4, host=2, transfer=0.5, wait_ranks=1.5, blocked=1)], [None], [2])
    seconds = {one.name: one.seconds for one in found}
    assert seconds == {"framework": 3, "communication": 2, "compute": 4, "rest": 1}
    assert list(seconds) == ["framework", "communication", "compute", "rest"]


def test_launcher_is_spread_over_all_steps_that_were_done() -> None:
    found = stack([account(compute=1), account(compute=3)], [10.0, 30.0], [100, 100])
    assert found[0][:2] == ("launcher", pytest.approx(0.2))
    assert found[1][:2] == ("compute", 2)


def test_what_cannot_be_told_apart_has_both_names() -> None:
    assert layer_of("compute|host") == "framework or compute"
    assert layer_of("input|host") == "framework"
    assert layer_of("transfer|wait_ranks|blocked") == "communication or rest"


def test_each_part_of_an_account_has_a_layer() -> None:
    assert {layer_of(part) for part in PARTS} == {"framework", "communication", "compute", "rest"}
