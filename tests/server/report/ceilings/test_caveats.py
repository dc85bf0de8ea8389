"""Ceilings that something speaks against are told of where they make a roof."""

from __future__ import annotations

from roofline.answers.roofline import Roof, RoofLine
from roofline.answers.values import Provenance
from roofline_server.report.ceilings.caveats import caveats
from roofline_server.sentences import rooflines as texts

from ...builders import DRAM, PEAK_F32


def line(name: str, binding: bool) -> RoofLine:
    return RoofLine(name, name, "compute", [1.0, 2.0], [1.0, 1.0], binding, "", "", 0, Provenance.MEASURED)


def roof(*lines: RoofLine, doubt: str = "others took 86% of the CPUs") -> Roof:
    ceilings = [c._replace(doubt=doubt) for c in (PEAK_F32, DRAM)]
    return Roof("node1", "", list(lines), ceilings, "", 0)


def test_doubt_of_what_makes_the_roof_is_a_note_once() -> None:
    binding = roof(line("peak.f32.512", True), line("dram.triad", True))
    [note] = caveats([binding, binding])
    names = [PEAK_F32.name, DRAM.name]
    assert note == texts.may_be_too_low("node1", names, "others took 86% of the CPUs")


def test_what_makes_no_roof_or_is_sound_needs_no_note() -> None:
    assert caveats([roof(line("peak.f32.512", False))]) == []
    assert caveats([roof(line("peak.f32.512", True), doubt="")]) == []
