"""Hooks are loaded with their framework, and leave alone what they do not know."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from roofline_agent.hooks.torch import autograd as torch_autograd
from roofline_agent.hooks.torch import collectives as torch_collectives
from roofline_agent.hooks.torch import data as torch_data
from roofline_agent.hooks.torch import ddp as torch_ddp
from roofline_agent.hooks.torch import fsdp as torch_fsdp
from roofline_agent.hooks.torch import module as torch_module
from roofline_agent.hooks.torch import optimizer as torch_optimizer

from tests.fakes import AGENT, clean_environ

from .doubles import RecordingMarker
from .site import BEGIN, BORDER, COORDINATOR, END, Site, steps


def test_marks_of_the_training_silence_hooks(torch: Site) -> None:
    marks, _ = torch.run("""
        import roofline_step
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        for _ in range(2): one.step()
        roofline_step.mark(50)
        one.step()
        """)
    assert steps(marks) == [(BORDER, 0), (BORDER, 1), (BORDER, 50)]


def test_mark_under_the_wrapper_takes_what_it_takes_without(torch: Site) -> None:
    marks, out = torch.run("""
        import inspect, roofline_step
        roofline_step.mark(step=3, examples=8)
        roofline_step.mark(step=4, kind=roofline_step.END, asynchronous=True, time_ns=5)
        roofline_step.mark(5, None, roofline_step.BEGIN, ("worker", 1), False, 6)
        followed, mark = roofline_step.mark, inspect.unwrap(roofline_step.mark)
        def taken(function):
            return inspect.signature(function, follow_wrapped=False).parameters.values()
        print(followed is mark, [(one.name, one.kind, one.default) for one in taken(followed)]
            == [(one.name, one.kind, one.default) for one in taken(mark)])
        """)
    assert steps(marks) == [(BORDER, 3), (END, 4), (BEGIN, 5)]
    assert [(mark.examples, mark.time_ns) for mark in marks][1:] == [(None, 5), (None, 6)]
    assert out == "False True\n"


def test_no_steps_means_no_hooks(torch: Site) -> None:
    marks, out = torch.run(
        """
        import sys
        from torch.optim.optimizer import Optimizer
        Optimizer().step()
        print("_roofline_hooks" in sys.modules)
        """,
        "--no-steps",
    )
    assert (marks, out) == ([], "False\n")


@pytest.mark.parametrize("installed", [True, False])
def test_framework_that_is_only_looked_for_silences_no_kernels(site: Site, installed: bool) -> None:
    """As transformers does, whatever trains."""
    if installed:
        site.module("torch.version", "")
    _, out = site.run("""
        import importlib.util, os
        found = importlib.util.find_spec("torch")
        print(found is not None, os.environ.get("ONEDNN_VERBOSE"))
        if found:
            import torch.version
            print(os.environ.get("ONEDNN_VERBOSE"))
        """)
    assert out == ("True 1\nNone\n" if installed else "False 1\n")


def test_framework_of_another_shape_is_left_alone(site: Site) -> None:
    site.module("torch.optim.optimizer", "x = 5\n")
    site.module("horovod.torch.optimizer", "x = 6\n")
    site.module(COORDINATOR, "x = 7\n")
    marks, out = site.run(f"""
        import torch.optim.optimizer, horovod.torch.optimizer, {COORDINATOR} as c
        print(torch.optim.optimizer.x, horovod.torch.optimizer.x, c.x)
        """)
    assert (marks, out) == ([], "5 6 7\n")


def test_framework_that_fails_to_import_fails_as_ever(site: Site) -> None:
    site.module("torch.optim.optimizer", "1 / 0\n")
    _, out = site.run("""
        try: import torch.optim.optimizer
        except ZeroDivisionError: print("as ever")
        try: import horovod.torch.optimizer
        except ModuleNotFoundError as error: print(error.name)
        """)
    assert out == "as ever\nhorovod\n"


def test_agents_absence_is_not_noticed(torch: Site) -> None:
    torch.agent.close()
    code = "from torch.optim.optimizer import Optimizer as O; o = O(); o.step(); print('fine')"
    environ = clean_environ(ROOFLINE_SOCKET=str(torch.agent.path), PYTHONPATH=str(torch.root))
    done = subprocess.run(
        [*AGENT, "run", "--", sys.executable, "-c", code],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "fine\n")


def test_mark_in_the_verbose_stream_is_not_the_users(torch: Site) -> None:
    """MKL's lines carry no time; the hooks note theirs in stdout, and the wrapper takes it out again."""
    _, out = torch.run("""
        import os
        from torch.optim.optimizer import Optimizer
        one = Optimizer()
        print("a", flush=True); one.step(); print("b", flush=True)
        os.dup2(2, 1)  # stdout leads elsewhere now: nothing may be noted there
        one.step()
        """)
    assert out == "a\nb\n"


def test_module_of_another_shape_raises_where_that_is_reported(marker: RecordingMarker) -> None:
    hooks = (
        torch_autograd,
        torch_collectives,
        torch_data,
        torch_ddp,
        torch_fsdp,
        torch_module,
        torch_optimizer,
    )
    for hook in hooks:
        with pytest.raises(AttributeError):
            hook.patch(SimpleNamespace(), marker)  # type: ignore[arg-type]
