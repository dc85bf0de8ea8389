"""`roofline-agent doctor`: what works on this node, and if not, why and what to do."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..calibrate import store
from ..calibrate.errors import CalibrationError
from ..ceilings import ceilings_path
from ..config import Config, default_socket, default_state
from ..daemon import make_sources
from ..ncu import command, diagnosis
from ..records import Provenance, SourceStatus
from ..sampler import Sampler


class Finding(NamedTuple):
    """One line of the report."""

    what: str
    works: bool
    text: str  # how it works, or why not
    advice: str = ""
    fills: str = ""  # what of a report its values fill, or would fill


def examine(config: Config, environ: Mapping[str, str]) -> list[Finding]:
    """Look at everything the agent needs or can use; changes nothing."""
    sampler = Sampler(make_sources(config, environ))
    findings = [_of_source(status) for status in sampler.statuses]
    sampler.close()
    state = Path(config.state) if config.state else default_state(environ)
    path = Path(config.socket) if config.socket else default_socket(environ)
    return [*findings, _onednn(), _ncu(environ), _ceilings(state), _agent(path), _server(config.server)]


def _of_source(status: SourceStatus) -> Finding:
    return Finding(
        f"source {status.name}", status.works, status.reason or "works", status.advice, status.fills
    )


def _onednn() -> Finding:
    return Finding(
        "kernels onednn",
        True,
        "oneDNN's and MKL's, of ranks started by `roofline-agent run`",
        fills="FLOPs, least bytes, intensity and kernel time per step",
    )


def _ncu(environ: Mapping[str, str]) -> Finding:
    what, fills = (
        "kernels ncu",
        "FLOPs and DRAM bytes of GPU kernels in chosen steps, and so measured intensity",
    )
    path = command.find(environ)
    if path is None:
        return Finding(what, False, "Nsight Compute (ncu) is not on this node", diagnosis.INSTALL, fills)
    if diagnosis.admin_only() and not diagnosis.may_administer():
        return Finding(
            what, False, "the driver keeps its counters for administrators", diagnosis.denied(), fills
        )
    return Finding(what, True, f"{path}, for `roofline-agent run --ncu STEPS`", fills=fills)


def _ceilings(state: Path) -> Finding:
    advice = "run `roofline-agent calibrate` on this node while it is idle"
    try:
        calibration = store.load(ceilings_path(state))
    except CalibrationError as error:
        return Finding("ceilings", False, str(error), advice)
    if calibration is None:
        return Finding("ceilings", False, "this node was never calibrated: no roof to compare with", advice)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(calibration.time_ns / 1e9))
    measured = [c for c in calibration.ceilings if c.provenance != Provenance.ANALYTIC]
    of_gpus = len({c.device for c in measured if c.device})
    also = f", of {of_gpus} GPU{'s' if of_gpus > 1 else ''} too" if of_gpus else ""
    notes = f"{len(calibration.notes)} notes on them in {ceilings_path(state)}" if calibration.notes else ""
    return Finding("ceilings", True, f"{len(measured)} measured {when}{also}", notes)


def _agent(path: Path) -> Finding:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return Finding("agent", False, f"none listens at {path}", "start `roofline-agent`")
    return Finding("agent", True, f"listens at {path}")


def _server(address: str) -> Finding:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2):
            return Finding("server", True, f"{address} answers")
    except OSError as error:
        text = f"{address} does not answer ({error.strerror or error})"
        return Finding("server", False, text, "start `roofline-server`, or give --server HOST:PORT")
