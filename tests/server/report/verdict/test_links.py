"""How long the bytes of ranks are on their way, by what the kernel counted of their connections."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from roofline_server.model.causes.links import SlowLink
from roofline_server.model.evidence import CounterEvidence
from roofline_server.report.verdict.links import has_link, slow_links_of

NS, SECONDS = 1_000_000_000, 20.0
SENT, RATE = 20 * 10**8, 2e9  # bytes in all, byte/s


def links(
    roles: tuple[str, ...],
    busy: tuple[float, ...],
    limited: tuple[float, ...] = (0.0, 0.0),
    rates: tuple[float, ...] = (RATE, RATE),
    waits: tuple[float, ...] = (0.0, 0.0),
    over_loopback: int = 0,
) -> list[SlowLink]:
    """Of two ranks of these roles that send to each other. busy, limited, waits: shares of the time, in which
    data were in flight, the other did not read what had come, and had not come to the collective.
    over_loopback: bytes that each sends to a rank beside it, of which the kernel knows no rate."""
    ranks, parts = {}, []
    for number, role in enumerate(roles):
        whole = SENT + over_loopback
        sent = CounterEvidence(whole, SECONDS, 100, whole / 100)
        ranks[number] = SimpleNamespace(key=f"{role}:{number}", role=role, host="node", sent=sent)
        peer = f"{roles[1 - number]}:{1 - number}"
        grown = {
            "tcp_sent_bytes": SENT,
            "tcp_busy_ns": busy[number] * SECONDS * NS,
            "tcp_window_limited_ns": limited[number] * SECONDS * NS,
        }
        for name, value in [*grown.items(), ("tcp_delivery_rate", None)]:
            metric = SimpleNamespace(name=name)
            mean = rates[number] if value is None else None
            parts.append(SimpleNamespace(rank=number, instance=peer, metric=metric, grown=value, mean=mean))
        parts.append(
            SimpleNamespace(
                rank=number,
                instance="ps:9",
                metric=SimpleNamespace(name="tcp_sent_bytes"),
                grown=over_loopback,
            )
        )
    sums = [{"transfer": 6.0, "wait_ranks": 10 * share} for share in waits]
    view: Any = SimpleNamespace(parts=parts, answers={})
    gathered: Any = SimpleNamespace(evidence=ranks)
    accounts: Any = {number: SimpleNamespace(duration=_Sum(10.0), sums=sums[number]) for number in ranks}
    return slow_links_of(view, gathered, accounts)


class _Sum(float):
    """A column of which the sum is all that matters."""

    def sum(self) -> float:
        return float(self)


def test_rank_whose_data_are_in_flight_for_longer_has_a_slow_link() -> None:
    """Figures of a real ring, of which the rates of the last bursts tell a third of the cost."""
    (found,) = links(("ddp", "ddp"), (0.115, 0.494))
    assert found.rank == "ddp:1"
    assert found.saved == pytest.approx(0.494 - 0.115, rel=1e-6)
    assert links(("ddp", "ddp"), (0.115, 0.15)) == []


def test_who_does_not_read_what_has_come_is_no_slow_link_of_the_sender() -> None:
    assert links(("ddp", "ddp"), (0.115, 0.494), limited=(0.0, 0.38)) == []
    slow = {"busy": (0.1, 0.5), "rates": (RATE, RATE / 10)}
    (found,) = links(("ps", "worker"), **slow)
    assert found.rank == "worker:1"
    assert links(("ps", "worker"), **slow, limited=(0.0, 0.45)) == []


def test_what_is_in_flight_to_a_peer_that_is_late_says_nothing_of_the_link() -> None:
    """Figures of a real ring over loopback, in which the other rank sleeps in each step."""
    assert links(("ddp", "ddp"), (0.06, 0.2), waits=(0.0, 0.25)) == []
    assert links(("ddp", "ddp"), (0.12, 0.3), waits=(0.0, 0.25)) == []  # nor of the other one's
    (found,) = links(("ddp", "ddp"), (0.115, 0.494), waits=(0.0, 0.1))
    assert found.rank == "ddp:1"


def test_what_does_not_leave_a_network_namespace_has_no_link() -> None:
    """Figures of a healthy ring over loopback, whose ranks lack CPUs one more than the other."""
    assert links(("ddp", "ddp"), (0.115, 0.494), rates=(0.0, 0.0)) == []


def test_slow_link_is_seen_though_as_much_goes_over_loopback() -> None:
    """Of two servers one is on the workers' side of it."""
    slow = {"busy": (0.1, 0.5), "rates": (RATE / 10, RATE)}
    alone, beside = links(("ps", "worker"), **slow), links(("ps", "worker"), **slow, over_loopback=SENT)
    assert [one.rank for one in beside] == [one.rank for one in alone] == ["ps:0"]
    assert beside[0].on_their_way == pytest.approx(alone[0].on_their_way)


def test_answers_of_a_server_are_in_flight_until_the_next_request() -> None:
    assert links(("ps", "worker"), (0.6, 0.1)) == []


@pytest.mark.parametrize(("beside", "expected"), [(SENT - 1, True), (SENT + 1, False), (0, True)])
def test_who_sends_most_over_loopback_has_no_link(beside: int, expected: bool) -> None:
    def part(instance: str, name: str, grown: int | None = None, mean: float | None = None) -> Any:
        metric = SimpleNamespace(name=name)
        return SimpleNamespace(rank=1, instance=instance, metric=metric, grown=grown, mean=mean)

    sent = [part("worker:0", "tcp_sent_bytes", SENT), part("worker:1", "tcp_sent_bytes", beside)]
    parts = [*sent, part("worker:0", "tcp_delivery_rate", mean=RATE)]
    view: Any = SimpleNamespace(parts=parts, answers={})
    assert has_link(view, 1) == expected
    assert not has_link(view, 2), "nothing is known of it"
