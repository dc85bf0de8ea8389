"""What speaks against a ceiling: others that show the machine can do better, and runs that differ."""

from __future__ import annotations

import pytest
from roofline_agent.calibrate.calibration import Ceiling
from roofline_agent.calibrate.caveats import also, doubted, too_low
from roofline_agent.records import Provenance

ANALYTIC = int(Provenance.ANALYTIC)


def memory(name: str, value: float, threads: int = 2, median: float = 0.98) -> Ceiling:
    level, operation = name.split(".")[:2]
    return Ceiling(
        *(name, "memory", level, "", 0, value, "byte/s", 0.5, "", 0),
        threads=threads,
        median=median * value,
        operation=operation,
    )


def peak(name: str, width: int, value: float, threads: int = 2) -> Ceiling:
    return Ceiling(
        *(name, "compute", "", "f32", width, value, "FLOP/s", 0.02, "", 0), threads=threads, operation="fma"
    )


def doubts(*ceilings: Ceiling) -> dict[str, str]:
    return {c.name: c.doubt for c in doubted(ceilings) if c.doubt}


def test_sound_ceilings_are_not_doubted() -> None:
    sound = [memory("l1.read", 9e11), memory("l2.read", 3e11), memory("dram.read", 5e10)]
    assert doubts(*sound, peak("peak.f32.256", 256, 2e11), peak("peak.f32.512", 512, 4e11)) == {}


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (memory("l2.copy", 1.3e10), memory("l3.copy", 4.7e10)),
        (memory("l3.read", 1e10), memory("dram.read", 5e10)),
        (memory("dram.read", 1e10), memory("dram.read.one", 2e10, threads=1)),
        (peak("peak.f32.512", 512, 1.5e10), peak("peak.f32.256", 256, 2e11)),
        (peak("peak.f32.512", 512, 1.5e10), peak("peak.f32.512.one", 512, 2e11, threads=1)),
    ],
    ids=lambda one: one.name,
)
def test_one_that_another_exceeds_though_it_cannot_is_doubted(low: Ceiling, high: Ceiling) -> None:
    assert doubts(low, high) == {low.name: f"{high.name} was measured higher"}
    assert too_low(high, [low]) == [low.name]
    assert too_low(low, [high]) == [low.name]


def test_what_does_not_compare_says_nothing() -> None:
    # Caches are written to by normal stores, DRAM by non-temporal ones.
    assert doubts(memory("l3.copy", 3e10), memory("dram.copy", 5e10)) == {}
    # With one unit for 512 bits and a lower clock, the wider vectors may be the slower ones.
    assert doubts(peak("peak.f32.512", 512, 1.7e11), peak("peak.f32.256", 256, 2e11)) == {}
    theory = peak("peak.f32.256.theory", 256, 9e11)._replace(provenance=ANALYTIC)
    assert doubts(peak("peak.f32.512", 512, 1e11), theory) == {}
    assert doubts(memory("l2.read", 1e10, threads=1), memory("l3.read", 5e10)) == {}


def test_runs_that_differ_much_are_a_reason_to_doubt_and_to_repeat() -> None:
    torn = memory("dram.read", 5e10, median=0.2)
    assert doubts(torn) == {"dram.read": "half of its runs fell short by 80% or more"}
    assert too_low(torn, []) == ["dram.read"]


def test_reason_of_all_is_of_what_was_measured() -> None:
    theory = peak("peak.f32.512.theory", 512, 9e11)._replace(provenance=ANALYTIC)
    torn = doubted([memory("dram.read", 5e10, median=0.2), theory])
    assert [c.doubt for c in also(torn, "measured beside a training")] == [
        "half of its runs fell short by 80% or more; measured beside a training",
        "",
    ]
    assert also(torn, "") == torn
