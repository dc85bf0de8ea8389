"""The webhook over TLS, as an API server asks it."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from roofline_agent.kubernetes.patch import VOLUME
from roofline_agent.kubernetes.webhook import review
from roofline_server.access import authority

from tests.end_to_end.conftest import COMMANDS, wait_until
from tests.fakes import ended, free_port, has_ipv6

from .samples import SAMPLES, applied

POD = SAMPLES["indexed Job"].pod


def asked(pod: Any, namespace: str = "team-a") -> dict[str, Any]:
    """An AdmissionReview as the documentation of admission webhooks shows it."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": namespace,
            "operation": "CREATE",
            "object": pod,
            "dryRun": False,
        },
    }


def test_answer_is_the_review_with_the_same_uid_and_a_patch() -> None:
    answer = review(asked(POD))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = answer["response"]
    assert (response["uid"], response["allowed"]) == (asked(POD)["request"]["uid"], True)
    assert response["patchType"] == "JSONPatch"
    made = applied(POD, json.loads(base64.b64decode(response["patch"])))
    assert [volume["name"] for volume in made["spec"]["volumes"]] == [VOLUME]


def test_pod_that_asks_nothing_is_let_through_unchanged() -> None:
    response = review(asked({"metadata": {}, "spec": {"containers": []}}))["response"]
    assert response == {"uid": asked({})["request"]["uid"], "allowed": True}


@pytest.mark.parametrize(
    "broken",
    [None, [], {"metadata": {"annotations": {"roofline/record": "true"}}}, {"metadata": 7}],
)
def test_pod_that_cannot_be_understood_is_never_refused(broken: Any) -> None:
    response = review(asked(broken))["response"]
    assert response["allowed"] is True and "patch" not in response
    assert "not recorded" in response["warnings"][0]


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    number = free_port()
    authority.create(tmp_path / "access")
    command = [COMMANDS / "roofline-agent", "webhook", "--listen", f"0.0.0.0:{number}"]
    files = ["--certificate", tmp_path / "access" / "server.pem", "--key", tmp_path / "access" / "server.key"]
    with (
        open(tmp_path / "log", "wb") as log,
        ended(subprocess.Popen([*command, *files], stdout=log, stderr=log)),
    ):
        yield number


@pytest.mark.slow
def test_renewed_certificate_is_shown_without_a_restart(port: int, tmp_path: Path) -> None:
    def shown() -> str:
        with contextlib.suppress(OSError):
            return ssl.get_server_certificate(("127.0.0.1", port))
        return ""

    before = wait_until(shown)
    authority.create(tmp_path / "renewed")
    for name in ("server.key", "server.pem"):
        (tmp_path / "renewed" / name).replace(tmp_path / "access" / name)
    assert wait_until(lambda: shown() not in (before, ""), 30)


@pytest.mark.slow
def test_over_tls(port: int) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def ask(method: str, path: str, body: bytes = b"", host: str = "127.0.0.1") -> tuple[int, bytes] | None:
        link = http.client.HTTPSConnection(host, port, context=context, timeout=10)
        with contextlib.closing(link), contextlib.suppress(OSError):
            link.request(method, path, body, {"Content-Type": "application/json"})
            answer = link.getresponse()
            return answer.status, answer.read()
        return None

    assert wait_until(lambda: ask("GET", "/healthz")) == (200, b"ok\n")
    status, body = ask("POST", "/mutate?timeout=5s", json.dumps(asked(POD)).encode()) or (0, b"")
    assert status == 200 and json.loads(body) == review(asked(POD))
    assert not has_ipv6() or ask("GET", "/healthz", host="::1") == (200, b"ok\n")
    for nothing in (b"", b"[]", b"{}", b"\xff"):
        assert (ask("POST", "/mutate", nothing) or (0,))[0] == 400


def test_without_its_extra_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None; sys.argv[0] = 'roofline-agent'\n"
        "from roofline_agent.__main__ import main; main()"
    )
    command = [sys.executable, "-c", code, "webhook", "--certificate", "c", "--key", "k"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 3 and "roofline-profiler[webhook]" in done.stderr


def test_what_nobody_can_serve_by_is_one_line(tmp_path: Path) -> None:
    authority.create(tmp_path / "access")
    certificate, key = tmp_path / "access" / "server.pem", tmp_path / "access" / "server.key"
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing")
    for one, other, listen, why in (
        (nothing, key, "127.0.0.1:1", f"{nothing} and {key} are no certificate in PEM and its key"),
        (certificate, tmp_path / "access" / "authority.key", "127.0.0.1:1", "(KEY_VALUES_MISMATCH)"),
        (certificate, tmp_path, "127.0.0.1:1", f"cannot read {tmp_path}: Is a directory"),
        (certificate, tmp_path / "missing", "127.0.0.1:1", f"there is no file {tmp_path / 'missing'}"),
        (certificate, key, "127.0.0.1:99999", "--listen 127.0.0.1:99999 is no HOST:PORT"),
    ):
        command = [COMMANDS / "roofline-agent", "webhook", "--certificate", one, "--key", other, "--listen"]
        done = subprocess.run([*command, listen], capture_output=True, text=True, timeout=60)
        assert done.returncode == 3 and why in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_stop_it(number: signal.Signals, tmp_path: Path) -> None:
    authority.create(tmp_path / "access")
    at = free_port()
    command = [COMMANDS / "roofline-agent", "webhook", "--listen", f"127.0.0.1:{at}"]
    files = ["--certificate", tmp_path / "access" / "server.pem", "--key", tmp_path / "access" / "server.key"]
    with ended(subprocess.Popen([*command, *files], stderr=subprocess.PIPE, text=True)) as process:
        wait_until(lambda: answers(at))
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False
