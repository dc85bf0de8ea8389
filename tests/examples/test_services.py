"""What `make demo` does before it trains: the Python it is made with, and the ceilings of a busy machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.end_to_end.conftest import REPOSITORY

EXAMPLES = REPOSITORY / "examples"

# Like `roofline-agent calibrate`: refuses while a training runs, if it is not forced.
CALIBRATE = """#!/bin/sh
echo "$*" >> {log}
case "$*" in *--force*) ;; *) [ -e {training} ] && exit 6 ;; esac
mkdir -p {state} && echo "{{}}" > {state}/ceilings.json
"""


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import services

    assert isinstance(services, ModuleType)
    return services


def test_ceilings_beside_a_training_are_measured_again_later(
    services: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, training, state = tmp_path / "log", tmp_path / "training", tmp_path / "demo" / "agent"
    script = tmp_path / "roofline-agent"
    script.write_text(CALIBRATE.format(log=log, training=training, state=state))
    script.chmod(0o755)
    monkeypatch.setattr(services, "COMMANDS", tmp_path)

    def calibrated() -> list[str]:
        log.write_text("")
        services.measure_ceilings(tmp_path / "demo", {}, [])
        return log.read_text().splitlines()

    ask = f"--state {state} calibrate"
    training.touch()
    assert calibrated() == [ask, f"{ask} --force --quick"]
    training.unlink()
    assert calibrated() == [ask], "they were measured beside a training"
    assert calibrated() == []


def test_calibration_that_fails_is_an_error(
    services: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "roofline-agent"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(services, "COMMANDS", tmp_path)
    with pytest.raises(services.ServiceError, match="could not be measured"):
        services.measure_ceilings(tmp_path / "demo", {}, [])


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
@pytest.mark.parametrize(
    ("version", "said"),
    [((3, 9), "is Python 3.9; 3.10 to 3.13 is needed"), ((3, 14), "is Python 3.14; 3.10 to 3.13 is needed")],
)
def test_python_is_looked_at_before_anything_is_installed(
    tmp_path: Path, version: tuple[int, int], said: str
) -> None:
    shutil.copy(REPOSITORY / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    python = tmp_path / "python"
    pretend = f"import sys; sys.version_info = (*{version}, 0, 'final', 0); exec(sys.argv[1])"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{pretend}" "$2"\n')
    python.chmod(0o755)
    command = ["make", "test", f"PYTHON={python}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and said in done.stderr
    assert not (tmp_path / ".venv").exists()
