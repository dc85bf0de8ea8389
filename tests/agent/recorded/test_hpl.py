"""HPL of netlib and of vendors: on what it ran, in which precision, and whether its rate is a ceiling."""

from __future__ import annotations

from roofline_agent.recorded.benchmarks import hpl

from tests.recordings import OURS

from .traces import found_in, read, warned


def test_hpl_on_a_gpu_is_no_ceiling_of_the_cpus() -> None:
    (ceiling,) = read(str(OURS / "hpl" / "nvidia_one_gpu.out")).ceilings
    assert ceiling.device == "gpu 0"
    assert read(str(OURS / "hpl" / "nvidia_one_gpu.out")).kernels[0].on_gpu
    assert not read(str(OURS / "hpl" / "one_process.out")).kernels[0].on_gpu
    (ceiling,) = read(str(OURS / "hpl" / "one_process.out")).ceilings
    assert ceiling.device == ""


def test_rochpl_is_of_a_gpu_by_what_it_prints_beside_the_table_of_hpl() -> None:
    found = read(str(OURS / "hpl" / "rochpl_one_gpu.out"))
    assert [(one.name, one.device) for one in found.ceilings] == [("peak.f64.hpl", "gpu 0")]
    assert found.kernels[0].on_gpu
    of_cpus = (OURS / "hpl" / "one_process.out").read_text()
    for line in ("+ Max aggregated wall time panel copy:     0.10", "PCOL: 0 GPU_COLS: 36001 CPU_COLS: 0"):
        assert [one.device for one in found_in(f"{of_cpus}{line}\n", hpl.read).ceilings] == ["gpu 0"]
    rfact = "+ Max aggregated wall time rfact . . :     0.10"  # netlib's, too
    assert [one.device for one in found_in(f"{of_cpus}{rfact}\n", hpl.read).ceilings] == [""]


def test_hpl_in_mixed_precision_is_no_peak_of_fp64() -> None:
    of_nvidia = (OURS / "hpl" / "nvidia_one_gpu.out").read_text().replace("HPL-NVIDIA", "HPL-MxP-NVIDIA")
    for found in (read(str(OURS / "hpl" / "rochpl_mxp_one_gpu.out")), found_in(of_nvidia, hpl.read)):
        assert found.ceilings == [] and warned(found, "mixed precision")
        (kernel,) = found.kernels
        assert (kernel.precision, kernel.on_gpu) == ("", True)


def test_hpl_whose_only_run_is_wrong_gives_nothing() -> None:
    text = (OURS / "hpl" / "one_process.out").read_text().replace("PASSED", "FAILED")
    found = found_in(text, hpl.read)
    assert found.is_empty and "flops_per_s" not in found.facts and warned(found, "its own result wrong")
