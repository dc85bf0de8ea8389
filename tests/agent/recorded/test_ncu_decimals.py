"""Numbers with decimal commas in Nsight Compute's pages, wherever a file shows that it has such."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_agent.recorded import columns, reader
from roofline_agent.recorded.errors import NotReadable
from roofline_agent.recorded.text import HEAD_BYTES

from .gpu_pages import HEADER, read_text, rows

_EPOCH = "epoch 1, loss 0.25\n"
PROGRAM = "==PROF== Connected\n" + _EPOCH * (2 * HEAD_BYTES // len(_EPOCH))  # before the first table
DRAM, TIME, RATE = ("dram__bytes.sum", "Kbyte"), ("gpu__time_duration.sum", "us"), ("x__y.pct", "%")


def launch(dram: str, time: str, rate: str, key: int = 0) -> str:
    return rows((*DRAM, dram), (*TIME, time), (*RATE, rate), key=key) + "\n"


def wide(*cells: str) -> str:
    names = (
        '"ID","Kernel Name","dram__bytes.sum","gpu__time_duration.sum","x__y.pct"\n"","","Kbyte","us","%"\n'
    )
    return names + "".join(f'"{at}","k",{row}\n' for at, row in enumerate(cells))


def table(dram: str, time: str, rate: str) -> str:
    return (
        "  k(int) (4, 1, 1)x(8, 1, 1), Context 1, Stream 7, Device 0, CC 8.0\n    Section: Everything\n"
        "    ---------------------------- ----------- ------------\n"
        "    Metric Name                  Metric Unit Metric Value\n"
        "    ---------------------------- ----------- ------------\n"
        f"    dram__bytes.sum                    Kbyte {dram:>12}\n"
        f"    gpu__time_duration.sum                us {time:>12}\n"
        f"    x__y.pct                               % {rate:>12}\n"
    )


PAGES = {
    "long": HEADER + "\n" + launch("1,234", "2.345", "12,5"),
    "wide": wide('"1,234","2.345","12,5"'),
    "text": table("1,234", "2.345", "12,5"),
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("before", ["", PROGRAM], ids=["at the begin", "later"])
def test_one_number_shows_how_the_others_are_meant(page: str, before: str) -> None:
    [one] = read_text(before + page).kernels
    assert (one.bytes["dram"], one.time_s) == (pytest.approx(1.234e3), pytest.approx(2345e-6))
    [one] = read_text(before + page.replace("12,5", "12.5")).kernels
    assert (one.bytes["dram"], one.time_s) == (pytest.approx(1234e3), pytest.approx(2.345e-6))


@pytest.mark.parametrize(
    "shown", ["0,125", "1234,567", "12,50", "1.234.567", "1.234,567", "1\u202f234,567", "0,1250"]
)
def test_numbers_that_only_have_decimal_commas(shown: str) -> None:
    [one] = read_text(table("1,234", "2.345", shown)).kernels
    assert one.bytes["dram"] == pytest.approx(1.234e3)


@pytest.mark.parametrize(
    "shown", ["0.125", "1234.567", "12.5", "1,234,567", "1,234.567", "1'234.567", "1.234e+05", "1,234", "7"]
)
def test_numbers_without_decimal_commas(shown: str) -> None:
    [one] = read_text(table("1,234", "2.345", shown)).kernels
    assert one.bytes["dram"] == pytest.approx(1234e3)


def test_launches_before_the_first_number_that_shows_it_may_be_whole() -> None:
    page = HEADER + "\n" + launch("999", "500", "12", key=0) + launch("1,234", "2.345", "12,5", key=1)
    [one] = read_text(PROGRAM + page).kernels
    assert (one.launches, one.bytes["dram"]) == (2, pytest.approx(999e3 + 1234))


def test_numbers_that_were_read_before_a_decimal_comma_shows_are_refused(tmp_path: Path) -> None:
    page = HEADER + "\n" + launch("1,234", "500", "12", key=0) + launch("999", "500", "12,5", key=1)
    path = tmp_path / "ncu.csv"
    path.write_text(PROGRAM + page)
    with pytest.raises(NotReadable, match=r"12,5 has a decimal comma.*such as 1,234: print .* LC_ALL=C"):
        reader.read(str(path))
    assert read_text(PROGRAM + page.replace("12,5", "12.5")).kernels[0].bytes["dram"] == pytest.approx(2233e3)


@pytest.mark.parametrize("has_columns", [True, False])
@pytest.mark.parametrize("is_wide", [True, False])
def test_decimal_commas_behind_whole_numbers(
    monkeypatch: pytest.MonkeyPatch, is_wide: bool, has_columns: bool
) -> None:
    """Enough of these for blocks, in which columns are read as numbers."""
    monkeypatch.setattr(columns, "HAS_ARROW", columns.HAS_ARROW and has_columns)
    for size in ("HEAD_BYTES", "BLOCK_BYTES"):
        monkeypatch.setattr(f"roofline_agent.recorded.text.{size}", 1 << 15)
    many = 2000
    if is_wide:
        page = wide(*['"999","500","12"'] * many, *['"1,5","2,5","12"'] * many)
    else:
        page = HEADER + "\n" + "".join(launch("999", "500", "12", key=key) for key in range(many))
        page += "".join(launch("1,5", "2,5", "12", key=many + key) for key in range(many))
    [one] = read_text(page).kernels
    assert one.launches == 2 * many
    assert one.bytes["dram"] == pytest.approx(many * (999e3 + 1.5e3))
    assert one.time_s == pytest.approx(many * 502.5e-6)


def test_groups_behind_which_decimal_commas_follow_are_refused_in_columns_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for size in ("HEAD_BYTES", "BLOCK_BYTES"):
        monkeypatch.setattr(f"roofline_agent.recorded.text.{size}", 1 << 15)
    page = wide(*['"999","500","12"'] * 2000, *['"1.234","500","12"'] * 2000, *['"1,5","500","12"'] * 2000)
    with pytest.raises(NotReadable, match=r"such as 1\.234"):
        read_text(page)
