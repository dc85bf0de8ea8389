from __future__ import annotations

import math

import pytest
from roofline.answers.values import Provenance, Scope, Value, value


def test_number_keeps_its_history() -> None:
    assert value(2, "s", Provenance.MEASURED, Scope.ROLE, 0.5, "note", "gone") == Value(
        2.0, "s", Provenance.MEASURED, Scope.ROLE, 0.5, "note"
    )


def test_zero_is_a_value() -> None:
    assert value(0, "s", Provenance.MEASURED, Scope.ROLE).value == 0


@pytest.mark.parametrize("number", [None, math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_absent_with_its_reason_and_claims_nothing(number: float | None) -> None:
    assert value(number, "s", Provenance.MEASURED, Scope.ROLE, 0.5, "note", "gone") == Value(
        None, "s", reason="gone"
    )
