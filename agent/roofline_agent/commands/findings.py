"""What works on this node: each source and part of the agent, and if not, why and what to do."""

from __future__ import annotations

import os
import pwd
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from roofline.joining import Access

from ..calibrate import store
from ..calibrate.errors import CalibrationError
from ..calibrate.origin import is_of_other_cpu
from ..ceilings import ceilings_path
from ..config import Config, known_servers
from ..machine import Machine, read_machine
from ..ncu import command, diagnosis
from ..records import Provenance, SourceSettings, SourceStatus
from ..sampler import Sampler
from ..sources import make_sources
from ..uplink.admission import refusal
from ..validate import kept
from ..validate.caveats import caveats_of, is_of
from ..validate.errors import ValidationError
from ..validate.text import summary
from ..validate.validation import Validation

VALIDATE = "run `roofline-agent validate` on this node while it is idle"


class Finding(NamedTuple):
    """One line of the report."""

    what: str
    works: bool
    text: str  # how it works, or why not
    advice: str = ""
    fills: str = ""  # what of a report its values fill, or would fill


def examine(config: Config, environ: Mapping[str, str]) -> list[Finding]:
    """Look at everything the agent needs or can use; changes nothing."""
    settings = SourceSettings(interval_ns=config.interval_ns, environ=environ)
    state = config.state_directory(environ)
    machine = read_machine()
    validated, validation = examine_validation(state, machine)
    caveats = caveats_of(validation, machine)
    sampler = Sampler(make_sources(config.sources, settings), caveats=caveats)
    findings = [examine_source(one) for one in sampler.statuses]
    sampler.close()
    onednn = Finding(
        "kernels onednn",
        True,
        "oneDNN's and MKL's, of ranks started by `roofline-agent run`",
        fills="FLOPs, least bytes, intensity and kernel time per step",
    )
    return [
        *findings,
        onednn,
        examine_ncu(environ),
        examine_ceilings(state, machine),
        validated,
        examine_agent(config.socket_path(environ)),
        examine_server(config.server, known_servers(state).known.get(config.server)),
    ]


def examine_source(status: SourceStatus) -> Finding:
    """One that `validate` found off works all the same: its values are marked as estimated."""
    text, advice = status.reason or "works", status.advice
    if status.works and status.caveat:
        text = f"{'; '.join(filter(None, (status.reason, 'its values are doubtful')))}: {status.caveat}"
        advice = "; ".join(filter(None, (advice, "its values are marked as estimated; " + VALIDATE)))
    return Finding(f"source {status.name}", status.works, text, advice, status.fills)


def examine_validation(state: Path, machine: Machine) -> tuple[Finding, Validation | None]:
    """Whether the sources of this node were held against the truth, and the result if it is of this node."""
    try:
        validation = kept.load(state)
    except ValidationError as error:
        return Finding("validation", False, str(error), VALIDATE), None
    if validation is None:
        text = "the sources of this node were never validated"
        return Finding("validation", False, text, VALIDATE), None
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(validation.time_ns / 1e9))
    if not is_of(validation, machine):
        text = f"that of {when} is of another machine ({validation.host}, {validation.cpu_model})"
        return Finding("validation", False, text, VALIDATE), None
    text = f"{when}: {summary(validation)}"
    is_old = validation.kernel != machine.kernel
    advice = (
        f"it was made with Linux {validation.kernel}, now it is {machine.kernel}: {VALIDATE}"
        if is_old
        else ""
    )
    return Finding("validation", True, text, advice), validation


def examine_ncu(environ: Mapping[str, str]) -> Finding:
    what = "kernels ncu"
    fills = "FLOPs and DRAM bytes of GPU kernels in chosen steps, and so measured intensity"
    path = command.find(environ)
    if path is None:
        return Finding(what, False, "Nsight Compute (ncu) is not on this node", diagnosis.INSTALL, fills)
    if diagnosis.admin_only() and not diagnosis.may_administer():
        reason = "the driver keeps its counters for administrators"
        return Finding(what, False, reason, diagnosis.denied(), fills)
    return Finding(what, True, f"{path}, for `roofline-agent run --ncu STEPS`", fills=fills)


def examine_ceilings(state: Path, machine: Machine) -> Finding:
    advice = "run `roofline-agent calibrate` on this node while it is idle"
    path = ceilings_path(state)
    try:
        calibration = store.load(path)
    except CalibrationError as error:
        return Finding("ceilings", False, str(error), advice)
    if calibration is None:
        return Finding("ceilings", False, "this node was never calibrated: no roof to compare with", advice)
    if why := is_of_other_cpu(calibration, machine):
        return Finding("ceilings", False, f"those in {path} are not used: {why}", advice)
    measured = [c for c in calibration.ceilings if c.provenance != Provenance.ANALYTIC]
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(calibration.time_ns / 1e9))
    text = f"{len(measured)} measured {when}"
    gpus = {ceiling.device for ceiling in measured if ceiling.device}
    if gpus:
        text += f", of {len(gpus)} GPU{'s' if len(gpus) > 1 else ''} too"
    notes = f"{len(calibration.notes)} notes on them in {path}" if calibration.notes else ""
    if calibration.host != machine.host:
        text += f" on {calibration.host}, which has the same CPU model"
        notes = "; ".join(filter(None, (notes, advice)))
    return Finding("ceilings", True, text, notes)


def examine_agent(path: Path) -> Finding:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return Finding("agent", False, f"none listens at {path}", "start `roofline-agent`")
    owner = path.stat().st_uid
    if owner == os.geteuid():
        return Finding("agent", True, f"listens at {path}")
    # Its ceilings and its server are in a state directory of its own.
    advice = "run `doctor` as that user and with the agent's --state for its own ceilings and server"
    return Finding("agent", True, f"listens at {path}, as {_name_of(owner)}", advice)


def _name_of(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def examine_server(address: str, access: Access | None) -> Finding:
    """access: what this node was given when it joined; None: it has not."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
    except OSError as error:
        text = f"{address} does not answer ({error.strerror or error})"
        return Finding("server", False, text, "start `roofline-server`, or give --server HOST:PORT")
    if refused := refusal(address, access):
        return Finding("server", False, f"{address} {refused.why}", refused.advice)
    how = ", with TLS, and accepts this node" if access else ""
    return Finding("server", True, f"{address} answers{how}")
