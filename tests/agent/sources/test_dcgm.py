"""A made-up dcgm-exporter on a real HTTP port."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from roofline_agent.records import MetricKind, Sample, SourceSettings
from roofline_agent.sources import SOURCES, dcgm
from roofline_agent.sources.dcgm import METRICS, DcgmSource

from tests.recordings import corpus

TEXT = """# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="n1"} 1410
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="n1"} 98
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="n1"} 319159391
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="n1"} 4845
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="n1"} 9223372036854775794
DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="n1"} 0.875
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="n1"} 0.5
DCGM_FI_PROF_PCIE_TX_BYTES{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="n1"} 33011804
DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-1",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",Hostname="n1"} 0.25
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-2",device="nvidia1",Hostname="n1"} 99
DCGM_FI_PROF_SM_ACTIVE{gpu="1",UUID="GPU-2",device="nvidia1",Hostname="n1"} 0
DCGM_FI_PROF_DRAM_ACTIVE{gpu="1",UUID="GPU-2",device="nvidia1",Hostname="n1"} 0.0
"""


class Exporter:
    """Answers whatever its test sets."""

    def __init__(self) -> None:
        self.status, self.body, self.asked = 200, TEXT.encode(), 0
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                exporter.asked += 1
                self.send_response(exporter.status if self.path == "/metrics" else 404)
                self.send_header("Content-Length", str(len(exporter.body)))
                self.end_headers()
                try:
                    self.wfile.write(exporter.body)
                except OSError:
                    return

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/metrics"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = Exporter()
    yield made
    made.close()


def source(address: str) -> DcgmSource:
    return DcgmSource(SourceSettings(environ={"ROOFLINE_DCGM": address}))


def values(row: Sample) -> dict[str, float]:
    named = zip((m.name for m in METRICS), row.values, strict=True)
    return {name: value for name, value in named if value is not None}


def test_rows_are_of_gpus_and_their_parts_in_base_units(exporter: Exporter) -> None:
    made = source(exporter.address)
    assert made.probe().works
    sampled = made.sample([])
    rows = {row.instance: values(row) for row in sampled}
    assert list(rows) == ["gpu 0", "gpu 0 instance 7", "gpu 1"]
    assert rows["gpu 0"] == {
        "gpu.sm_active": 0.875,
        "gpu.dram_active": 0.5,
        "gpu.pcie_tx_bytes": 33011804,
        "gpu.utilization": pytest.approx(0.98),
        "gpu.energy_joules": pytest.approx(319159.391),
        "gpu.sm_clock_hz": 1410e6,
        "gpu.memory_used_bytes": 4845 * 2**20,
    }, "power is blank and no value"
    assert rows["gpu 0 instance 7"] == {"gpu.sm_active": 0.25}
    assert rows["gpu 1"] == {"gpu.utilization": pytest.approx(0.99)}, "zeros on a busy GPU are no values"
    assert {row.rank for row in sampled} == {None}


def test_only_energy_adds_up() -> None:
    assert [m.name for m in METRICS if m.kind == MetricKind.CUMULATIVE] == ["gpu.energy_joules"]
    assert len({m.name for m in METRICS}) == len(METRICS)


def test_exporter_is_asked_once_a_second_at_most(exporter: Exporter) -> None:
    made = source(exporter.address)
    assert [len(made.sample([])) for _ in range(5)] == [3, 0, 0, 0, 0]
    assert exporter.asked == 1


def test_address_may_leave_out_what_is_usual(exporter: Exporter) -> None:
    assert source(exporter.address.removeprefix("http://").removesuffix("/metrics")).probe().works


def test_nobody_there_is_reported_with_advice_only_where_one_was_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: refuses
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/metrics"
        status = source(address).probe()
    assert not status.works and address in status.reason and "ROOFLINE_DCGM" in status.advice


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("https://127.0.0.1:9400/metrics", "only http"),
        ("http://127.0.0.1:port/metrics", "no address"),
        ("http:///metrics", "only http"),
        ("http://[::1/metrics", "no address"),
    ],
)
def test_address_that_is_none_is_reported(address: str, says: str) -> None:
    status = source(address).probe()
    assert not status.works and says in status.reason


def test_other_server_is_not_taken_for_one(exporter: Exporter) -> None:
    exporter.body = b"# TYPE node_load1 gauge\nnode_load1 0.5\n"
    status = source(exporter.address).probe()
    assert not status.works and "does not speak of DCGM" in status.reason
    exporter.status = 503
    assert "503" in source(exporter.address).probe().reason


def test_exporter_that_goes_away_fails_as_a_source_may(exporter: Exporter) -> None:
    made = source(exporter.address)
    exporter.status = 500
    with pytest.raises(OSError, match="500"):
        made.sample([])


@pytest.mark.parametrize("body", [b"", b"\0\1\2binary\0", b"nonsense\n"], ids=["empty", "binary", "nonsense"])
def test_answer_without_values_gives_no_rows(exporter: Exporter, body: bytes) -> None:
    exporter.body = body
    assert source(exporter.address).sample([]) == []


def test_endless_answer_is_not_read_to_its_end(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dcgm, "MAX_BYTES", 1000)
    exporter.body = TEXT.encode() * 10
    with pytest.raises(OSError, match="longer than"):
        source(exporter.address).sample([])


def test_server_that_does_not_answer_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dcgm, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(OSError):
        source(f"http://127.0.0.1:{silent.getsockname()[1]}/metrics").sample([])


def test_what_is_no_http_is_an_error_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-x\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(OSError, match="no HTTP"):
            source(f"http://127.0.0.1:{server.getsockname()[1]}/metrics").sample([])
        thread.join()


@pytest.mark.corpus
def test_recorded_scrape_of_a_gpu_in_parts(exporter: Exporter) -> None:
    with open(corpus("dcgm/a100_mig.prom"), "rb") as file:
        exporter.body = file.read()
    rows = {row.instance: values(row) for row in source(exporter.address).sample([])}
    assert rows["gpu 0"]["gpu.tensor_active"] == pytest.approx(0.92926)
    assert rows["gpu 0 instance 13"]["gpu.dram_active"] == pytest.approx(0.800339)


def test_source_is_in_the_table() -> None:
    assert SOURCES["dcgm"] is DcgmSource and DcgmSource.measures
