"""Why values are absent: each reason once, in few words."""

from __future__ import annotations

from roofline.answers.values import Value
from roofline_client.tables import about
from roofline_client.tables.text import rendered


def lines(*absent: tuple[str, str, str]) -> list[str]:
    """Lines of (column, whose, reason)."""
    values = [(title, subject, Value(None, "1", "", "", None, why)) for title, subject, why in absent]
    return [rendered(part) for part in about.reasons(values)][2:]


def test_those_that_lack_the_same_stand_together() -> None:
    found = lines(
        ("FLOP/byte", "ps:0", "no PMU"),
        ("headroom", "ps:0", "no PMU"),
        ("FLOP/byte", "ps:1", "no PMU"),
        ("headroom", "ps:1", "no PMU"),
        ("FLOP/byte", "worker:0", "no PMU"),
        ("FLOP/byte", "worker:1", "no kernels"),
    )
    assert found == [
        "  - FLOP/byte, headroom of ps:0, ps:1; FLOP/byte of worker:0: no PMU",
        "  - FLOP/byte of worker:1: no kernels",
    ]


def test_long_names_of_kernels_are_cut_and_few_are_named() -> None:
    kernel = "convolution backward_data mb16_ic64oc64_ih56oh56kh3sh1dh0ph1_iw56ow56kw3sw1dw0pw1"
    (line,) = lines(*((title, kernel, "no FLOPs") for title in ("FLOPs", "compute time")))
    assert line == f"  - FLOPs, compute time of {kernel[:39]}…: no FLOPs"
    (line,) = lines(*(("FLOPs", f"kernel {n}", "no FLOPs") for n in range(9)))
    assert line.endswith("kernel 2, kernel 3 and 5 more: no FLOPs")
