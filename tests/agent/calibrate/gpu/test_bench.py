"""What runs in somebody else's Python asks nothing of it: old syntax, standard library, its own folder."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from roofline_agent.calibrate.gpu import BENCH, pythons

FILES = sorted(BENCH.glob("*.py"))
OLDEST = (3, 8)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_is_of_old_python_and_needs_no_package(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=OLDEST)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_folder_does_not_stand_before_the_frameworks_modules(tmp_path: Path) -> None:
    """A framework has modules called like ours."""
    (tmp_path / "timing.py").write_text("whose = 'the framework'")
    (tmp_path / "torch.py").write_text("import timing\nraise ImportError(timing.whose)")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, str(BENCH), "dispatch", "--quick"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
    notes = [json.loads(line).get("note", "") for line in done.stdout.splitlines()]
    assert notes == ["launch: torch does not work here: ImportError: the framework", ""]


def test_what_a_framework_prints_is_no_line_of_ours(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "import os\nprint('hello')\nos.write(1, b'there')\nraise OSError('no')"
    )
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, str(BENCH), "dispatch", "--quick"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()][-1] == {"done": True}
    assert "hello" in done.stderr and "there" in done.stderr


def with_module(folder: Path, name: str) -> dict[str, str]:
    (folder / f"{name}.py").touch()
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_named_python_is_taken_or_the_reason_is_said(tmp_path: Path) -> None:
    found, why = pythons.choose(sys.executable, with_module(tmp_path, "tensorflow"))
    assert found == pythons.Python(sys.executable, ("tensorflow",)) and why == ""
    assert pythons.choose("/nowhere/python", {}) == (None, "/nowhere/python is no Python that runs here")
    _, why = pythons.choose(sys.executable, {"PATH": "/usr/bin:/bin"})
    assert why == f"{sys.executable} has none of torch, cupy, tensorflow"


def test_own_python_comes_before_one_on_path(tmp_path: Path) -> None:
    found, _ = pythons.choose(None, with_module(tmp_path, "cupy"))
    assert found is not None and found.path == sys.executable
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho '[\"torch\"]'\n")
    other.chmod(0o755)
    found, _ = pythons.choose(None, {"PATH": f"{other.parent}:/usr/bin:/bin"})
    assert found == pythons.Python(str(other), ("torch",))
