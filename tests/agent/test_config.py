"""Flags before variables before a file before defaults; every error names the place and the key."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from roofline_agent.cli import app
from roofline_agent.config import SYSTEM_SOCKET, Config, default_socket, default_state, load
from roofline_agent.errors import ConfigError
from roofline_step.sockets import socket_paths


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.toml"
    path.write_text(
        '[agent]\nserver = "file:1"\ninterval = 2\njob = "file"\nspool_mb = 7\nsources = ["tcp"]\n'
    )
    return path


def test_every_setting_is_in_the_help_and_on_the_page() -> None:
    shown = typer.main.get_command(app).help or ""
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    for field in fields(Config):
        assert f"ROOFLINE_{field.name.upper()}" in shown and f"\n| `{field.name}` |" in page, field.name


def test_defaults() -> None:
    assert load({}, {}) == Config("127.0.0.1:7642", 1.0, "", "", "", 256, ())


def test_each_place_goes_before_the_next(file: Path) -> None:
    environ = {"ROOFLINE_SERVER": "env:2", "ROOFLINE_INTERVAL": "3"}
    config = load({"server": "flag:3", "interval": None, "job": None}, environ, file)
    assert (config.server, config.interval, config.job) == ("flag:3", 3.0, "file")
    assert (config.spool_mb, config.sources) == (7, ("tcp",))


def test_file_named_by_a_variable_and_without_a_section(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('server = "h:1"\n')
    assert load({}, {"ROOFLINE_CONFIG": str(path)}).server == "h:1"


def test_all_variables(tmp_path: Path) -> None:
    values = {"SERVER": "h:1", "INTERVAL": "0.5", "JOB": "j", "SOCKET": "/s", "STATE": "/t", "SPOOL_MB": "9"}
    environ = {f"ROOFLINE_{k}": v for k, v in values.items()}
    assert load({}, {**environ, "ROOFLINE_SOURCES": "tcp,perf"}) == Config(
        "h:1", 0.5, "j", "/s", "/t", 9, ("tcp", "perf")
    )


def test_empty_variable_says_nothing() -> None:
    assert load({}, {"ROOFLINE_SERVER": "", "ROOFLINE_INTERVAL": ""}) == Config()


def test_ipv6_server() -> None:
    assert load({"server": "[::1]:7642"}, {}).server == "[::1]:7642"


WRONG = [
    ("interval", "0"),
    ("interval", "61"),
    ("interval", "nan"),
    ("interval", "inf"),
    ("interval", "-1"),
    ("interval", "soon"),
    ("server", "host"),
    ("server", ":7642"),
    ("server", "host:"),
    ("server", "host:0"),
    ("server", "host:65536"),
    ("server", "host:port"),
    ("spool_mb", "0"),
    ("spool_mb", "much"),
    ("otlp", "127.0.0.1:65536"),
    ("otlp", "127.0.0.1:99999"),
    ("job", "last"),
    ("job", "42/1"),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_wrong_value_names_place_key_and_value(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as flag:
        load({key: value}, {})
    assert str(flag.value).startswith("the command line: ") and key in str(flag.value)
    with pytest.raises(ConfigError) as variable:
        load({}, {f"ROOFLINE_{key.upper()}": value})
    assert str(variable.value).startswith("the environment (ROOFLINE_*): ") and key in str(variable.value)
    assert flag.value.exit_code == 3


def test_port_in_other_digits_is_wrong() -> None:
    with pytest.raises(ConfigError):
        load({"server": "host:²"}, {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("speed = 3", "unknown setting 'speed'; known are interval, job,"),
        ("job = 3", "job = 3 must be text"),
        ('sources = "tcp"', "sources"),
        ("interval = []", "interval = []"),
        ("agent = 3", "[agent] must be a table"),
        ("= 3", "is not valid TOML"),
        ("[agent]\nspool_mb = 0", "spool_mb = 0"),
    ],
)
def test_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load({}, {}, path)
    assert str(path) in str(raised.value)
    assert says in str(raised.value)


def test_file_that_is_no_text_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    with pytest.raises(ConfigError, match=r"cannot read .*agent.toml: No such file"):
        load({}, {}, path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        load({}, {}, path)


def test_file_is_utf8_in_every_locale(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_bytes('job = "größer"'.encode())
    code = (
        "import sys; from roofline_agent.config import *; print(ascii(load({}, {}, Path(sys.argv[1])).job))"
    )
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", code, path], env=environ, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (ascii("größer") + "\n", "")


def test_places_of_state_and_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_state({"XDG_STATE_HOME": "/s"}) == Path("/s/roofline/agent")
    assert default_state({"HOME": "/h"}) == Path("/h/.local/state/roofline/agent")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert default_socket({"XDG_RUNTIME_DIR": "/r"}) == Path("/run/roofline/agent.sock")
    monkeypatch.setattr(os, "getuid", lambda: 5)
    assert default_socket({"XDG_RUNTIME_DIR": "/r"}) == Path("/r/roofline/agent.sock")
    assert default_socket({}) == Path("/tmp/roofline-5/agent.sock")


def test_agent_listens_where_marks_look_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for uid in (0, 5):
        monkeypatch.setattr(os, "getuid", lambda uid=uid: uid)
        for environ in ({}, {"XDG_RUNTIME_DIR": "/r"}):
            assert str(default_socket(environ)) in socket_paths(environ)


def test_system_has_one_place_for_its_socket() -> None:
    assert socket_paths({}, 1000)[-1] == str(SYSTEM_SOCKET)
