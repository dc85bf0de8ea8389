"""What the network roofline holds against which ceiling, from spans and connections as agents send them."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline.answers.machines import Ceiling
from roofline.answers.roofline import Roofline
from roofline.answers.values import Provenance, Scope
from roofline.v1 import ingest_pb2 as pb
from roofline_server.correlate.parts import PartTotal
from roofline_server.records import Metric
from roofline_server.report.questions import ALL_STEPS, Subject
from roofline_server.report.roofline.rooflines import needed, roofline
from roofline_server.sentences import network as texts
from roofline_server.store.store import Store
from roofline_server.store.view import JobView

from ...builders import MS, TCP, Node, S, batch, counter_set, open_store, rank, samples, spans
from ..work import CPU, FIRST, GPU_F32, HBM, STEP, Call, Host, kernel, run

GB = 10**9
GPUS = (HBM, GPU_F32, *(c._replace(device="gpu 1") for c in (HBM, GPU_F32)))
GEMM = Call(kernel("gemm", 10**11, GB), 1, 50 * MS)


def to(peer: str, speed: float = 1e9) -> Ceiling:
    return Ceiling("net.tcp", "network", "network", "", 0, speed, "byte/s", 0, "", 0, peer=peer)


def reducing(ranks: int, size: int = GB, steps: int = 10) -> pb.Spans:
    """An allreduce in every step of every rank."""
    each = [(r, FIRST + k * STEP + 60 * MS) for r in range(ranks) for k in range(steps)]
    return spans([(r, "asked.allreduce", at, at + 30 * MS, size, 1) for r, at in each])


def viewed(store: Store, kind: str = "network") -> JobView:
    view = store.view("job", needed(kind, "role"))
    assert view
    return view


def asked(store: Store, view: JobView | None = None, kind: str = "network") -> Roofline:
    view = view or viewed(store, kind)
    return roofline(store, view, Subject("job", ALL_STEPS, ()), kind, "role")


def test_ranks_of_a_node_send_a_ring_off_it_together_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for at, (one, other) in enumerate((("a", "b"), ("b", "a"))):
        host = Host(one, (*CPU, to(f"host-{other}")))
        run(store, host, [GEMM], ranks=4, index=4 * at, world=8, spans=reducing(4))
    found = asked(store)
    # 2 x 7/8 x 1 GB leave the node for its four ranks, which do 0.4 TFLOP.
    for point in found.points:
        assert point.intensity.value == pytest.approx(4e11 / 1.75e9)
        assert point.attainable.value == pytest.approx(4e11 / 1.75e9 * 1e9)
    assert [c.crossing.value for c in found.crossings] == [pytest.approx(140)] * 2
    levels = [p for p in asked(store, kind="hierarchical").points if p.level == "network"]
    assert [(p.label, p.intensity) for p in levels] == [(p.label, p.intensity) for p in found.points]


def test_collectives_inside_one_node_are_held_against_no_loopback(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    gemm = Call(
        pb.Kernel(library="cuda", operation="gemm", precision="f32", flops=10**12, bytes=GB), 1, 80 * MS
    )
    host = Host("a", (*CPU, *GPUS, to("host-a", 5e9)))
    run(store, host, [gemm], ranks=2, world=2, spans=reducing(2))
    found = asked(store)
    (point,), (crossing,) = found.points, found.crossings
    assert (point.intensity.value, point.attainable.value, point.bound) == (None, None, "")
    assert point.words.startswith(texts.one_node("")), point.words
    assert crossing.crossing.value is None and "NVLink" in crossing.words


def with_tcp(store: Store, node: Node, per_step: int) -> None:
    """What worker 0 has received, read twice a second."""
    times = range(FIRST - S, FIRST + 10 * STEP + 2 * S, S // 2)
    read = [(0, at, (0, (at - FIRST + S) * per_step // STEP)) for at in times]
    node.put(
        store,
        batch(
            2,
            FIRST - S,
            FIRST + 10 * STEP + 2 * S,
            ranks=[rank(pid=100)],
            counter_sets=[counter_set("tcp", TCP)],
            samples=[samples(0, read, TCP)],
        ),
    )


def test_crossing_leaves_out_what_is_read_from_others_than_ranks(tmp_path: Path) -> None:
    store, host = open_store(tmp_path), Host("a", (*CPU, to("host-b")))
    run(store, host, [GEMM])
    run(store, Host("b"), [GEMM], index=1)
    with_tcp(store, host, per_step=10**7)
    view = viewed(store)
    number = next(n for n, key in view.ranks.items() if key.index == 0)

    def parts(peer: str, moved: float) -> list[PartTotal]:
        names = ("tcp_sent_bytes", "tcp_received_bytes")
        made = (
            Metric("tcp", name, 1, "byte", Scope.PROCESS, Provenance.MEASURED, True, "") for name in names
        )
        return [PartTotal(number, 1, peer, metric, 1.0, moved) for metric in made]

    def crossing(peer: str) -> tuple[float | None, str]:
        told = view._replace(parts=[*parts("worker:1", 1e7), *parts(peer, 9e7)])
        found = next(c for c in asked(store, told).crossings if c.label == "worker on host-a")
        return found.crossing.value, found.crossing.reason

    # 10 MB a step, 1 MB of it among the ranks: 1e11 FLOP over that, at a ridge of 4000 and 8 examples.
    at, how = crossing("10.0.0.9:443")
    assert at == pytest.approx(8 * 4000 / (1e11 / 1e6), rel=0.01)
    assert "came from or went to others than ranks" in how
    at, _ = crossing("worker:1")
    assert at == pytest.approx(8 * 4000 / (1e11 / 1e7), rel=0.01)
