"""What programs do with functions that jax.jit returns; fails where one is not as it was."""

from __future__ import annotations

import copy
import functools
import inspect
import weakref
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np


@jax.jit
def scaled(x: Any, by: float = 2.0) -> Any:
    """Its text."""
    return x * by


class Model:
    factor = 5

    @functools.partial(jax.jit, static_argnums=0)
    def apply(self, x: Any) -> Any:
        return x * self.factor


@functools.partial(jax.jit, static_argnames=("n",), donate_argnums=0)
def donated(x: Any, n: int) -> Any:
    return x * n


def describes_itself() -> None:
    assert (scaled.__name__, scaled.__doc__) == ("scaled", "Its text.")
    assert list(inspect.signature(scaled).parameters) == ["x", "by"]
    assert isinstance(scaled, jax.stages.Wrapped)
    assert weakref.ref(scaled)() is scaled
    assert {scaled: 1}[scaled] == 1
    assert float(copy.deepcopy(scaled)(3.0)) == 6


def transforms() -> None:
    assert (float(scaled(3.0)), float(scaled(x=3.0, by=4.0))) == (6, 12)
    assert float(jax.grad(scaled)(3.0)) == float(jax.jit(jax.grad(scaled))(3.0)) == 2
    assert np.allclose(jax.vmap(scaled)(jnp.arange(3.0)), [0, 2, 4])
    assert float(jax.jit(lambda x: scaled(x) + scaled(x, 1.0))(1.0)) == 3
    assert float(jax.jit(scaled)(2.0)) == 4
    assert float(jax.checkpoint(scaled)(2.0)) == 4
    assert float(jax.lax.scan(lambda c, x: (scaled(c), x), 1.0, jnp.ones(3))[0]) == 8
    assert jax.make_jaxpr(scaled)(1.0).eqns


def compiles() -> None:
    assert float(scaled.lower(1.0).compile()(1.0)) == 2
    assert scaled.eval_shape(jnp.ones(3)).shape == (3,)
    exported = jax.export.export(scaled)(jax.ShapeDtypeStruct((3,), jnp.float32))
    assert np.allclose(exported.call(jnp.ones(3)), 2)
    scaled.clear_cache()
    assert float(scaled(3.0)) == 6


def takes_arguments() -> None:
    model = Model()
    assert float(model.apply(2.0)) == float(Model.apply(model, 2.0)) == 10
    x = jnp.ones(4)
    y = donated(x, n=3)
    assert x.is_deleted()
    assert float(donated(y, n=2)[0]) == 6
    assert float(jax.jit(static_argnums=1)(lambda x, n: x * n)(2.0, 3)) == 6
    try:
        scaled(object())
    except TypeError:
        return
    raise AssertionError("an object is no array")


if __name__ == "__main__":
    for check in (describes_itself, transforms, compiles, takes_arguments):
        check()
    print(type(scaled).__name__)
