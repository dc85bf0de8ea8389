"""A small network in JAX: `python traced_jax.py STEPS EVERY [BEGIN END]`.

The loss is read at every EVERY-th step. It has the steps from BEGIN to END recorded by JAX's profiler itself,
and prints how many traces there are of them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp

BATCH, WIDTH, HIDDEN = 128, 256, 1024


def loss_of(params, x, y):
    return jnp.mean((jnp.maximum(x @ params["w1"], 0) @ params["w2"] - y) ** 2)


@jax.jit
def train(params, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
    return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, gradients), loss


steps, every, begin, end = (*map(int, sys.argv[1:]), -1, -1)[:4]
first, second = jax.random.split(jax.random.PRNGKey(0))
params = {
    "w1": jax.random.normal(first, (WIDTH, HIDDEN)) * 0.05,
    "w2": jax.random.normal(second, (HIDDEN, WIDTH)) * 0.05,
}
x = jax.random.normal(first, (BATCH, WIDTH))
with tempfile.TemporaryDirectory() as folder:
    for number in range(steps):
        if number == begin:
            jax.profiler.start_trace(folder)
        params, loss = train(params, x, x)
        if number % every == every - 1:
            assert float(loss) > 0
        if number == end:
            jax.profiler.stop_trace()
            print("traces", len(list(Path(folder).rglob("*.xplane.pb"))))
