"""Settings of the agent: flags before ROOFLINE_* variables before a TOML file before defaults."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.places import state_home

from .errors import ConfigError
from .ranks.askable import problem_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from roofline.joining import Access, Servers

DEFAULT_SERVER = "127.0.0.1:7642"
SYSTEM_SOCKET = Path("/run/roofline/agent.sock")  # as roofline_step has it
LOOPBACK = re.compile(r"(127(\.[0-9]{1,3}){3}|localhost):[0-9]{1,5}")
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.01, 60.0


@dataclass(frozen=True)
class Config:
    server: str = DEFAULT_SERVER  # HOST:PORT
    interval: float = 1.0  # seconds between samples
    job: str = ""  # for ranks whose environment names no job
    socket: str = ""  # where marks come in; empty: see default_socket
    state: str = ""  # spool, identity, ceilings; empty: see default_state
    spool_mb: int = 256  # bound of the spool, MiB
    sources: tuple[str, ...] = ()  # empty: all
    otlp: str = ""  # 127.0.0.1:PORT where spans are taken by OTLP; empty: nowhere

    @property
    def otlp_address(self) -> tuple[str, int] | None:
        """Where spans are taken; None: nowhere."""
        host, _, port = self.otlp.rpartition(":")
        return ("127.0.0.1" if host == "localhost" else host, int(port)) if self.otlp else None

    @property
    def interval_ns(self) -> int:
        return int(self.interval * 1e9)

    def state_directory(self, environ: Mapping[str, str] = os.environ) -> Path:
        return Path(self.state) if self.state else default_state(environ)

    def socket_path(self, environ: Mapping[str, str] = os.environ) -> Path:
        return Path(self.socket) if self.socket else default_socket(environ)


def load(
    flags: Mapping[str, Any], environ: Mapping[str, str] = os.environ, file: Path | None = None
) -> Config:
    """Merge all places; without a server in any, it is the one that was joined last. Raises ConfigError
    naming the place, the key and what would be right."""
    config, places = Config(), []

    if file is None and environ.get("ROOFLINE_CONFIG"):
        file = Path(environ["ROOFLINE_CONFIG"])
    if file is not None:
        places.append(_read_file(file))
        config = _apply(config, places[-1], str(file))

    variables: dict[str, Any] = {}
    for field in fields(Config):
        text = environ.get(f"ROOFLINE_{field.name.upper()}")
        if text:
            variables[field.name] = text.split(",") if field.name == "sources" else text
    config = _apply(config, variables, "the environment (ROOFLINE_*)")

    given = {key: value for key, value in flags.items() if value not in (None, (), [])}
    config = _apply(config, given, "the command line")
    if any("server" in place for place in (*places, variables, given)):
        return config
    joined = known_servers(config.state_directory(environ)).newest
    return replace(config, server=joined) if joined else config


def known_servers(state: Path) -> Servers:
    """The servers that this node has joined. Raises ConfigError for a file that is broken."""
    from roofline.joining import CannotJoin, agent_file, load_servers

    try:
        return load_servers(agent_file(state))
    except CannotJoin as error:
        raise ConfigError(str(error)) from None


def known_access(state: Path, server: str) -> Access | None:
    """What this node is let in with there; None: it has not joined. Raises ConfigError, as above."""
    return known_servers(state).known.get(server)


def keep_access(state: Path, server: str, access: Access) -> None:
    """What this node is let in with from now on. Raises CannotJoin."""
    from roofline.joining import agent_file, replace_access

    replace_access(agent_file(state), server, access)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    section = data.get("agent", data)
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: [agent] must be a table of settings")
    return section


def _apply(config: Config, values: Mapping[str, Any], place: str) -> Config:
    """The configuration with the values of one place, each converted and checked."""
    known = {field.name for field in fields(Config)}
    for key in values:
        if key not in known:
            raise ConfigError(f"{place}: unknown setting {key!r}; known are {', '.join(sorted(known))}")
    config = replace(config, **{key: _convert(key, value, place) for key, value in values.items()})

    if not MIN_INTERVAL_S <= config.interval <= MAX_INTERVAL_S:
        raise ConfigError(
            f"{place}: interval = {config.interval} s is outside {MIN_INTERVAL_S} .. {MAX_INTERVAL_S} s"
        )
    if "//" in config.server:
        right = config.server.rpartition("//")[2].strip("/")
        raise ConfigError(f"{place}: server = {config.server!r}: without the scheme, as in {right}")
    host, colon, port = config.server.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(f"{place}: server = {config.server!r} must be HOST:PORT, e.g. {DEFAULT_SERVER}")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        right = f"[{host.strip('[]')}]:{port}"
        raise ConfigError(f"{place}: server = {config.server!r}: IPv6 addresses have brackets, as in {right}")
    if config.otlp and not _is_own_port(config.otlp):
        raise ConfigError(
            f"{place}: otlp = {config.otlp!r} must be a port of this machine alone, as 127.0.0.1:4318: "
            "only of processes of this machine does the kernel say whose spans they are"
        )
    if problem := problem_of(config.job):
        raise ConfigError(f"{place}: job: {problem}")
    if config.spool_mb < 1:
        raise ConfigError(f"{place}: spool_mb = {config.spool_mb} must be at least 1")
    return config


def _is_own_port(address: str) -> bool:
    """Whether it is a port of loopback."""
    return bool(LOOPBACK.fullmatch(address)) and int(address.rpartition(":")[2]) < 65536


def _convert(key: str, value: Any, place: str) -> Any:
    try:
        if key == "interval":
            return float(value)
        if key == "spool_mb":
            return int(value)
        if key == "sources":
            if not isinstance(value, (list, tuple)):
                raise ValueError
            return tuple(str(v).strip() for v in value)
    except (TypeError, ValueError):
        raise ConfigError(f"{place}: {key} = {value!r} is not what {key} takes") from None
    if not isinstance(value, str):
        raise ConfigError(f"{place}: {key} = {value!r} must be text")
    return value


def default_state(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the agent keeps its spool, identity and ceilings."""
    return state_home(environ) / "roofline" / "agent"


def default_socket(environ: Mapping[str, str] = os.environ) -> Path:
    """Where this user's agent listens: the system's place for root, else the user's own."""
    if os.getuid() == 0:
        return SYSTEM_SOCKET
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime, "roofline", "agent.sock")
    return Path(f"/tmp/roofline-{os.getuid()}/agent.sock")
