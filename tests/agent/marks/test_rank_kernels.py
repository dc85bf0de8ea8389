"""A rank that sends its kernels itself and reports which rank it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from roofline_agent.records import Call, EventKind
from roofline_step._sender import Sender
from roofline_step.packets import STARTED_WITH, VARIABLES, pack_fact

from tests.fakes import add_process, ended

from .receiving import IDENTITY, SHAPE, Site, calls_packet, kernel, mark, wrapped


def test_rank_sends_its_kernels_itself(site: Site) -> None:
    sender = Sender([str(site.listener.path)])
    assert not sender.off()
    number = sender.describe_kernel(tuple(SHAPE))
    assert number == 0 == sender.describe_kernel(tuple(SHAPE))
    sender.send_calls([(0, 5, 10), (0, 20, 7)], 0, 100)
    _, calls, events = site.take()
    rank = site.discovery.ranks[os.getpid()]
    assert calls == [Call(rank, SHAPE, 5, 10), Call(rank, SHAPE, 20, 7)]
    assert [(e.kind, e.begin_ns, e.end_ns) for e in events] == [(EventKind.KERNELS_COVERED, 0, 100)]
    sender.close()


def test_kernels_are_described_to_an_agent_that_comes_later(site: Site) -> None:
    sender = Sender([str(site.listener.path)])
    sender._kernels[tuple(SHAPE)] = 0
    sender.send_calls([(0, 5, 10)], 0, 100)
    assert [call.shape for call in site.take()[1]] == [SHAPE]
    sender.close()


def test_lines_of_a_library_are_no_kernels_beside_those_the_rank_sends(site: Site) -> None:
    own, wrapper = site.connect(), wrapped(site)
    own.send(kernel())
    own.send(calls_packet((0, 5, 10)))
    wrapper.send(kernel())
    wrapper.send(calls_packet((0, 6, 3), begin=0, through=900))
    _, calls, events = site.take()
    assert [call.start_ns for call in calls] == [5]
    assert [(e.begin_ns, e.end_ns) for e in events] == [(0, 100)]


def test_what_a_profiler_recorded_stands_beside_kernels_that_the_rank_sends(site: Site) -> None:
    own, wrapper = site.connect(), wrapped(site)
    own.send(kernel())
    own.send(calls_packet((0, 5, 10)))
    wrapper.send(kernel(0, SHAPE._replace(library="jax")))
    wrapper.send(calls_packet((0, 206, 3), begin=200, through=300))
    _, calls, events = site.take()
    assert [(call.start_ns, call.shape.library) for call in calls] == [(5, SHAPE.library), (206, "jax")]
    assert [(e.begin_ns, e.end_ns) for e in events] == [(0, 100), (200, 300)]


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(calls_packet((3, 5, 10)), id="not-described"),
        pytest.param(calls_packet((0, 5, -10)), id="backwards"),
        pytest.param(calls_packet((0, 5, 10))[:-1], id="cut"),
        pytest.param(calls_packet((0, 5, 10), through=2**62), id="never"),
    ],
)
def test_hostile_calls_of_a_rank_are_refused(site: Site, packet: bytes) -> None:
    link = site.connect()
    link.send(kernel())
    link.send(packet)
    _, calls, events = site.take()
    assert (calls, [e.kind for e in events]) == ([], [EventKind.REFUSED])


def variables(**values: object) -> bytes:
    return pack_fact(VARIABLES, json.dumps(values))


def test_process_reports_which_rank_it_is(site: Site) -> None:
    add_process(site.proc, os.getpid(), {"ROOFLINE_WRAPPED": "1", "ROOFLINE_JOB": "j"})
    link = site.connect()
    link.send(pack_fact("hook.a", "installed"))
    link.send(variables(RANK="1", WORLD_SIZE="2", MASTER_ADDR="a", MASTER_PORT="1"))
    link.send(mark())
    ((one,), _, events) = site.take()
    assert (one.rank.job, one.rank.key, one.rank.world) == ("j", "ddp:1", 2)
    facts = [(e.rank.key, e.text) for e in events if e.kind is EventKind.FACT and e.rank is not None]
    assert ("ddp:1", "hook.a=installed") in facts, "what was said before is said of the rank it is"
    assert not [text for _, text in facts if text.startswith(VARIABLES)], "an address does not leave the node"


def test_wrapper_is_told_what_its_rank_says_it_is(site: Site) -> None:
    started = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "ROOFLINE_JOB": "j"}
    add_process(site.proc, os.getpid(), started)
    wrapper, link = wrapped(site), site.connect()
    wrapper.send(pack_fact("cost.kernels", "none"))
    events = site.take()[2]
    link.send(variables(RANK="1", WORLD_SIZE="2", MASTER_ADDR="a", MASTER_PORT="1"))
    events += site.take()[2]
    wrapper.send(pack_fact("exit", f"3 {site.now_ns}"))
    events += site.take()[2]
    facts = [(event.rank.key, event.text) for event in events if event.rank is not None]
    assert ("horovod:1", "cost.kernels=none") in facts and ("ddp:1", "cost.kernels=none") in facts
    (exited,) = [event for event in events if event.kind is EventKind.RANK_EXITED]
    assert exited.rank is not None and (exited.rank.key, exited.status) == ("ddp:1", 3)


SENDS = """
import socket, sys
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect(sys.argv[1])
for packet in sys.argv[2:]:
    link.send(bytes.fromhex(packet))
print("sent", flush=True)
sys.stdin.read()
"""


def test_process_that_a_rank_has_started_reports_which_rank_it_is_for_itself_alone(site: Site) -> None:
    """As the workers of Ray do, which have their driver's environment."""
    reports = variables(RANK="1", WORLD_SIZE="2", MASTER_ADDR="a", MASTER_PORT="1"), mark(step=5)
    command = [sys.executable, "-c", SENDS, str(site.listener.path), *(packet.hex() for packet in reports)]
    with ended(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as child:
        add_process(site.proc, child.pid, IDENTITY, parent=os.getpid(), start_ticks=101)
        driver = site.connect()
        driver.send(mark(step=3))
        ((of_driver,), _, _) = site.take()
        child.stdout.readline()
        ((of_child,), _, _) = site.take()
        driver.send(mark(step=4))
        ((again,), _, _) = site.take()
    assert (of_child.rank.pid, of_child.rank.key) == (child.pid, "ddp:1")
    assert again.rank == of_driver.rank


@pytest.mark.parametrize(
    "packet",
    [
        variables(PATH="/bin"),
        variables(RANK=1),
        variables(RANK="\n"),
        pack_fact(VARIABLES, "[]"),
        pack_fact(VARIABLES, "{"),
    ],
    ids=repr,
)
def test_other_variables_are_refused(site: Site, packet: bytes) -> None:
    site.connect().send(packet)
    assert [e.kind for e in site.take()[2]] == [EventKind.REFUSED]


def test_process_with_a_title_says_with_which_variables_it_was_started(site: Site) -> None:
    add_process(site.proc, os.getpid(), b"\0" * 90, ("train resnet50",))
    link = site.connect()
    link.send(pack_fact("hook.torch", "installed"))
    link.send(pack_fact(STARTED_WITH, json.dumps({**IDENTITY, "ROOFLINE_RANK": "4"})))
    link.send(mark(step=3))
    marks, _, events = site.take()
    assert [(one.rank.job, one.rank.key) for one in marks] == [("j", "chief:4")]
    assert [event.text for event in events if event.kind == EventKind.FACT] == ["hook.torch=installed"]


@pytest.mark.parametrize("text", ["{", "[]", '{"PATH": "/bin"}', '{"RANK": 1}', '{"RANK": "\\u0000"}'])
def test_variables_that_name_no_rank_are_refused(site: Site, text: str) -> None:
    site.connect().send(pack_fact(STARTED_WITH, text))
    assert [event.kind for event in site.take()[2]] == [EventKind.REFUSED]


def test_wrapper_cannot_say_which_rank_another_process_is(site: Site) -> None:
    wrapped(site).send(variables(RANK="1", WORLD_SIZE="2", MASTER_ADDR="a", MASTER_PORT="1"))
    assert [e.kind for e in site.take()[2]] == [EventKind.REFUSED]
    assert [rank.key for rank in site.discovery.ranks.values()] == ["chief:0"]
