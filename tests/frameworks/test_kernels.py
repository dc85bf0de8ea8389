"""The example kernels under the wrapper: oneDNN's lines give the FLOPs that the formulas do."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from io import BytesIO
from typing import Any

import pytest
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.recording import Launch
from roofline_agent.recorded.text import Text
from roofline_agent.recorded.verbose_log import read

from ..end_to_end.conftest import REPOSITORY, Site, values, wait_until
from ..fakes import clean_environ
from .torch_runs import finish, wrapping

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]
KERNELS = REPOSITORY / "examples" / "kernels"
CONV2D = ["--batch", 4, "--size", 15, "--channels", 16, "--filters", 32, "--kernel", 5, "--stride", 2]
CONV2D_FLOPS = 2 * 4 * 32 * 16 * 25 * 8 * 8  # of one of its three passes
LSTM = ["--batch", 4, "--length", 5, "--hidden", 32]
LSTM_FLOPS = 2 * 5 * 4 * 4 * 32 * (32 + 32)  # of a layer forward


def command(python: str, kernel: str, *options: Any) -> list[str]:
    return [str(part) for part in [python, KERNELS / kernel, "--device", "cpu", "--threads", 1, *options]]


def launches(python: str, operation: str, kernel: str, *options: Any) -> tuple[list[Launch], dict[str, Any]]:
    """oneDNN's calls of an operation in a run, and what the run said of itself."""
    environ = clean_environ(ONEDNN_VERBOSE="1")
    done = finish(command(python, kernel, *options), environ)
    own = next(json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"'))
    with closing(Collector(keep_launches=True)) as found:
        read(Text("out", BytesIO(done.stdout.encode())), found)
        return [one for one in found.launches or () if one.name.startswith(f"{operation} ")], own


def test_convolution_is_three_passes_of_as_many_flops(torch_python: str) -> None:
    found, own = launches(torch_python, "convolution", "conv2d.py", *CONV2D, "--steps", 2)
    assert Counter(one.variant for one in found) == {
        "forward_training": 2,
        "backward_data": 2,
        "backward_weights": 2,
    }
    assert {one.flops for one in found} == {CONV2D_FLOPS}
    assert {one.precision for one in found} == {"f32"}
    assert own["flops_per_step"] == 3 * CONV2D_FLOPS


def test_lstm_backward_is_twice_its_forward(torch_python: str) -> None:
    """torch runs each layer as one oneDNN primitive a direction of time."""
    found, own = launches(torch_python, "rnn", "lstm.py", *LSTM, "--layers", 2, "--steps", 1)
    assert Counter((one.variant, one.flops) for one in found) == {
        ("forward_training", LSTM_FLOPS): 2,
        ("backward", 2 * LSTM_FLOPS): 2,
    }
    assert own["flops_per_step"] == 2 * 3 * LSTM_FLOPS


@pytest.mark.parametrize(
    ("kernel", "options", "flops"),
    [("conv2d.py", CONV2D, 3 * CONV2D_FLOPS), ("lstm.py", LSTM, 3 * LSTM_FLOPS)],
)
def test_report_has_the_flops_of_the_formula(
    site: Site, torch_python: str, kernel: str, options: list[Any], flops: int
) -> None:
    site.server()
    site.agent()
    steps = 15
    wrapped = [str(part) for part in wrapping("--job", 3, "--role", "worker")]
    finish([*wrapped, *command(torch_python, kernel, *options, "--steps", steps)], site.environ)
    wait_until(lambda: site.worked("worker:0", steps, "3"), what="all steps and kernels arrive")
    assert values(site.report("3"), "worker:0")["flops_per_step"] == flops
