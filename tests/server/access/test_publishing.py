"""Tokens in Secrets of Kubernetes: made once, kept while good, by HTTP as an API server speaks it."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from roofline.joining import parse_token
from roofline_server.access import AUTHORITY, authority
from roofline_server.access.publishing import join_token, reader_token
from roofline_server.access.secrets import ApiServer, Secrets, of_pod
from roofline_server.access.tokens import Tokens
from roofline_server.errors import ConfigError, Unavailable


class Kept(dict[str, dict[str, str]]):
    """Secrets in memory."""

    def read(self, name: str) -> dict[str, str]:
        return self.setdefault(name, {})

    def write(self, name: str, values: dict[str, str]) -> None:
        self.setdefault(name, {}).update(values)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    authority.create(tmp_path / "access")
    return tmp_path / "access"


def test_token_to_join_with_is_made_once(folder: Path) -> None:
    kept = Kept()
    made = join_token(folder, kept, "join")
    assert made is not None and made.joins and made.role == "agent"
    token = parse_token(kept["join"]["token"])
    assert token.fingerprint == authority.fingerprint(folder)
    assert Tokens(folder).holder(token.secret) == made
    assert join_token(folder, kept, "join") is None
    assert kept["join"]["token"] == str(token)


def test_token_that_is_good_no_more_is_exchanged_and_revoked(folder: Path) -> None:
    kept = Kept()
    first = join_token(folder, kept, "join")
    kept["join"]["token"] = "damaged"
    second = join_token(folder, kept, "join")
    assert first and second and first.id != second.id
    assert Tokens(folder).valid_ids() == {second.id}


def test_server_that_lost_its_data_replaces_what_is_of_no_use(folder: Path, tmp_path: Path) -> None:
    kept = Kept()
    join_token(folder, kept, "join")
    reader_token(folder, kept, "metrics")
    authority.create(tmp_path / "new")
    assert join_token(tmp_path / "new", kept, "join") and reader_token(tmp_path / "new", kept, "metrics")
    assert kept["metrics"]["authority"] == (tmp_path / "new" / AUTHORITY).read_text()


def test_reader_of_numbers_gets_the_authority_too(folder: Path) -> None:
    kept = Kept()
    made = reader_token(folder, kept, "metrics")
    assert made is not None and made.role == "reader" and not made.joins
    assert Tokens(folder).holder(kept["metrics"]["token"]) == made
    assert kept["metrics"]["authority"] == (folder / AUTHORITY).read_text()
    assert reader_token(folder, kept, "metrics") is None


class ApiDouble(http.server.BaseHTTPRequestHandler):
    """One Secret, and refusals in the form of an API server."""

    data: dict[str, str] = {}  # noqa: RUF012 - of the class, as each request has an instance

    def do_GET(self) -> None:
        if self.headers["Authorization"] != "Bearer mine" or not self.path.endswith("/team/secrets/one"):
            self._answer(403, {"kind": "Status", "message": "secrets is forbidden"})
        else:
            self._answer(200, {"kind": "Secret", "data": self.data})

    def do_PATCH(self) -> None:
        assert self.headers["Content-Type"] == "application/merge-patch+json"
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for key, text in body["stringData"].items():
            self.data[key] = base64.b64encode(text.encode()).decode()
        self.do_GET()

    def _answer(self, status: int, body: dict[str, object]) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[str]:
    ApiDouble.data = {}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), ApiDouble) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_secret_is_written_and_read(api: str) -> None:
    secrets = Secrets(ApiServer(api, "team", "mine"))
    assert secrets.read("one") == {}
    secrets.write("one", {"token": "abc"})
    secrets.write("one", {"authority": "PEM\n"})
    assert secrets.read("one") == {"token": "abc", "authority": "PEM\n"}


def test_refusal_says_which_secret_and_why(api: str) -> None:
    with pytest.raises(
        Unavailable, match="Secret team/one: the API server answers 403: secrets is forbidden"
    ):
        Secrets(ApiServer(api, "team", "another")).read("one")
    with pytest.raises(Unavailable, match="Secret team/one: the API server does not answer"):
        Secrets(ApiServer("http://127.0.0.1:1", "team", "mine")).read("one")


def test_api_server_is_where_kubernetes_says(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    with pytest.raises(ConfigError, match="no pod"):
        of_pod(environ, tmp_path)
    for name, text in (("token", "mine\n"), ("namespace", "team")):
        (tmp_path / name).write_text(text)
    assert of_pod(environ, tmp_path) == ("https://10.0.0.1:6443", "team", "mine", str(tmp_path / "ca.crt"))
    assert of_pod({"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path).url == "https://[fd00::1]:443"
    with pytest.raises(ConfigError, match="no pod"):
        of_pod({}, tmp_path)
