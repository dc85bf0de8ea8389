from __future__ import annotations

from pathlib import Path

import pytest
from roofline.answers.breakdown import Breakdown
from roofline_server.errors import BadRequest, UnknownRank
from roofline_server.report.breakdown import stack
from roofline_server.report.breakdown.breakdowns import breakdown
from roofline_server.report.questions import ALL_STEPS, Steps, Subject
from roofline_server.store.catalog.machine_versions import LateCeilings
from roofline_server.store.store import Store

from ...builders import DRAM, PEAK_F32, batch, open_store, rank
from ..work import CPU, GPU_F32, HBM, Call, Host, kernel, store_of

US = 1000
GEMM = kernel("matmul", 40_000_000, 128_000, implementation="jit:avx2")
REORDER = kernel("reorder", 0, 500_000)
SOFTMAX = kernel("softmax", None, None)


def ask(store: Store, by: str = "role", steps: Steps = ALL_STEPS, ranks: tuple[str, ...] = ()) -> Breakdown:
    view = store.view("job")
    assert view is not None
    return breakdown(store, view, Subject("job", steps, ranks), by)


def parts(
    found: Breakdown, kind: str, subject: str = "worker"
) -> dict[str, tuple[float | None, float | None]]:
    return {
        p.part: (p.value.value, p.share.value) for p in found.parts if (p.kind, p.subject) == (kind, subject)
    }


def words(found: Breakdown, kind: str) -> dict[str, str]:
    return {p.part: p.words for p in found.parts if p.kind == kind}


def test_kernels_by_time_are_means_a_step_and_add_up(tmp_path: Path) -> None:
    found = ask(
        store_of(
            tmp_path, Call(GEMM, 2, 20 * US), Call(REORDER, 1, 10 * US), Call(SOFTMAX, 1, 30 * US), ranks=2
        )
    )
    by_time = parts(found, "kernels_by_time")
    assert by_time == {
        "matmul": (pytest.approx(40e-6), pytest.approx(0.5)),
        "softmax": (pytest.approx(30e-6), pytest.approx(0.375)),
        "reorder": (pytest.approx(10e-6), pytest.approx(0.125)),
    }
    said = words(found, "kernels_by_time")
    assert "2 launches at 2 TFLOP/s" in said["matmul"]
    assert "no FLOPs" in said["reorder"]
    assert "not known" in said["softmax"]


def test_kinds_beyond_the_most_are_one_part(tmp_path: Path) -> None:
    many = [Call(kernel(f"op{n}", 1000, 1000), 1, US * (n + 1)) for n in range(23)]
    by_time = parts(ask(store_of(tmp_path, *many)), "kernels_by_time")
    assert len(by_time) == 21
    assert by_time["3 other kinds"][0] == pytest.approx(6e-6)
    assert sum(share or 0.0 for _, share in by_time.values()) == pytest.approx(1)


def test_every_kind_of_breakdown_is_there_for_each_subject(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 2, 20 * US), ranks=2)
    kinds = {
        "time",
        "stack_by_time",
        "flops_by_precision",
        "flops_by_width",
        "work_and_memory",
        "traffic_by_level",
        "kernels_by_time",
    }
    for by, subjects in (("role", {"worker"}), ("rank", {"worker:0", "worker:1"})):
        found = ask(store, by)
        assert {(p.kind, p.subject) for p in found.parts} == {(k, s) for k in kinds for s in subjects}
        assert {p.role for p in found.parts} == {"worker"}
    assert ask(store, "").parts == ask(store, "role").parts
    assert {p.subject for p in ask(store, "rank", ranks=("worker:1",)).parts} == {"worker:1"}


def test_start_of_a_rank_is_no_part_of_its_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "_before_s", lambda view, number, first_ns: 2.0)
    of_step = parts(ask(store_of(tmp_path, Call(GEMM, 2, 20 * US), ranks=2)), "stack_by_time")
    seconds, share = of_step.pop("launcher")
    assert seconds > 0 and share is None
    assert sum(share for _, share in of_step.values()) == pytest.approx(1)


def test_width_is_told_by_implementations_against_the_widest_ceiling(tmp_path: Path) -> None:
    found = ask(store_of(tmp_path, Call(GEMM, 2, 20 * US)))
    assert parts(found, "flops_by_width") == {"f32 256-bit": (80e6, 1.0)}
    assert "512-bit vectors" in words(found, "flops_by_width")["f32 256-bit"]
    assert parts(found, "flops_by_precision") == {"f32": (80e6, 1.0)}


def test_flops_against_accesses_and_least_traffic(tmp_path: Path) -> None:
    found = ask(store_of(tmp_path, Call(GEMM, 2, 20 * US)))
    assert parts(found, "work_and_memory") == {"FLOPs": (80e6, None), "memory accesses": (4000, None)}
    assert parts(found, "traffic_by_level")["minimum"] == (256_000, None)


def test_kernels_of_a_gpu_stand_beside_those_of_the_cpus(tmp_path: Path) -> None:
    sgemm = kernel("matmul", 10**9, None, library="cuda", dram_bytes=3200, l1_bytes=9000, l2_bytes=5000)
    found = ask(
        store_of(tmp_path, Call(sgemm, 1, 100 * US), Call(GEMM, 1, 20 * US), ceilings=(*CPU, HBM, GPU_F32))
    )
    assert set(parts(found, "kernels_by_time")) == {"matmul", "matmul (GPU)"}
    assert parts(found, "flops_by_width") == {"f32 256-bit": (40e6, 1.0)}
    alone = ask(store_of(tmp_path / "gpu", Call(sgemm, 1, 100 * US)))
    levels = parts(alone, "traffic_by_level")
    assert [levels[name][0] for name in ("l1", "l2", "hbm")] == [9000, 5000, 3200]
    assert parts(alone, "work_and_memory")["memory accesses"][0] == 100


def test_range_of_steps_is_respected(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 1, 20 * US))
    some = [p for p in ask(store, steps=Steps(2, 4)).parts if p.kind == "kernels_by_time"]
    assert "3 steps" in some[0].value.reason
    with pytest.raises(BadRequest, match="first comes after"):
        ask(store, steps=Steps(4, 2))


def test_one_step_is_enough(tmp_path: Path) -> None:
    found = ask(store_of(tmp_path, Call(GEMM, 1, 20 * US), steps=1))
    assert parts(found, "flops_by_precision") == {"f32": (40e6, 1.0)}


def test_without_anything_recorded_each_kind_says_why(tmp_path: Path) -> None:
    store, host = open_store(tmp_path), Host("a")
    host.greet(store)
    host.put(store, batch(ranks=[rank()]))
    found = ask(store)
    assert all(p.value.value is None and p.value.reason for p in found.parts)
    assert len({p.kind for p in found.parts}) == 6
    assert any("no rank has steps" in note for note in found.notes)


def test_without_steps_and_ceilings_numbers_are_of_the_run(tmp_path: Path) -> None:
    found = ask(store_of(tmp_path, Call(GEMM, 2, 20 * US), steps=3, ranks=2, marked=False, ceilings=()))
    assert parts(found, "kernels_by_time") == {"matmul": (pytest.approx(120e-6), 1.0)}
    assert parts(found, "flops_by_width") == {"f32 256-bit": (240e6, 1.0)}
    assert words(found, "flops_by_width")["f32 256-bit"] == ""


def test_zero_time_and_mixed_precisions(tmp_path: Path) -> None:
    double = kernel("matmul", 10_000_000, 1000, precision="f64")
    found = ask(store_of(tmp_path, Call(GEMM, 1, 0), Call(double, 1, 0)))
    assert parts(found, "kernels_by_time") == {"matmul": (0, None)}
    assert parts(found, "flops_by_precision") == {"f32": (40e6, 0.8), "f64": (10e6, 0.2)}


def test_questions_that_cannot_be(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 1, 20 * US))
    with pytest.raises(BadRequest, match="role or rank"):
        ask(store, "host")
    with pytest.raises(UnknownRank):
        ask(store, ranks=("worker:9",))


def test_ceilings_that_came_late_are_noted_where_widths_are_of_them(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 1, US))
    view = store.view("job")
    assert view is not None
    network = DRAM._replace(name="net.tcp", kind="network", peer="b")
    net = LateCeilings("host-a", (network,), are_all=False, measured=False, after=False)
    late = [net, net._replace(ceilings=(PEAK_F32,))]
    found = breakdown(store, view._replace(machine_notes=late), Subject("job", ALL_STEPS, ()), "role")
    assert [note for note in found.notes if note.startswith("ceilings of")] == [
        "ceilings of host-a (peak.f32.512) came while the job ran"
    ]
