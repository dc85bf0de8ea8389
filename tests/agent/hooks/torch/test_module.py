"""Hooks on modules give way to what compiles them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks.torch import module as torch_module

from ..doubles import RecordingMarker, grad_is


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that other tests hooked is called."""
    monkeypatch.setattr(torch_module, "at_compile", [])
    monkeypatch.setattr(torch_module, "_waiting", [])


@pytest.fixture
def modules(marker: RecordingMarker) -> Any:
    """torch.nn.modules.module with its hooks on every call."""
    hooks: list[Any] = []

    class Module:
        def train(self, mode: bool = True) -> Module:
            return self

    def register(hook: Any) -> Any:
        hooks.append(hook)
        return SimpleNamespace(remove=lambda: hooks.remove(hook))

    found: Any = SimpleNamespace(
        Module=Module, train=Module.train, hooks=hooks, torch=grad_is(True),
        register_module_forward_pre_hook=register,
    )  # fmt: skip
    torch_module.patch(found, marker)  # type: ignore[arg-type]
    assert hooks and Module.train is not found.train
    return found


@pytest.fixture
def compiler(marker: RecordingMarker) -> Any:
    """torch._dynamo.eval_frame."""

    class _TorchDynamoContext:
        def __call__(self, function: Any) -> Any:
            return function

    found: Any = SimpleNamespace(_TorchDynamoContext=_TorchDynamoContext)
    torch_module.patch(found, marker)  # type: ignore[arg-type]
    return found


def test_what_is_compiled_may_change_modes(modules: Any, compiler: Any) -> None:
    assert compiler._TorchDynamoContext()("function") == "function"
    assert modules.Module.train is modules.train, "the compiler refuses functions of ours"
    assert modules.hooks == []


def test_what_is_exported_has_no_hook(modules: Any, marker: RecordingMarker) -> None:
    called = []

    def fullgraph_capture(*args: Any, **kwargs: Any) -> str:
        called.append((args, kwargs, [*modules.hooks]))
        return "captured"

    class CatchErrorsWrapper:
        def __call__(self) -> None: ...

    older: Any = SimpleNamespace(CatchErrorsWrapper=CatchErrorsWrapper)
    torch_module.patch(older, marker)  # type: ignore[arg-type]
    assert modules.hooks and not hasattr(older, "fullgraph_capture")
    found: Any = SimpleNamespace(CatchErrorsWrapper=CatchErrorsWrapper, fullgraph_capture=fullgraph_capture)
    torch_module.patch(found, marker)  # type: ignore[arg-type]
    assert found.fullgraph_capture("model", (1,), constraints=None) == "captured"
    assert called == [(("model", (1,)), {"constraints": None}, [])]
    assert modules.Module.train is modules.train


def test_train_that_somebody_has_wrapped_stays(modules: Any, compiler: Any) -> None:
    modules.Module.train = wrapped = lambda self, mode=True: self
    compiler._TorchDynamoContext()("function")
    assert modules.Module.train is wrapped


def test_all_give_way_though_one_is_there_no_more_afterwards() -> None:
    called = []

    def once() -> None:
        called.append("once")
        torch_module.at_compile.remove(once)

    torch_module.at_compile += [once, lambda: called.append("always")]
    torch_module._call_at_compile()
    assert called == ["once", "always"]
