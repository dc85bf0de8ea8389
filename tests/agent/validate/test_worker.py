"""The working process: what it does when it is told, and what it cannot."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from roofline_agent.calibrate.hardware import this_hardware
from roofline_agent.calibrate.kernel_sets import library_for
from roofline_agent.validate.child.done import Cannot
from roofline_agent.validate.errors import ValidationError
from roofline_agent.validate.peer import TcpPeer
from roofline_agent.validate.worker import WorkingChild
from roofline_agent.validate.works import FlopForm


@pytest.fixture
def child(tmp_path: Path) -> Iterator[WorkingChild]:
    with (
        library_for(this_hardware()) as library,
        closing(TcpPeer()) as peer,
        closing(WorkingChild(tmp_path, peer.port, lambda: time.sleep(0.005), library)) as one,
    ):
        yield one


@pytest.mark.slow
def test_each_kernel_says_its_flops_instructions_and_cycles(child: WorkingChild) -> None:
    forms = child.forms()
    assert FlopForm("f32", "scalar", forms[0].fused) in forms
    widest = [form for form in forms if form.precision == "f64"][-1]
    narrow = FlopForm("f64", "scalar", widest.fused)
    for form in dict.fromkeys((narrow, widest)):
        assert child.prepare(form.work), "trying it out counts"
        assert not child.prepare(form.work)
        done = child.do(form.work)
        found = {name: amount.done for name, amount in done.quantities.items()}
        assert found[f"flops.f64.{form.width}"] == found["flops.f64.all"] == found["flops.all.all"] > 1e7
        assert done.end_ns - done.begin_ns > 0.1e9
        lanes = 1 if form.width == "scalar" else int(form.width) // 64
        if form.fused:
            # 48 of 50 instructions of a turn are multiply-adds.
            assert found["flops.f64.all"] / found["instructions"] == pytest.approx(
                2 * lanes * 48 / 50, rel=0.05
            )
        if "cycles" in found:
            assert 0.1 < found["instructions"] / found["cycles"] < 10, "no CPU starts more in a cycle"


@pytest.mark.slow
def test_streams_say_their_bytes(child: WorkingChild) -> None:
    child.prepare("memory.dram.triad")
    triad = child.do("memory.dram.triad").quantities
    assert triad["dram_read_bytes"].done in (
        2 * triad["dram_written_bytes"].done,
        3 * triad["dram_written_bytes"].done,
    )
    assert triad["dram_bytes"].done == triad["dram_read_bytes"].done + triad["dram_written_bytes"].done > 1e8
    try:
        child.prepare("memory.l2.read")
    except Cannot as error:
        assert "does not tell" in str(error)
    else:
        inside = child.do("memory.l2.read").quantities["dram_bytes"]
        assert inside.done == 0 and inside.whole > 1e8
    assert child.do("busy").quantities["busy_s"].done > 0.5


def test_what_cannot_be_done_is_an_answer_and_no_end(child: WorkingChild) -> None:
    with pytest.raises(Cannot, match=r"does not tell this CPU's l9"):
        child.prepare("memory.l9.read")
    with pytest.raises(Cannot, match=r"no NVIDIA driver|failed on the first GPU"):
        child.prepare("gpu.busy")
    assert child.prepare("tcp")
    assert child.do("tcp").quantities["received_bytes"].done == 16 << 20


def test_bytes_that_wait_stay_until_the_next_time(child: WorkingChild) -> None:
    assert child.prepare("unread")
    child.do("unread")
    assert child.prepare("unread"), "it has read them"
    assert not child.prepare("unread")


def test_end_of_the_process_is_an_error_that_says_how(child: WorkingChild) -> None:
    child.prepare("sleep")
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ValidationError, match=r"the working process ended \(SIGKILL\)"):
        child.do("sleep")
