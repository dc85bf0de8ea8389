"""`roofline-agent webhook`: pods of a Kubernetes cluster that ask for it get hooks, socket and names."""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer

LOOK_S = 5  # for a certificate that was renewed


def webhook(
    certificate: Annotated[Path, typer.Option(help="certificate for the API server (PEM)")],
    key: Annotated[Path, typer.Option(help="key of the certificate (PEM)")],
    listen: Annotated[str, typer.Option(metavar="HOST:PORT")] = "0.0.0.0:8443",
    claims: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACES",
            help="comma-separated: pods there get the claim roofline-node instead of a hostPath",
        ),
    ] = "",
) -> None:
    """Serve the webhook of deploy/kubernetes. It is for pods with the annotation roofline/record=true.

    They get the socket and hooks of the node's agent, and their job, role and index from the labels of
    JobSet, Kubeflow, Volcano, KubeRay, MPIJob, Job or StatefulSet. Needs the extra "webhook". See
    docs/cluster/kubernetes.md.

    Exit codes: 0 stopped, 3 the extra or a file is missing, or cannot be used.
    """
    from ..errors import ConfigError

    try:
        import uvicorn
        from roofline.listening import at_all_addresses, is_all
        from roofline.renewal import Renewal

        from ..kubernetes.webhook import application
    except ImportError:
        raise ConfigError("pip install 'roofline-profiler[webhook]' first") from None
    _check_identity(certificate, key)
    host, _, port = listen.rpartition(":")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(f"--listen {listen} is no HOST:PORT")
    host = host.strip("[]") or "0.0.0.0"
    config = uvicorn.Config(
        application([name for name in claims.split(",") if name]),
        host=host,
        port=int(port),
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_level="warning",
        timeout_notify=LOOK_S,
    )
    config.callback_notify = _renewing(config, Renewal(certificate, key))
    try:
        sockets = [at_all_addresses(int(port))] if is_all(host) else None
    except OSError as error:
        raise ConfigError(f"cannot listen at {listen}: {error.strerror}; choose another --listen") from None
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))  # uvicorn stops, and then raises it again
    uvicorn.Server(config).run(sockets)


def _check_identity(certificate: Path, key: Path) -> None:
    """Raises ConfigError for files with which nobody can speak TLS."""
    from roofline.listening import why_no_identity

    from ..errors import ConfigError

    for file in (certificate, key):
        if not file.exists():
            raise ConfigError(f"there is no file {file}")
    if why := why_no_identity(certificate, key):
        raise ConfigError(why)


def _renewing(config: Any, renewal: Any) -> Callable[[], Awaitable[None]]:
    async def look() -> None:
        if config.ssl is not None:
            renewal.look(config.ssl)

    return look
