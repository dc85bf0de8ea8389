"""Horovod under TensorFlow: the gradients that a traced step reduces."""

from __future__ import annotations

import textwrap
from typing import Any

from ..site import Site, run

TENSORFLOW = """
class Shape:
    def __init__(self, elements): self.elements = elements
    def num_elements(self): return self.elements
class Gradient:
    class dtype: size = 4
    def __init__(self, elements): self.shape = Shape(elements)
class Slices(Gradient):
    indices = (1, 2)
def _make_allreduce_grads_fn(name, device):
    return lambda grads, variables=None: "reduced %s %s" % (name, grads)
class Tape:
    def __init__(self): self._allreduce_grads = _make_allreduce_grads_fn("tape", "")
    def gradient(self, *grads): return self._allreduce_grads(list(grads), variables=[])
"""


def gradients(site: Site, code: str) -> tuple[dict[str, str], str]:
    path: Any = site.root / "horovod" / "tensorflow"
    path.mkdir(parents=True)
    (site.root / "horovod" / "__init__.py").touch()
    (path / "__init__.py").write_text(TENSORFLOW)
    said = run(site, f"from horovod.tensorflow import Gradient, Slices, Tape\n{textwrap.dedent(code)}")
    return {name: value for name, value in said.facts.items() if name.startswith("gradient")}, said.out


def test_traced_step_reports_what_it_reduces(site: Site) -> None:
    facts, out = gradients(site, "print(Tape().gradient(Gradient(10), None, Gradient(5))[:12])")
    assert facts == {"gradient.tensors": "2", "gradient.bytes": "60"}
    assert out == "reduced tape\n"


def test_sparse_gradients_and_unknown_shapes_have_no_size(site: Site) -> None:
    facts, _ = gradients(site, "Tape().gradient(Gradient(10), Slices(5)); Tape().gradient(Gradient(None))")
    assert facts == {"gradient.tensors": "1"}


def test_gradients_of_unknown_shape_are_reduced_all_the_same(site: Site) -> None:
    facts, out = gradients(site, "print(Tape().gradient('odd'))")
    assert (facts, out) == ({}, "reduced tape ['odd']\n")
