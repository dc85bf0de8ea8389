"""What `pip install` brings: all five packages, their data files, three commands, one version."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import roofline_agent
import roofline_client
import roofline_server

from .fakes import clean_environ

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = {
    "proto/roofline",
    "agent/roofline_agent",
    "agent/roofline_step",
    "server/roofline_server",
    "client/roofline_client",
}
COMMANDS = {f"roofline-{name}": f"roofline_{name}.__main__:main" for name in ("agent", "server", "client")}


def test_project_lists_the_import_packages() -> None:
    assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == PACKAGES
    found = {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/*/__init__.py")}
    assert {path for path in found if not path.startswith(("tests", "."))} == PACKAGES


@pytest.mark.parametrize(
    ("program", "begun", "whole"),
    [("client", "stra", "stragglers"), ("agent", "cali", "calibrate"), ("server", "--insec", "--insecure")],
)
def test_shells_complete(program: str, begun: str, whole: str) -> None:
    asked = {
        f"_ROOFLINE_{program.upper()}_COMPLETE": "complete_bash",
        "COMP_WORDS": f"roofline-{program} {begun}",
        "COMP_CWORD": "1",
    }
    code = f"import sys; sys.argv = ['roofline-{program}']; import roofline_{program}.__main__ as p; p.main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environ(**asked), capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == [whole], done.stderr


def test_commands_are_there() -> None:
    assert PROJECT["project"]["scripts"] == COMMANDS
    for target in COMMANDS.values():
        module, _, name = target.partition(":")
        assert callable(getattr(import_module(module), name))


@pytest.mark.parametrize(("before", "after"), [(None, "{}"), ("/a:/b", "{}:/a:/b"), ("/a:{}", "/a:{}")])
def test_profile_adds_the_hooks_once(tmp_path: Path, before: str | None, after: str) -> None:
    hooks = tmp_path / "lib" / "python3.11" / "site-packages" / "roofline_agent" / "hooks" / "inject"
    hooks.mkdir(parents=True)
    script = (
        (ROOT / "deploy" / "profile.d" / "roofline.sh").read_text().replace("/opt/roofline", str(tmp_path))
    )
    environ = {} if before is None else {"PYTHONPATH": before.format(hooks)}
    command = ["sh", "-eu", "-c", f'{script}\n{script}\necho "$PYTHONPATH"']
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=20)
    assert (done.stdout, done.stderr) == (after.format(hooks) + "\n", "")


def test_one_version() -> None:
    versions = {m.__version__ for m in (roofline_agent, roofline_server, roofline_client)}
    assert versions == {PROJECT["project"]["version"]}


@pytest.mark.slow
def test_command_says_the_version() -> None:
    for command in COMMANDS:
        done = subprocess.run(
            [Path(sys.executable).parent / command, "--version"], capture_output=True, text=True, timeout=60
        )
        assert done.stdout == f"{command} {PROJECT['project']['version']}\n"


def test_base_dependencies_are_the_agents() -> None:
    names = {d.partition(">")[0] for d in PROJECT["project"]["dependencies"]}
    assert names == {"grpcio", "nvidia-ml-py", "protobuf", "psutil", "typer", "tomli"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Names of the files in the built wheel -> their bytes."""
    out = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(out),
        str(ROOT),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode and "No matching distribution found for hatchling" in done.stderr:
        pytest.skip("the build backend, hatchling, cannot be downloaded here")
    assert done.returncode == 0, done.stderr
    (built,) = out.iterdir()
    with zipfile.ZipFile(built) as file:
        return {name: file.read(name) for name in file.namelist()}


def sources() -> set[str]:
    """Every file git would know of in the packages, by its name in a wheel."""
    return {
        str(path.relative_to((ROOT / package).parent))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.slow
def test_wheel_holds_every_file_of_the_packages(wheel: Any) -> None:
    packed = {name for name in wheel if ".dist-info/" not in name}
    assert packed == sources()


@pytest.mark.slow
def test_wheel_holds_what_is_not_imported(wheel: Any) -> None:
    """Found by path at run time: without them the agent works, and sees less."""
    events = [name for name in wheel if name.startswith("roofline_agent/events/") and name.endswith(".toml")]
    assert len(events) >= 6
    assert "roofline_agent/hooks/inject/sitecustomize.py" in wheel
    assert "roofline_step/py.typed" in wheel


@pytest.mark.slow
def test_wheel_brings_the_commands_and_the_licence(wheel: Any) -> None:
    text = next(data for name, data in wheel.items() if name.endswith("entry_points.txt")).decode()
    assert text.splitlines() == ["[console_scripts]", *(f"{k} = {v}" for k, v in sorted(COMMANDS.items()))]
    assert any(name.endswith("/LICENSE") for name in wheel)


@pytest.mark.slow
def test_public_packages_are_typed(wheel: Any) -> None:
    assert "roofline_client/py.typed" in wheel
