"""Which compiler is taken, with which flags, and what is said where none can be used."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from roofline_agent.calibrate.compiled import compiler
from roofline_agent.calibrate.compiled.compiler import compile_library, compiler_name, native_flags
from roofline_agent.calibrate.compiled.kernel_set import CompiledKernels
from roofline_agent.calibrate.errors import CalibrationError


def script(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_without_a_compiler_the_advice_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CalibrationError, match=r"no C compiler \(cc, gcc, clang\).*apt install gcc"):
        compile_library(tmp_path)


def test_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, "cc", "echo 'time.h: No such file' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    with pytest.raises(CalibrationError, match=r"time\.h: No such file.*libc6-dev"):
        compile_library(tmp_path)


@pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")
def test_compiler_that_does_not_know_the_cpu_compiles_for_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = 'case "$*" in *native*) echo unknown >&2; exit 1;; esac; exec gcc "$@"'
    script(tmp_path, "cc", body)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    library = compile_library(tmp_path)
    assert library.compiler.startswith("gcc ") and library.compiler.endswith(" -O3")
    assert library.path.exists()


def test_vectors_of_sve_have_the_length_that_this_process_has() -> None:
    assert native_flags("aarch64", 256)[0] == ["-mcpu=native", "-msve-vector-bits=256"]
    assert native_flags("aarch64", 128) == native_flags("aarch64", 0) == [["-mcpu=native"]]
    assert native_flags("x86_64", 0)[0] == ["-march=native"]
    assert compiler.sve_bits() >= 0


@pytest.mark.parametrize(
    ("prints", "name"),
    [
        ("cc (Debian 12.2.0-14) 12.2.0\\nCopyright (C) Free Software Foundation, Inc.", "gcc 12.2.0"),
        ("Debian clang version 14.0.6", "clang 14.0.6"),
        ("tcc", "cc"),
    ],
)
def test_compiler_has_its_name_and_version(tmp_path: Path, prints: str, name: str) -> None:
    assert compiler_name(str(script(tmp_path, "cc", f"printf '{prints}\\n'"))) == name


def test_library_that_cannot_be_loaded_is_explained(tmp_path: Path) -> None:
    (tmp_path / "kernels.so").write_text("no library")
    with pytest.raises(CalibrationError, match="set TMPDIR"):
        CompiledKernels(compiler.CompiledLibrary(tmp_path / "kernels.so", "gcc"))
