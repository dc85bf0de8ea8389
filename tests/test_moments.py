"""Moments are written in UTC, wherever the server and its users live."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from roofline.texts import stretch, utc
from roofline_client.tables import units

AT_NS = 1_795_815_076_000_000_000
HOUR_NS = 3600 * 10**9


@pytest.fixture(params=["Asia/Tokyo", "America/New_York"], autouse=True)
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


def test_moments_of_sentences_have_their_date_and_zone() -> None:
    assert utc(AT_NS) == "2026-11-27 21:31:16 UTC"


def test_stretch_has_the_date_of_its_end_if_that_is_another() -> None:
    assert stretch(AT_NS, AT_NS + HOUR_NS) == "2026-11-27 21:31:16 to 22:31:16 UTC"
    assert stretch(AT_NS, AT_NS + 3 * HOUR_NS) == "2026-11-27 21:31:16 to 2026-11-28 00:31:16 UTC"


def test_tables_show_the_same_moments() -> None:
    assert units.when(AT_NS, "%Y-%m-%d %H:%M:%S") == "2026-11-27 21:31:16"
    assert units.moment(AT_NS) == "21:31:16.000"
