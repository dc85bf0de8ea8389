"""Secrets of the Kubernetes cluster that this pod runs in, read and changed as its service account may.

Two requests of one kind of object: the official client for Python would be a tenth of the image for them.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigError, Unavailable

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_S = 10.0


class ApiServer(NamedTuple):
    """Where it is, and who asks."""

    url: str
    namespace: str
    token: str
    authority: str = ""  # file of its certificate, PEM


def of_pod(environ: Mapping[str, str] = os.environ, account: Path = ACCOUNT) -> ApiServer:
    """What Kubernetes tells every pod. Raises ConfigError outside of one."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        token, namespace = ((account / name).read_text().strip() for name in ("token", "namespace"))
    except OSError:
        host = ""
    if not host:
        raise ConfigError("this is no pod of Kubernetes with a service account")
    place = f"[{host}]" if ":" in host else host
    return ApiServer(f"https://{place}:{port}", namespace, token, str(account / "ca.crt"))


class Secrets:
    """The Secrets of the pod's own namespace."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def read(self, name: str) -> dict[str, str]:
        """What is in a Secret. Raises Unavailable where it is not, or may not be read."""
        data = self._ask("GET", name).get("data") or {}
        return {key: base64.b64decode(text).decode() for key, text in data.items()}

    def write(self, name: str, values: Mapping[str, str]) -> None:
        """Put these into a Secret that exists, in addition to what it has. Raises Unavailable."""
        self._ask("PATCH", name, {"stringData": dict(values)})

    def _ask(self, method: str, name: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        server = self._server
        request = urllib.request.Request(
            f"{server.url}/api/v1/namespaces/{server.namespace}/secrets/{name}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {server.token}", "Content-Type": "application/merge-patch+json"},
            method=method,
        )
        secured = ssl.create_default_context(cafile=server.authority) if server.authority else None
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=secured)]
        try:
            with urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT_S) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            why = f"the API server answers {error.code}: {_message(error)}"
        except (OSError, ValueError) as error:
            why = f"the API server does not answer: {error}"
        raise Unavailable(f"Secret {server.namespace}/{name}: {why}")


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.reason)
