"""Machines side by side."""

from __future__ import annotations

import csv
import io

import pytest
from roofline.answers.machines import MachineVersion
from roofline_client.errors import NotFound
from roofline_client.tables import machine_comparisons
from roofline_client.tables.text import rendered

from ..machine_versions import ALL, LATENCY, NEW, OLD, OTHER, dram, made, peak, row


def test_side_by_side_with_ratios_to_the_first() -> None:
    found = {c.name: c for c in machine_comparisons.compared([OLD, NEW, OTHER])}
    assert found["peak.f32.512"].values == [1e12, 2e12, 5e11]
    assert found["peak.f32.512"].ratios == [1.0, 2.0, 0.5]
    assert found["dram.triad"].ratios == [1.0, 0.5, None], "absent is not zero"
    assert found["peak.f64.512"].ratios == [None, None, None], "the first has none"
    text = machine_comparisons.as_text([OLD, NEW])
    assert [cell.strip() for cell in row(text, "peak.f32.512")] == ["1 TFLOP/s", "2 TFLOP/s", "x2"]
    assert [cell.strip() for cell in row(text, "net.tcp.latency")] == ["-", "40 us", "-"]


def test_theory_is_not_compared_with_what_was_measured() -> None:
    theory = peak(4e12, provenance="analytic")
    found = machine_comparisons.compared([made("a", 1, peak(1e12), theory), made("b", 1, peak(2e12))])
    assert [(c.provenance, c.ratios) for c in found] == [("measured", [1, 2]), ("analytic", [1, None])]
    assert "peak.f32.512 (theory)" in rendered(machine_comparisons.as_text([made("a", 1, theory), OTHER]))
    named = theory._replace(name="peak.f32.512.theory")
    text = rendered(machine_comparisons.as_text([made("a", 1, named), OTHER]))
    assert "peak.f32.512.theory" in text and "(theory)" not in text


def test_zero_has_no_ratio() -> None:
    assert machine_comparisons.compared([made("a", 1, peak(0.0)), OTHER])[0].ratios == [None, None]


def test_of_links_to_several_peers_the_best_is_compared() -> None:
    slow, fast = LATENCY._replace(value=9e-5, peer="c"), LATENCY
    assert machine_comparisons.compared([made("a", 1, slow, fast), OTHER])[0].values == [4e-5, None]


@pytest.mark.parametrize(
    ("asked", "found"),
    [(["a", "b"], [NEW, OTHER]), (["a@1", "a@2"], [OLD, NEW]), (["b@1", "a"], [OTHER, NEW])],
)
def test_hosts_and_versions_that_are_asked_for(asked: list[str], found: list[MachineVersion]) -> None:
    assert machine_comparisons.chosen(ALL, asked) == found


def test_host_whose_name_holds_an_at() -> None:
    odd = made("gpu@7", 1, peak(1e12))
    assert machine_comparisons.chosen([odd, *ALL], ["gpu@7", "gpu@7@1"]) == [odd, odd]


def test_agents_own_word_goes_before_an_imported_result() -> None:
    imported = made("a", 1, dram(1e9), agent="file")
    imported = imported._replace(machine=imported.machine._replace(cpu_model=""), since_ns=NEW.since_ns + 1)
    assert machine_comparisons.chosen([imported, *ALL], ["a"]) == [NEW]


@pytest.mark.parametrize(("asked", "says"), [("c", "no host 'c'"), ("a@7", "no version 7, only 1, 2")])
def test_what_nobody_has_heard_of(asked: str, says: str) -> None:
    with pytest.raises(NotFound, match=says):
        machine_comparisons.chosen(ALL, ["a", asked])


def test_machine_that_was_never_calibrated_says_so() -> None:
    text = rendered(machine_comparisons.as_text([made("a", 1), OTHER]))
    assert text.splitlines()[0].endswith(", never calibrated")


def test_csv_has_a_row_per_ceiling_and_machine() -> None:
    rows = list(csv.DictReader(io.StringIO(machine_comparisons.as_csv([OLD, NEW]))))
    assert [(r["ceiling"], r["version"], r["ratio_to_first"]) for r in rows][:2] == [
        ("peak.f32.512", "1", "1.0"),
        ("peak.f32.512", "2", "2.0"),
    ]


def test_names_from_the_wire_steer_nothing() -> None:
    bad = made("a\x1b[2J", 1, peak(1e12)._replace(name="x\x1b"))
    shown = rendered(machine_comparisons.as_text([bad, bad]))
    assert "\x1b" not in shown and "a?[2J" in shown and "x?" in shown
