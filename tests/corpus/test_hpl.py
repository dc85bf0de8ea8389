"""HPL's own output next to perf stat: its rate is that of the corpus."""

from __future__ import annotations

import pytest

from tests.agent.recorded.traces import read
from tests.recordings import corpus, oracles

pytestmark = pytest.mark.corpus


def test_rate_is_the_one_that_perf_measured_beside_it() -> None:
    found = read(corpus("perf/hsw_ep_hpl_openblas_app_stdout.txt"))
    measured = [
        one.value
        for one in oracles("perf")
        if one.quantity == "HPL Gflops" and one.file == "perf/hsw_ep_hpl_openblas_imc_human.txt"
    ]
    assert measured and found.facts["flops_per_s"] == pytest.approx(measured[0] * 1e9, rel=0.005)
