from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.model.causes.links import ON_THEIR_WAY, SLOWER, LinkSignals, slow_links, step_with

FAST = 1e9  # byte/s


def link(
    rank: str, sent: float = 20e6, rate: float = FAST, held: float = 0.6, leaves: bool = True
) -> LinkSignals:
    return LinkSignals(rank, rank.partition(":")[0], "node", leaves, sent, sent / rate, held)


def test_rank_whose_bytes_crawl_is_named_with_what_a_link_like_the_others_would_save() -> None:
    (found,) = slow_links([link("ddp:0"), link("ddp:1", rate=50e6), link("ddp:2")])
    assert (found.rank, found.rate, found.usual) == ("ddp:1", pytest.approx(50e6), FAST)
    assert found.on_their_way == pytest.approx(0.4)
    assert found.saved == pytest.approx(0.4 * (1 - 1 / 20))
    assert found.least <= found.saved <= found.most


def test_ring_in_which_one_sends_over_a_shaped_link_and_the_other_acknowledges_over_it() -> None:
    """Seen of two ranks: 568 and 1,214 MB/s, where both reach 8,000 without the shaping."""
    (found,) = slow_links([link("ddp:0", 110e6, 568e6), link("ddp:1", 110e6, 1214e6)])
    assert found.rank == "ddp:0"


def test_lone_server_is_held_against_its_workers() -> None:
    (found,) = slow_links([link("ps:0", rate=50e6), link("worker:0"), link("worker:1")])
    assert found.rank == "ps:0"


@pytest.mark.parametrize(("ceiling", "named"), [(None, 1), (1e9, 1), (60e6, 0)])
def test_server_that_fills_its_link_has_no_slow_link(ceiling: float | None, named: int) -> None:
    """All links are shaped to 60 MB/s. Bursts of the workers go through faster, what it sends to all of them
    does not."""
    server = link("ps:0", rate=50e6)._replace(ceiling=ceiling)
    assert len(slow_links([server, link("worker:0"), link("worker:1")])) == named
    # Two workers that it sends to at once have half of the link each.
    server = link("ps:0", rate=25e6)._replace(ceiling=ceiling, at_once=50e6)
    assert len(slow_links([server, link("worker:0"), link("worker:1")])) == named


def test_nobody_waits_longer_for_a_link_than_he_waits() -> None:
    (found,) = slow_links([link("ddp:0"), link("ddp:1", rate=50e6, held=0.05)])
    assert found.least == found.saved == found.most == 0.05


def test_connections_side_by_side_share_the_time() -> None:
    (found,) = slow_links([link("ddp:0"), link("ddp:1", rate=5e6, held=1.0)])
    assert found.on_their_way == 1.0


@pytest.mark.parametrize(
    "links",
    [
        [link("ddp:0", rate=50e6)],  # there is no other
        [link("ddp:0", rate=50e6), link("ddp:1", rate=50e6)],  # as slow as the others: it is the network
        [link("ddp:0"), link("ddp:1", rate=FAST / SLOWER * 1.01)],
        [link("ddp:0"), link("ddp:1", sent=1e6, rate=1.01e6 / ON_THEIR_WAY)],  # it sends little
        [link("ps:0", sent=10e6, rate=50e6), link("worker:0")],  # they send other things
        [link("ddp:0", rate=50e6), link("ddp:1", leaves=False)],  # what stays on a node is faster
    ],
)
def test_link_that_is_not_known_to_be_slow_is_not_named(links: list[LinkSignals]) -> None:
    assert slow_links(links) == []


def test_a_rank_that_is_waited_for_speeds_all_up_and_one_on_its_own_only_itself() -> None:
    steps = {"a": 0.1, "b": 0.2}
    mean = 2 / (1 / 0.1 + 1 / 0.2)
    assert step_with(steps, "b", 0.5, together=True) == pytest.approx(mean / 2)
    assert step_with(steps, "b", 0.5, together=False) == pytest.approx(0.1)
    assert step_with(steps, "b", 0.0, together=False) == pytest.approx(mean)


@given(st.lists(st.tuples(st.floats(1e3, 1e9), st.floats(1e5, 1e10), st.floats(0, 1)), max_size=8))
def test_what_is_saved_lies_within_its_bounds_and_the_wait(rows: list[tuple[float, float, float]]) -> None:
    links = [link(f"ddp:{number}", *row) for number, row in enumerate(rows)]
    for one in slow_links(links):
        held = next(each.held for each in links if each.rank == one.rank)
        assert 0 <= one.least <= one.saved <= one.most <= held
        assert one.rate * SLOWER <= one.usual
