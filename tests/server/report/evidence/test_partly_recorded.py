"""Roles of which kernels of some ranks only are known: `run --ncu` on one, or a node without the wrapper."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline.answers.machines import Ceiling
from roofline.answers.roofline import Roofline
from roofline.v1 import ingest_pb2 as pb
from roofline_server.report.job.build import build
from roofline_server.report.questions import ALL_STEPS, Subject
from roofline_server.report.roofline.rooflines import needed, roofline
from roofline_server.report.trajectory.trajectories import TrajectoryQuery, trajectory
from roofline_server.sentences.origins import of_ranks_with_flops
from roofline_server.store.store import Store

from ...builders import MS, open_store
from ..work import CPU, GPU_F32, HBM, Call, Host, kernel, run

GPUS = (HBM, GPU_F32, *(c._replace(device="gpu 1") for c in (HBM, GPU_F32)))
GEMM = pb.Kernel(library="cuda", operation="gemm", precision="f32", flops=10**11, bytes=10**9)


def two_gpus(root: Path, recorded: tuple[int, ...] = (0,), ranks: int = 2) -> Store:
    store = open_store(root)
    run(store, Host("a", (*CPU, *GPUS)), [Call(GEMM, 1, 50 * MS)], ranks=ranks, recorded=recorded)
    return store


def asked(store: Store, kind: str) -> Roofline:
    view = store.view("job", needed(kind, "role"))
    assert view
    return roofline(store, view, Subject("job", ALL_STEPS, ()), kind, "role")


def test_role_is_held_against_the_gpus_whose_flops_are_known(tmp_path: Path) -> None:
    (point,) = asked(two_gpus(tmp_path, ranks=3), "classic").points
    assert (point.label, point.device) == ("worker", "gpu 0")
    assert (point.flops_per_second.value, point.attainable.value) == (
        pytest.approx(1e12),
        pytest.approx(2e13),
    )
    assert point.headroom.value == pytest.approx(20)
    assert "shared by" not in point.words
    assert point.incomplete == "no FLOPs are known for 2 of 3 ranks"


def test_role_of_which_all_is_known_is_the_mean_of_its_gpus(tmp_path: Path) -> None:
    (point,) = asked(two_gpus(tmp_path, recorded=(0, 1)), "classic").points
    assert point.label == "worker, mean of 2 GPUs"
    assert (point.flops_per_second.value, point.attainable.value) == (
        pytest.approx(1e12),
        pytest.approx(2e13),
    )


def test_report_says_of_which_ranks_the_roof_is(tmp_path: Path) -> None:
    view = two_gpus(tmp_path).view("job", needed("classic", "role"))
    assert view
    (role,) = build(view).roles
    attainable = role.summary.values["attainable_flops_per_second"]
    assert attainable.value == pytest.approx(2e13)
    assert attainable.reason.startswith(of_ranks_with_flops(1, 2))


def test_node_of_which_nothing_is_recorded_adds_no_roof(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    run(store, Host("a"), [Call(kernel("gemm", 10**11, 10**9), 1, 50 * MS)])
    run(store, Host("b"), [], index=1, recorded=())
    view = store.view("job", needed("classic", "role"))
    assert view
    (role,) = build(view).roles
    assert role.hosts == ["host-a", "host-b"]
    assert role.summary.values["roof_share"].value == pytest.approx(0.25)


@pytest.mark.parametrize("recorded", [(0,), (0, 1)])
def test_ridge_of_a_node_is_of_all_gpus_that_the_role_uses(tmp_path: Path, recorded: tuple[int, ...]) -> None:
    net = Ceiling("net.tcp", "network", "network", "", 0, 1e9, "byte/s", 0, "", 0, peer="host-a")
    store = open_store(tmp_path)
    host = Host("a", (*CPU, *GPUS, net))
    run(store, host, [Call(GEMM, 1, 50 * MS)], ranks=2, recorded=recorded)
    (crossing,) = asked(store, "network").crossings
    assert crossing.ridge.value == pytest.approx(2 * 2e13 / 1e9)


def test_trajectory_does_not_fall_where_fewer_ranks_are_recorded(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for at, recorded in enumerate(((0, 1), (0,))):
        facts = ("tag.experiment=e", f"tag.batch={at + 1}")
        made = {"ranks": 2, "recorded": recorded, "facts": facts, "first": at}
        run(store, Host("a", (*CPU, *GPUS)), [Call(GEMM, 1, 80 * MS)], job=f"job{at}", **made)
    (path,) = trajectory(store, TrajectoryQuery("e", (), "batch")).paths
    assert [stop.point.flops_per_second.value for stop in path.stops] == [pytest.approx(1e12)] * 2
    assert [stop.point.attainable.value for stop in path.stops] == [pytest.approx(2e13)] * 2
    assert "shared by" not in path.stops[1].point.words
