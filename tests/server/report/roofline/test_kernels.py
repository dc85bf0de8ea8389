from __future__ import annotations

from pathlib import Path

import pytest
from roofline.answers.roofline import Roofline
from roofline.v1 import ingest_pb2 as pb
from roofline_server.report.questions import ALL_STEPS, Subject
from roofline_server.report.roofline.rooflines import needed, roofline
from roofline_server.sentences.rooflines import LATER_PHASE, pooled_gpus
from roofline_server.store.store import Store

from ...builders import ABSENT, MS, spans
from ..work import CPU, FIRST, GPU_F32, HBM, STEP, Call, kernel, store_of

ON_CPU = Call(kernel("gemm", 10**10, 10**8), 1, 10 * MS)
ON_GPU = Call(kernel("gemm", 10**12, 10**10, library="cuda"), 1, 60 * MS)
CEILINGS = (*CPU, HBM, GPU_F32)


def asked(store: Store, points: str) -> Roofline:
    view = store.view("job", needed("classic", points))
    assert view
    return roofline(store, view, Subject("job", ALL_STEPS, ()), "classic", points)


def test_kernels_of_one_name_on_cpus_and_on_a_gpu_are_two(tmp_path: Path) -> None:
    points = asked(store_of(tmp_path, ON_CPU, ON_GPU, ceilings=CEILINGS), "kernel").points
    assert [(p.label, p.device) for p in points] == [("gemm 8x8 (GPU)", "gpu 0"), ("gemm 8x8", "")]
    assert [p.flops_per_second.value for p in points] == [
        pytest.approx(1e12 / 0.06),
        pytest.approx(1e10 / 0.01),
    ]
    assert [p.bound for p in points] == ["peak.f32", "peak.f32.512"]


def test_kernels_of_a_gpu_alone_keep_their_name(tmp_path: Path) -> None:
    (point,) = asked(store_of(tmp_path, ON_GPU, ceilings=CEILINGS), "kernel").points
    assert (point.label, point.device) == ("gemm 8x8", "gpu 0")


def test_kernels_of_several_gpus_are_said_to_be_pooled(tmp_path: Path) -> None:
    two = [one._replace(device=f"gpu {number}") for number in (0, 1) for one in (HBM, GPU_F32)]
    found = asked(store_of(tmp_path, ON_GPU, ceilings=(*CPU, *two), ranks=2), "kernel")
    assert len(found.points) == 1 and pooled_gpus(2, 1) in found.notes


def test_kernels_of_one_gpu_are_not_said_to_be_pooled(tmp_path: Path) -> None:
    found = asked(store_of(tmp_path, ON_GPU, ceilings=CEILINGS, ranks=2), "kernel")
    assert not [note for note in found.notes if "pooled" in note]


def forward() -> pb.Spans:
    at = (FIRST + k * STEP for k in range(10))
    return spans([(0, "phase.forward", begin, begin + STEP, ABSENT, 1) for begin in at])


@pytest.mark.parametrize("call, said", [(ON_CPU, False), (ON_GPU, True)])
def test_phases_of_a_gpus_kernels_are_said_to_be_those_they_ran_in(
    tmp_path: Path, call: Call, said: bool
) -> None:
    found = asked(store_of(tmp_path, call, ceilings=CEILINGS, spans=forward()), "phase")
    assert [p.label for p in found.points] == ["worker:0 forward"]
    assert (LATER_PHASE in found.notes) == said
