"""What a running dcgm-exporter reports of GPUs and MIG parts: activity of pipes and memory, traffic, power.

It is asked over HTTP for its Prometheus text (ROOFLINE_DCGM, default http://127.0.0.1:9400/metrics). A row
holds what it last collected, up to its own interval (often 30 s) ago. A GPU and its MIG parts are the same
hardware: their rows never add up.
"""

from __future__ import annotations

import contextlib
import io
import socket
import time
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from ..recorded.collector import Collector
from ..recorded.dcgm import reader as exposition
from ..recorded.dcgm.fields import field
from ..recorded.errors import RecordedError
from ..recorded.text import Text
from ..records import CounterSet, Metric, MetricKind, Rank, Sample, Scope, SourceSettings, SourceStatus
from .nvml_gpm import without_silent_zeros

DEFAULT = "http://127.0.0.1:9400/metrics"
TIMEOUT_S = 1.0
WHOLE_S = 2.0  # of one answer, however slowly it drips
MAX_BYTES = 8 << 20  # 8 GPUs in seven parts each are 0.2 MB
LEAST_APART_NS = 1_000_000_000  # it collects no more often than that

PROFILING = (
    *("PROF_GR_ENGINE_ACTIVE", "PROF_SM_ACTIVE", "PROF_SM_OCCUPANCY", "PROF_PIPE_TENSOR_ACTIVE"),
    *("PROF_DRAM_ACTIVE", "PROF_PIPE_FP64_ACTIVE", "PROF_PIPE_FP32_ACTIVE", "PROF_PIPE_FP16_ACTIVE"),
)
FIELDS = (
    *PROFILING,
    *("PROF_PCIE_TX_BYTES", "PROF_PCIE_RX_BYTES", "PROF_NVLINK_TX_BYTES", "PROF_NVLINK_RX_BYTES"),
    *("DEV_GPU_UTIL", "DEV_POWER_USAGE", "DEV_TOTAL_ENERGY_CONSUMPTION", "DEV_SM_CLOCK", "DEV_MEM_CLOCK"),
    *("DEV_FB_USED", "DEV_GPU_TEMP"),
)


_known = [field(f"DCGM_FI_{name}") for name in FIELDS]
METRICS = tuple(
    Metric(
        known.metric,
        MetricKind.CUMULATIVE if known.kind == "total" else MetricKind.GAUGE,
        known.unit,
        Scope.GPU,
        is_double=True,
    )
    for known in _known
)
ACTIVITIES = tuple(field(f"DCGM_FI_{name}").metric for name in PROFILING)
UTILIZATION = field("DCGM_FI_DEV_GPU_UTIL").metric


class DcgmSource:
    """Counter set "dcgm"."""

    name = "dcgm"
    fills = "activity of GPU pipes and memory, PCIe and NVLink traffic, also of MIG parts"
    measures = True
    counter_set = CounterSet("dcgm", METRICS)

    def __init__(self, settings: SourceSettings) -> None:
        self._clock = settings.clock
        self._asked_for = settings.environ.get("ROOFLINE_DCGM", "")
        address = self._asked_for or DEFAULT
        self._address = address if "://" in address else f"http://{address}"
        self._fetched_ns: int | None = None

    def probe(self) -> SourceStatus:
        advice = "start dcgm-exporter, or say where it is: ROOFLINE_DCGM=http://HOST:PORT/metrics"
        try:
            text = self._fetch()
        except OSError as error:
            advice = advice if self._asked_for else f"only where you run DCGM: {advice}"
            reason = f"no dcgm-exporter answers at {self._address} ({error})"
            return SourceStatus(self.name, False, reason, advice)
        if not exposition.sniff(text[: 1 << 16].decode(errors="replace")):
            return SourceStatus(self.name, False, f"{self._address} does not speak of DCGM's metrics", advice)
        return SourceStatus(self.name, True)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        """Rows of the node's GPUs, at most once a second. Raises OSError when nobody answers."""
        now = self._clock()
        if self._fetched_ns is not None and now - self._fetched_ns < LEAST_APART_NS:
            return []
        self._fetched_ns = now
        text = self._fetch()
        now = self._clock()
        return [
            Sample(None, now, tuple(values.get(metric.name) for metric in METRICS), instance)
            for instance, values in read_gpus(self._address, text).items()
        ]

    def close(self) -> None:
        """Nothing stays open between two samples."""

    def _fetch(self) -> bytes:
        """The exporter's text. Raises OSError."""
        try:
            where = urlsplit(self._address)
            if where.scheme != "http" or not where.hostname:
                raise OSError("only http:// addresses can be asked")
            connected = socket.create_connection((where.hostname, where.port or 9400), TIMEOUT_S)
        except ValueError as error:
            raise OSError(f"{self._address} is no address: {error}") from None
        # Only where somebody answers: it takes 2 MB, which other nodes are spared.
        import http.client

        connection = http.client.HTTPConnection(where.hostname, where.port or 9400, timeout=TIMEOUT_S)
        connection.sock = connected
        try:
            path = where.path or "/metrics"
            connection.request("GET", f"{path}?{where.query}" if where.query else path)
            response = connection.getresponse()
            if response.status != 200:
                raise OSError(f"it answers {response.status} {response.reason}")
            until = time.monotonic() + WHOLE_S
            body = bytearray()
            while part := response.read1(1 << 16):
                body += part
                if len(body) > MAX_BYTES:
                    raise OSError(f"its answer is longer than {MAX_BYTES >> 20} MiB")
                if time.monotonic() > until:
                    raise OSError(f"its answer takes longer than {WHOLE_S:g} s")
            return bytes(body)
        except (http.client.HTTPException, ValueError) as error:
            raise OSError(f"its answer is no HTTP: {error!r}") from None
        finally:
            connection.close()


def read_gpus(name: str, text: bytes) -> Mapping[str, dict[str, float]]:
    """Values by "gpu 0", "gpu 0 instance 7"; without what DCGM marks as unknown, and zeros that are none."""
    gpus: dict[str, dict[str, float]] = {}
    with contextlib.closing(Collector()) as found:
        with contextlib.suppress(RecordedError):
            exposition.read(Text(name, io.BytesIO(text)), found)
        for counter in found.counters:
            if counter.value is not None and counter.scope.startswith("gpu "):
                gpus.setdefault(counter.scope, {})[counter.metric] = counter.value
    return {
        scope: without_silent_zeros(values, values.get(UTILIZATION), ACTIVITIES)
        for scope, values in gpus.items()
    }
