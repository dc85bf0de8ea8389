"""A real API server of Kubernetes with its etcd, in a network namespace of their own.

There are no nodes: what is asked for is checked, changed by webhooks and kept, and nothing runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .slurm_cluster import wait_until

TOOLS = os.environ.get("ROOFLINE_KUBERNETES_TOOLS", "")
ADMIN = "of-the-admin"
SERVICES = "10.99.0.0/24"
CONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: of-the-admin}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


def tool(name: str) -> str | None:
    """Where a program of the environment for Kubernetes, or of this machine, is."""
    return shutil.which(name, path=f"{TOOLS}:{os.environ.get('PATH', '')}")


class ApiServer:
    """Takes root. Ends with all that it started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self.environ = {
            **os.environ,
            "PATH": f"{TOOLS}:{os.environ.get('PATH', '')}",
            "KUBECONFIG": str(folder / "config"),
            **{f"HELM_{name}_HOME": str(folder / "helm") for name in ("CACHE", "CONFIG", "DATA")},
        }

    def __enter__(self) -> ApiServer:
        (self.folder / "config").write_text(CONFIG)
        (self.folder / "tokens.csv").write_text(f'{ADMIN},admin,1,"system:masters"\n')
        key = self.folder / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        self._space = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self._started.append(self._space)
        wait_until(lambda: os.readlink(f"/proc/{self._space.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
        self.run("ip", "link", "set", "lo", "up")
        self.start("etcd", "--data-dir", self.folder / "etcd", "--log-level=error")
        accounts = ["key-file", "signing-key-file"]
        self.start(
            "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=6443"),
            f"--cert-dir={self.folder / 'certificates'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            *(f"--service-account-{what}={key}" for what in accounts),
            f"--service-cluster-ip-range={SERVICES}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--allow-privileged=true",
            "--endpoint-reconciler-type=none",
            # There is no controller that would make a default account in each namespace.
            "--disable-admission-plugins=ServiceAccount",
        )
        wait_until(
            lambda: self.run("kubectl", "get", "--raw=/readyz", check=False) == "ok", 90, "it is ready"
        )
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._started):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()

    def _inside(self, words: Sequence[Any]) -> list[str]:
        return ["nsenter", "-t", str(self._space.pid), "-n", "--", *map(str, words)]

    def start(self, *words: Any) -> None:
        with open(self.folder / f"{Path(str(words[0])).name}.log", "ab") as log:
            self._started.append(
                subprocess.Popen(self._inside(words), env=self.environ, stdout=log, stderr=log)
            )

    def run(self, *words: Any, text: str = "", check: bool = True) -> str:
        """What a program says that runs next to the API server."""
        done = subprocess.run(
            self._inside(words), env=self.environ, input=text, capture_output=True, text=True, timeout=120
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def create(self, thing: dict[str, Any], namespace: str) -> dict[str, Any]:
        """The thing as the API server keeps it."""
        words = ["kubectl", "create", "-n", namespace, "-o", "json", "-f", "-"]
        found: dict[str, Any] = json.loads(self.run(*words, text=json.dumps(thing)))
        return found

    def get(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("kubectl", "get", "-o", "json", *words))
        return found
