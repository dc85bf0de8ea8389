"""The flag of a oneDNN within another library is found by its symbols, and set only if oneDNN prints."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from roofline_agent.hooks import kernel_switch, onednn_flag
from roofline_agent.hooks.onednn_flag import VALUE, OnednnFlag

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")

NAME = VALUE.decode()
ON = 36  # what oneDNN 3 makes of ONEDNN_VERBOSE=1
# Two variables as the compiler lays them out, and others with which they could be mistaken.
VARIABLES = f"""
    .bss
    .balign 8
    .zero 8
    .local "{NAME}"
    .type "{NAME}", %object
    .size "{NAME}", 4
"{NAME}": .zero 4
    .local "{NAME[:-1]}1"
    .type "{NAME[:-1]}1", %object
    .size "{NAME[:-1]}1", 1
"{NAME[:-1]}1": .zero 1
    .balign 4
    .local other
    .type other, %object
    .size other, 4
other: .zero 4
    .local other_is_read
    .type other_is_read, %object
    .size other_is_read, 1
other_is_read: .zero 1
    .globl flag
    .type flag, %object
    .size flag, 8
    .balign 8
    .set flag, "{NAME}"
"""

Load = Callable[..., "ctypes.CDLL"]


@pytest.fixture(autouse=True)
def nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_flag, "_found", {})


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Builds a library of these variables, and loads it."""
    loaded: list[Any] = []

    def build(text: str = VARIABLES, name: str = "libtensorflow_cc.so.2", strip: bool = False) -> ctypes.CDLL:
        source, library = tmp_path / "variables.s", tmp_path / name
        source.write_text(text)
        subprocess.run(["gcc", "-shared", "-nostdlib", "-o", library, source], check=True)
        if strip:
            subprocess.run(["strip", library], check=True)
        loaded.append(ctypes.CDLL(str(library)))
        return loaded[-1]

    yield build
    import _ctypes

    for one in loaded:
        _ctypes.dlclose(one._handle)


def variables(library: ctypes.CDLL) -> tuple[ctypes.c_uint32, ctypes.c_uint8]:
    """The value, and whether it has been read, by the library's own name for them."""
    value = ctypes.c_uint32.in_dll(library, "flag")
    return value, ctypes.c_uint8.from_address(ctypes.addressof(value) + 4)


def test_flag_is_set_to_nothing_and_back(load: Load) -> None:
    value, is_read = variables(load())
    (flag,) = onednn_flag.flags()
    assert not flag.prints, "no kernel has run yet"
    value.value, is_read.value = ON, 1
    assert flag.prints
    flag(0)
    assert (value.value, is_read.value) == (0, 1)
    assert flag.prints, "it would, if it were not for us"
    flag(1)
    assert (value.value, is_read.value) == (ON, 1)
    assert onednn_flag.flags() == [flag], "the file is read once"
    assert kernel_switch.switches() == kernel_switch.printing() == [flag]


@pytest.mark.parametrize(("value", "is_read"), [(0, 0), (0, 1), (ON, 0), (1 << 16, 1), (ON, 2)])
def test_flag_that_does_not_print_is_left_alone(load: Load, value: int, is_read: int) -> None:
    mine, read = variables(load())
    mine.value, read.value = value, is_read
    (flag,) = onednn_flag.flags()
    assert not flag.prints
    flag(1)
    flag(0)
    assert (mine.value, read.value) == (value, is_read)
    assert kernel_switch.printing() == []


def test_other_libraries_are_not_looked_into(load: Load) -> None:
    load(name="libother.so")
    assert onednn_flag.flags() == []


def test_library_without_symbols_has_no_flag(load: Load) -> None:
    load(strip=True)
    assert onednn_flag.flags() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(f'"{NAME}": .zero 4', f'"{NAME}": .zero 8'),  # not side by side
        lambda text: text.replace(".bss", ".section .rodata"),  # cannot be written
        lambda text: text.replace(f'.size "{NAME}", 4', f'.size "{NAME}", 8'),
        lambda text: text.replace(NAME, "elsewhere"),
    ],
    ids=["apart", "constant", "larger", "named otherwise"],
)
def test_variables_that_are_not_as_expected_are_no_flag(load: Load, change: Callable[[str], str]) -> None:
    load(change(VARIABLES))
    assert onednn_flag.flags() == []


def test_library_that_was_replaced_since_it_was_loaded_has_no_flag(load: Load, tmp_path: Path) -> None:
    load()
    library = tmp_path / "libtensorflow_cc.so.2"
    shutil.copy(library, tmp_path / "new")
    (tmp_path / "new").rename(library)
    assert onednn_flag.flags() == []


def test_file_that_is_cut_off_harms_nobody(load: Load, tmp_path: Path) -> None:
    load()
    library = tmp_path / "libtensorflow_cc.so.2"
    whole = library.read_bytes()
    for size in range(0, len(whole), 97):
        cut = tmp_path / "cut"
        cut.write_bytes(whole[:size])
        with cut.open("rb") as file:
            try:
                assert onednn_flag._place(file.fileno()) is None
            except Exception as error:
                assert isinstance(
                    error, (ValueError, IndexError, TypeError, StopIteration, onednn_flag.struct.error)
                )


def test_flag_of_memory_is_four_bytes_and_one() -> None:
    memory = (ctypes.c_uint8 * 8)(ON, 0, 0, 0, 1, 7, 7, 7)
    flag = OnednnFlag(ctypes.addressof(memory))
    assert flag.prints
    flag(0)
    assert list(memory) == [0, 0, 0, 0, 1, 7, 7, 7]
