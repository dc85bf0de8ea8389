"""A network benchmark as it is shown; `tests/end_to_end/test_bench_net.py` measures one."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

import pytest
from roofline.answers.machines import Ceiling, NetResult, NetSummary
from roofline.answers.values import Spread
from roofline_client.errors import ClientError, Refused
from roofline_client.tables import bench, flat
from roofline_client.tables.text import show

SPREAD = Spread(1.0, 2.0, 3.0, 4.0, 5.0, 5)
LATENCY = NetResult(
    *("tcp.latency", "tcp", "latency", "", "", 0, 1, False, 9.5e-6, "s"),
    Spread(9e-6, 9e-6, 9.5e-6, 1e-5, 2e-5, 5),
    "round trip of 1 byte",
    7,
)
SERVER = NetResult(
    *("grpc.ps.skewed", "grpc", "ps", "skewed", "mixed", 10, 6322186, False, 61.0, "1/s", None, "how", 8),
)
CEILING = Ceiling(
    *("net.tcp", "network", "network", "", 0, 2e9, "byte/s", 0.25, "4 streams", 7, "", None, "measured"),
    median=None,
    clock_hz=None,
    peer="b",
    operation="",
    doubt="",
)


def events() -> Iterator[str | NetResult | NetSummary]:
    yield "1 of 2: tcp.latency"
    yield LATENCY
    yield SERVER
    yield NetSummary([CEILING], ["\x1b[31mmind the gap"])


def found() -> bench.NetBench:
    return bench.gathered("a", "b", events(), lambda text: None)


def test_progress_is_passed_on_and_the_rest_gathered() -> None:
    said: list[str] = []
    whole = bench.gathered("a", "b", events(), said.append)
    assert said == ["1 of 2: tcp.latency"]
    assert whole == bench.NetBench("a", "b", [LATENCY, SERVER], [CEILING], ["\x1b[31mmind the gap"])


def test_what_breaks_it_off_is_not_swallowed() -> None:
    def broken() -> Iterator[str | NetResult | NetSummary]:
        yield LATENCY
        raise Refused("gone")

    with pytest.raises(Refused):
        bench.gathered("a", "b", broken(), lambda text: None)


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    show(bench.as_text(found()))
    out = capsys.readouterr().out
    assert "Network from a to b" in out and "Bandwidth" not in out
    latency, server = (
        next(line for line in out.splitlines() if name in line) for name in ("latency", "ps.skewed")
    )
    assert latency.split() == ["tcp.latency", "1", "B", "9.5", "us", "9", "us", "20", "us"]
    assert server.split() == ["grpc.ps.skewed", "6.029", "MiB", "61/s", "-", "-"]
    ceiling = next(line for line in out.splitlines() if "net.tcp" in line)
    assert ceiling.split()[:6] == ["net.tcp", "2", "GB/s", "-", "25.0%", "4"]
    assert "mind the gap" in out and "\x1b" not in out


def test_json() -> None:
    document = json.loads(bench.as_json(found()))
    assert (document["from_host"], document["to_host"]) == ("a", "b")
    assert document["results"][0]["spread"]["p95"] == 2e-5
    assert document["ceilings"][0]["peer"] == "b"
    odd = found()._replace(results=[LATENCY._replace(value=float("nan"))])
    with pytest.raises(ClientError):
        bench.as_json(odd)


def test_csv_has_numbers_as_they_are() -> None:
    text = flat.as_csv(bench.tables(found())["results"])
    latency, server = csv.DictReader(io.StringIO(text))
    assert float(latency["value"]) == 9.5e-6 and latency["unit"] == "s" and latency["repeats"] == "5"
    assert server["p50"] == "" and server["from_host"] == "a" and server["serialized"] == "False"
