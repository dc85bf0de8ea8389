"""A parameter server's point: the updates of its variables, as many as its workers made steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from roofline.answers.report import Report
from roofline.v1 import ingest_pb2 as pb
from roofline_server.records import NodeKey
from roofline_server.report.evidence.updates import Update, parsed
from roofline_server.report.job.build import build
from roofline_server.report.questions import ALL_STEPS
from roofline_server.sentences import origins, reasons
from roofline_server.store.store import Store

from ...builders import DRAM, PEAK_F32, STEP_NS, Node, machine, open_store, rank, training

FLOPS, BYTES = 4_000_000, 20_000_000
REPORTED = f"update.ps:0={FLOPS}/{BYTES}/f32 SGD with momentum"
SERVED = [rank(index=0), rank(index=1, pid=101), rank(role="ps", pid=102)]
FIRST = 100_000_000_000


class Roofed(Node):
    def number(self, store: Store) -> int:
        return store.hello(NodeKey(self.agent, "boot"), machine(self.host, (PEAK_F32, DRAM)))


def report(root: Path, asynchronous: bool, said: str = REPORTED, epoch: int = 0) -> Report:
    """Of two workers that step at once, and of a server that serves both. epoch: so many steps, which are
    numbered from 0 in each."""
    store, node = open_store(root), Roofed("a")
    node.greet(store)
    made = training(SERVED, stepping=(0, 1))
    for one in made:
        one.marks.flags = np.full(len(one.marks.flags) // 8, int(asynchronous), "<i8").tobytes()
        if epoch:
            one.marks.step = (np.frombuffer(one.marks.step, "<i8") % epoch).tobytes()
    fact = pb.Event(kind=pb.EVENT_KIND_FACT, rank=0, begin_ns=FIRST, end_ns=FIRST, text=said)
    made[0].events.append(fact)
    node.put(store, *made)
    view = store.view("job")
    assert view
    return build(view, ALL_STEPS)


def values_of(found: Report, role: str) -> dict[str, float | None]:
    (mine,) = [one for one in found.roles if one.role == role]
    return {name: one.value for name, one in mine.summary.values.items()}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_server_makes_an_update_for_each_step_of_a_worker(tmp_path: Path, asynchronous: bool) -> None:
    """Both workers step at once: of a round two updates, of a window of a worker one; as many a second."""
    values = values_of(report(tmp_path, asynchronous), "ps")
    each = 1 if asynchronous else 2
    assert values["flops_per_step"] == each * FLOPS
    assert values["bytes_per_step.minimum"] == each * BYTES
    assert values["intensity.minimum"] == pytest.approx(0.2)
    # A step takes nine tenths of the time to the next.
    assert values["flops_per_second"] == pytest.approx(2 * FLOPS / (0.9 * STEP_NS / 1e9), rel=1e-3)
    # Who serves takes no part of the workers' roof; it is compared with one as large as theirs.
    assert values["attainable_flops_per_second"] == pytest.approx(0.2 * DRAM.value / 2)


def test_a_round_of_each_epoch_has_its_own_updates(tmp_path: Path) -> None:
    values = values_of(report(tmp_path, asynchronous=False, epoch=10), "ps")
    assert values["flops_per_step"] == 2 * FLOPS


def test_nothing_says_how_long_an_update_took(tmp_path: Path) -> None:
    found = report(tmp_path, asynchronous=False)
    (server,) = [one for one in found.roles if one.role == "ps"]
    kernels = server.summary.values["kernel_time_per_step"]
    assert kernels.value is None and kernels.reason == origins.NOT_TIMED
    assert "SGD with momentum" in server.summary.values["flops_per_step"].reason
    assert server.summary.values["flops_per_step"].provenance == "analytic"


@pytest.mark.parametrize("said", ["payload.ps:0.total=16/64", "payload.ps:0.total=\N{SUPERSCRIPT TWO}/64"])
def test_without_a_known_rule_a_server_has_no_point(tmp_path: Path, said: str) -> None:
    found = report(tmp_path, asynchronous=True, said=said)
    values = values_of(found, "ps")
    assert values["flops_per_step"] is None and values["flops_per_second"] is None
    (server,) = [one for one in found.roles if one.role == "ps"]
    assert reasons.NO_UPDATE_RULE in server.summary.values["flops_per_step"].reason


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4/20/f32 SGD with momentum", Update(4, 20, "f32", "SGD with momentum")),
        ("", None),
        ("4/20 SGD", None),
        ("4/20/f32", None),
        ("-4/20/f32 SGD", None),
        ("4/x/f32 SGD", None),
        ("9" * 60 + "/20/f32 SGD", None),
    ],
)
def test_what_is_no_update_is_passed_over(text: str, found: Update | None) -> None:
    assert parsed(text) == found
