"""JAX trainings, one after another, each saying of itself what it did: names of the kinds as arguments.

Prints a line of JSON per training: kind, rank, pid, the number of steps, the time of each by its own clock
(from the moment one result is there to the next, seconds), examples of each step, FLOPs of a step.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

BATCH, WIDTH, HIDDEN = 128, 256, 1024
PRODUCT = 2 * BATCH * WIDTH * HIDDEN  # FLOPs of one of the matrix products
State = dict[str, Any]


def state() -> State:
    key = jax.random.PRNGKey(0)
    first, second = jax.random.split(key)
    return {
        "w1": jax.random.normal(first, (WIDTH, HIDDEN)) * 0.05,
        "w2": jax.random.normal(second, (HIDDEN, WIDTH)) * 0.05,
    }


def batch(number: int, size: int = BATCH) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(number)
    x = generator.standard_normal((size, WIDTH), np.float32)
    return x, x[:, ::-1].copy()


def loss_of(params: State, x: Any, y: Any) -> Any:
    return jnp.mean((jnp.maximum(x @ params["w1"], 0) @ params["w2"] - y) ** 2)


def update(params: State, x: Any, y: Any) -> tuple[State, Any]:
    loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
    return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, gradients), loss


def watched(steps: int, step: Callable[[int], Any], every: int = 1) -> dict[str, Any]:
    """Run the steps, looking at a result every so often; times of each such stretch."""
    times, last = [], time.perf_counter()
    for k in range(steps):
        result = step(k)
        if (k + 1) % every == 0:
            loss = float(result)
            now = time.perf_counter()
            times.append(now - last)
            last = now
    return {"steps": steps, "times": times, "loss": loss}


def plain(steps: int) -> dict[str, Any]:
    """A loss that is read at every step, an evaluation and an augmentation next to it."""
    train, evaluate = jax.jit(update, donate_argnums=0), jax.jit(loss_of)
    augment = jax.jit(lambda x: x * 1.5)
    params = state()
    apart = []

    def step(k: int) -> Any:
        nonlocal params
        x, y = batch(k)
        params, loss = train(params, augment(x), y)
        return loss

    said = watched(steps // 2, step)
    begin = time.perf_counter()
    for k in range(20):
        float(evaluate(params, *batch(k)))
    apart.append(time.perf_counter() - begin)
    more = watched(steps - steps // 2, step)
    times = said["times"] + more["times"]
    return {**more, "steps": steps, "times": times, "apart": apart, "examples": BATCH, "flops": 5 * PRODUCT}


def ahead(steps: int) -> dict[str, Any]:
    """Nothing is read but the last loss of twenty steps: calls are queued."""
    train = jax.jit(update)
    x, y = batch(0)
    params = state()

    def step(_: int) -> Any:
        nonlocal params
        params, loss = train(params, x, y)
        return loss

    return {**watched(steps, step, every=20), "examples": BATCH, "flops": 5 * PRODUCT}


def scanned(steps: int) -> dict[str, Any]:
    """Four layers by a loop inside the program."""

    def deep_loss(params: Any, x: Any) -> Any:
        def layer(h: Any, w: Any) -> tuple[Any, None]:
            return jnp.maximum(h @ w, 0), None

        return jnp.mean(jax.lax.scan(layer, x, params)[0] ** 2)

    @jax.jit
    def train(params: Any, x: Any) -> tuple[Any, Any]:
        loss, gradients = jax.value_and_grad(deep_loss)(params, x)
        return params - 0.01 * gradients, loss

    params = jnp.stack([jnp.eye(WIDTH)] * 4)
    x = batch(0)[0]

    def step(_: int) -> Any:
        nonlocal params
        params, loss = train(params, x)
        return loss

    # Three products of a layer, without the gradient of the input of the first, which a loop computes too.
    return {**watched(steps, step), "examples": BATCH, "flops": 4 * 3 * 2 * BATCH * WIDTH * WIDTH}


def shapes(steps: int) -> dict[str, Any]:
    """Two sizes of a batch by turns."""
    train = jax.jit(update)
    params = state()

    def step(k: int) -> Any:
        nonlocal params
        params, loss = train(params, *batch(k, BATCH if k % 2 else 2 * BATCH))
        return loss

    return {**watched(steps, step), "flops": 7.5 * PRODUCT}


def sharded(steps: int) -> dict[str, Any]:
    """Data-parallel over all devices by the compiler."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    over = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    train = jax.jit(update)
    params = jax.device_put(state(), everywhere)

    def step(k: int) -> Any:
        nonlocal params
        x, y = batch(k)
        if jax.process_count() == 1:
            x, y = jax.device_put((x, y), over)
        else:
            x, y = (jax.make_array_from_process_local_data(over, one) for one in (x, y))
        params, loss = train(params, x, y)
        return loss

    return {**watched(steps, step), "examples": BATCH, "flops": 5 * PRODUCT}


def mapped(steps: int) -> dict[str, Any]:
    """Data-parallel by pmap."""
    devices = jax.local_device_count()

    @functools.partial(jax.pmap, axis_name="data")
    def train(params: State, x: Any, y: Any) -> tuple[State, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        gradients = jax.lax.pmean(gradients, "data")
        new = jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, gradients)
        return new, jax.lax.pmean(loss, "data")

    params = jax.tree_util.tree_map(lambda one: jnp.stack([one] * devices), state())

    def step(k: int) -> Any:
        nonlocal params
        x, y = (one.reshape(devices, -1, WIDTH) for one in batch(k))
        params, loss = train(params, x, y)
        return loss[0]

    return {**watched(steps, step), "examples": BATCH, "flops": 5 * PRODUCT}


def compiled(steps: int) -> dict[str, Any]:
    """Compiled ahead of time."""
    params = state()
    train = jax.jit(update).lower(params, *batch(0)).compile()

    def step(k: int) -> Any:
        nonlocal params
        params, loss = train(params, *batch(k))
        return loss

    return {**watched(steps, step), "flops": 5 * PRODUCT}


def split(steps: int) -> dict[str, Any]:
    """Gradients and update are two programs; two gradients make an update."""
    gradients_of = jax.jit(jax.value_and_grad(loss_of))
    apply = jax.jit(lambda p, *g: jax.tree_util.tree_map(lambda a, b, c: a - 0.05 * (b + c), p, *g))
    params = state()

    def step(k: int) -> Any:
        nonlocal params
        found = [gradients_of(params, *batch(2 * k + one)) for one in (0, 1)]
        params = apply(params, found[0][1], found[1][1])
        return params["w1"][0, 0]

    return {**watched(steps, step), "flops": 10 * PRODUCT}


def main() -> None:
    if "--distributed" in sys.argv:
        sys.argv.remove("--distributed")
        address, rank, size = os.environ["WHERE"], int(os.environ["WHO"]), int(os.environ["MANY"])
        jax.distributed.initialize(address, size, rank)
    steps = int(sys.argv[1])
    for kind in sys.argv[2:]:
        said = globals()[kind](steps)
        whole = {"rank": jax.process_index(), "pid": os.getpid(), "kind": kind, **said}
        print(json.dumps(whole), flush=True)


if __name__ == "__main__":
    main()
