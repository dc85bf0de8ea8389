"""Which modules the ranges in a trace are called after. Torch is a double; real ones: tests/frameworks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks.torch import module as torch_module
from roofline_agent.hooks.torch.layers import Layers


class FakeTorch(SimpleNamespace):
    """Has what layers need: hooks on all modules, and ranges, of which it keeps the names."""

    def __init__(self) -> None:
        self.__name__ = "faketorch"
        self.enters: list[Any] = []
        self.leaves: list[Any] = []
        self.names: list[str] = []
        self.depth = 0
        self.autograd = SimpleNamespace(profiler=SimpleNamespace(record_function=self._range))

    def _range(self, name: str) -> Any:
        self.names.append(name)
        return SimpleNamespace(__enter__=lambda: self._deeper(1), __exit__=lambda *_: self._deeper(-1))

    def _deeper(self, by: int) -> None:
        self.depth += by

    def register_module_forward_pre_hook(self, hook: Any) -> Any:
        self.enters.append(hook)
        return SimpleNamespace(remove=lambda: self.enters.remove(hook))

    def register_module_forward_hook(self, hook: Any, always_call: bool = False) -> Any:
        self.leaves.append(hook)
        return SimpleNamespace(remove=lambda: self.leaves.remove(hook))


class Module:
    def __init__(self, torch: FakeTorch, fails: bool = False, **parts: Module) -> None:
        self._torch, self._fails, self._modules = torch, fails, parts

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, part in self._modules.items():
            yield from part.named_modules(f"{prefix}.{name}" if prefix else name)

    def __call__(self) -> None:
        for hook in list(self._torch.enters):
            hook(self, ())
        if self._fails:
            raise ValueError
        for part in self._modules.values():
            try:
                part()
            except ValueError:
                continue
        for hook in list(self._torch.leaves):
            hook(self, (), None)


class Net(Module):
    pass


class DistributedDataParallel(Module):
    pass


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    made = FakeTorch()
    monkeypatch.setitem(sys.modules, "faketorch.nn.modules.module", made)  # type: ignore[arg-type]
    monkeypatch.setattr(torch_module, "compiles", [False])
    monkeypatch.setattr(torch_module, "at_compile", [])
    return made


def called(torch: FakeTorch, *models: Module) -> list[str]:
    layers = Layers(torch)
    layers.start()
    for model in models:
        model()
    layers.stop()
    assert not torch.enters and not torch.leaves and not torch_module.at_compile
    assert torch.depth == 0, "each range is closed"
    return [name.removeprefix("roofline.layer ") for name in torch.names]


def test_modules_are_called_by_their_path_in_the_model(torch: FakeTorch) -> None:
    block = Module(torch, conv1=Module(torch))
    assert called(torch, Net(torch, layer1=block)) == ["Net", "Net/layer1", "Net/layer1/conv1"]


def test_wrapper_of_a_model_is_no_part_of_a_path(torch: FakeTorch) -> None:
    inner = Net(torch, fc=Module(torch, _checkpoint_wrapped_module=Module(torch)))
    names = called(torch, DistributedDataParallel(torch, module=inner))
    assert names == ["DistributedDataParallel", "Net", "Net/fc", "Net/fc"]


def test_module_that_fails_ends_with_the_one_that_called_it(torch: FakeTorch) -> None:
    model = Net(torch, a=Module(torch, fails=True), b=Module(torch))
    assert called(torch, model) == ["Net", "Net/a", "Net/b"]


def test_module_outside_the_model_has_its_class(torch: FakeTorch) -> None:
    assert called(torch, Net(torch), Module(torch)) == ["Net", "Module"]


def test_compiled_code_is_left_alone(torch: FakeTorch) -> None:
    torch_module.compiles[0] = True
    assert called(torch, Net(torch)) == []


def test_code_that_is_compiled_meanwhile_finds_no_hooks(torch: FakeTorch) -> None:
    layers = Layers(torch)
    layers.start()
    assert torch.enters and torch.leaves
    torch_module._call_at_compile()
    assert not torch.enters and not torch.leaves
    layers.stop()
