"""Whatever is wrong, one clear line and the documented exit code, and nothing else is harmed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import COMMANDS, Site, wait_until


def run(site: Site, name: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [str(COMMANDS / name), *map(str, arguments)]
    return subprocess.run(command, env=site.environ, capture_output=True, text=True, timeout=60)


def one_line(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    lines = [line for line in done.stderr.splitlines() if line]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in lines[0]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site with a server that several tests ask."""
    made = Site(tmp_path_factory.mktemp("served"))
    try:
        made.server()
        yield made
    finally:
        made.stop()


@pytest.mark.slow
def test_unknown_job(served: Site) -> None:
    one_line(served.ask("report", "--job", "nope"), 5, "nope", "roofline-client jobs")


def test_no_server_at_the_address(site: Site) -> None:
    one_line(site.ask("report", "--job", "42", "--server", "127.0.0.1:9"), 4, "127.0.0.1:9")
    one_line(site.ask("jobs", "--server", "nonsense"), 2, "HOST:PORT")


@pytest.mark.slow
def test_port_in_use(served: Site, tmp_path: Path) -> None:
    other = run(served, "roofline-server", "-q", "--listen", served.address, "--data", tmp_path / "other")
    one_line(other, 6, served.address, "in use")


@pytest.mark.slow
def test_what_a_server_keeps_is_for_its_user_alone(served: Site) -> None:
    (data,) = {path.parent for path in served.folder.rglob("catalog.db")}
    kept = [data, *data.rglob("*")]
    assert len(kept) > 3
    assert [path for path in kept if path.stat().st_mode & 0o077] == []


@pytest.mark.slow
def test_data_directory_that_cannot_be_written(site: Site) -> None:
    in_the_way = site.folder / "file"
    in_the_way.write_text("not a directory")
    done = run(site, "roofline-server", "-q", "--listen", site.address, "--data", in_the_way / "data")
    one_line(done, 6, "data directory", "--data")


@pytest.mark.slow
def test_address_others_can_reach_needs_a_word(site: Site) -> None:
    one_line(run(site, "roofline-server", "-q", "--listen", "0.0.0.0:7999"), 3, "--insecure")


@pytest.mark.slow
def test_malformed_agent_configuration(site: Site) -> None:
    config = site.folder / "agent.toml"
    config.write_text("interval = = 3")
    one_line(run(site, "roofline-agent", "--config", config), 3, str(config), "TOML")
    config.write_text("intervall = 3")
    one_line(run(site, "roofline-agent", "--config", config), 3, "intervall", "interval")


@pytest.mark.slow
def test_picture_that_cannot_be_written(served: Site) -> None:
    served.agent()
    assert served.rank("worker", 0, 10, 0.03, 1).wait(timeout=60) == 0
    wait_until(lambda: served.steps("worker:0") == 10)
    done = served.ask("report", "--job", "42", "--plot", Path("/proc/nowhere/x.png"))
    one_line(done, 1, "/proc/nowhere/x.png")
    wrong_ending = served.ask("report", "--job", "42", "--plot", "x.bmp")
    assert wrong_ending.returncode == 2 and ".png" in wrong_ending.stderr


@pytest.mark.slow
def test_step_range_that_cannot_be(site: Site) -> None:
    one_line(site.ask("report", "--job", "42", "--steps", "a:b"), 2, "FIRST:LAST")
