"""`perf stat`: the numbers of the corpus."""

from __future__ import annotations

import pytest
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.perf import reader as perf_stat

from tests.agent.recorded.reading import read_file
from tests.recordings import Oracle, corpus, meets, oracles

pytestmark = pytest.mark.corpus

MIB = 2**20


HPL_N = 15000


HPL_FLOP = 2 / 3 * HPL_N**3 + 3 / 2 * HPL_N**2


HPL_SECONDS = {"perf/hsw_i5_hpl_mkl_imc_human.txt": 21.15, "perf/hsw_ep_hpl_openblas_imc_human.txt": 11.61}


def socket_mib(found: Collector, socket: int) -> float:
    return (
        sum(c.value or 0 for c in found.counters if c.scope == f"socket {socket}" and c.unit == "byte") / MIB
    )


def answer(found: Collector, oracle: Oracle) -> float | None:
    run = found.run
    assert run is not None
    moved, time_s = run.bytes.get("dram"), run.time_s
    match oracle.quantity:
        case "IMC bytes read+write":
            return moved
        case "elapsed":
            return found.duration_s
        case "IMC GB/s over elapsed" | "DRAM GB/s":
            return moved / time_s / 1e9 if moved and time_s else None
        case "AI = HPL FLOP / IMC bytes":
            return HPL_FLOP / moved if moved else None
        case "HPL Gflops":
            return HPL_FLOP / HPL_SECONDS[oracle.file] / 1e9
        case "FLOP from FP_ARITH" | "FLOP":
            return run.flops
        case "GFLOP/s":
            return run.flops_per_s / 1e9 if run.flops_per_s else None
        case "S0 Σ MiB":
            return socket_mib(found, 0)
        case "S1 Σ MiB":
            return socket_mib(found, 1)
    pytest.fail(f"no such quantity: {oracle.quantity}")


@pytest.mark.parametrize("oracle", oracles("perf"), ids=str)
def test_recorded_file_gives_its_number(oracle: Oracle) -> None:
    assert meets(oracle, answer(read_file(perf_stat.read, corpus(oracle.file)), oracle))


def test_metric_that_perf_computed_wrongly_changes_no_byte() -> None:
    wrong = read_file(perf_stat.read, corpus("perf/dram_bw_use_clx_wrong_metric_human.txt"))
    assert [one.value for one in wrong.counters if one.metric == "DRAM_BW_Use"] == [0.0]
    assert wrong.run is not None
    assert wrong.run.bytes["dram"] == pytest.approx((765.35 + 5.42) * MIB)
