"""Real TensorFlow and Keras trainings of many kinds, a few short steps each: `python tf_loops.py KIND...`.

Each has a process of its own, forked from one that has loaded TensorFlow, which takes longer than training.

Each prints at its end, as JSON, what its own clock says: the end of every call that trains, the updates and
examples of that call, and what lay between two calls (an evaluation, a checkpoint). Nothing in here knows of
roofline. TensorFlow 2.12 and later, with Keras 2 or 3.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

WIDTH, BATCH, STEPS = 700, 64, 24
INSIDE = 5  # updates of a call that makes several


class Clock:
    """What the training itself measures."""

    def __init__(self) -> None:
        self.begin_ns = time.monotonic_ns()
        self.calls: list[tuple[int, int, int]] = []  # end, updates, examples
        self.between: list[tuple[str, int, int]] = []

    def called(self, updates: int = 1, examples: int | None = None) -> None:
        self.calls.append((time.monotonic_ns(), updates, updates * BATCH if examples is None else examples))

    def during(self, kind: str) -> Any:
        return _During(self, kind)


class _During:
    def __init__(self, clock: Clock, kind: str) -> None:
        self.clock, self.kind = clock, kind

    def __enter__(self) -> None:
        self.begin_ns = time.monotonic_ns()

    def __exit__(self, *_: Any) -> None:
        self.clock.between.append((self.kind, self.begin_ns, time.monotonic_ns()))


def network() -> Any:
    layers = [tf.keras.layers.Dense(WIDTH, activation="relu") for _ in range(3)]
    model = tf.keras.Sequential([*layers, tf.keras.layers.Dense(1)])
    model.build((None, WIDTH))
    return model


def arrays(count: int) -> tuple[Any, Any]:
    made = np.random.default_rng(0)
    return made.random((count, WIDTH), np.float32), made.random((count, 1), np.float32)


def dataset(batches: int) -> Any:
    return tf.data.Dataset.from_tensor_slices(arrays(batches * BATCH)).batch(BATCH, drop_remainder=True)


def compiled(**options: Any) -> Any:
    model = network()
    model.compile(tf.keras.optimizers.SGD(0.001), "mse", **options)
    return model


def accumulation() -> tuple[int, dict[str, int]]:
    """Of so many gradients the optimizer of these options makes an update: in Keras 3 of four."""
    if getattr(tf.keras, "__version__", "2") < "3":
        return 1, {}
    return 4, {"gradient_accumulation_steps": 4}


def updating(model: Any, optimizer: Any) -> Any:
    """One update, as people write it."""

    def update(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return update


def trained() -> Any:
    model, optimizer = network(), tf.keras.optimizers.SGD(0.001)
    return updating(model, optimizer)


def function(clock: Clock) -> None:
    update = tf.function(trained())
    for x, y in dataset(STEPS):
        update(x, y)
        clock.called()


def eager(clock: Clock) -> None:
    update = trained()
    for x, y in dataset(STEPS):
        update(x, y)
        clock.called()


def loop_in_python(clock: Clock) -> None:
    update = trained()

    @tf.function
    def several(batches: Any) -> Any:
        for _ in range(INSIDE):
            loss = update(*next(batches))
        return loss

    batches = iter(dataset(STEPS * INSIDE))
    for _ in range(STEPS):
        several(batches)
        clock.called(INSIDE)


def loop_in_graph(clock: Clock) -> None:
    update = trained()

    @tf.function
    def several(batches: Any, count: Any) -> Any:
        loss = 0.0
        for _ in tf.range(count):
            loss = update(*next(batches))
        return loss

    batches = iter(dataset(STEPS * INSIDE))
    for number in range(STEPS):
        count = 3 if number == STEPS // 2 else INSIDE
        several(batches, tf.constant(count))
        clock.called(count)


def loop_of_one_batch(clock: Clock) -> None:
    """The batch is an argument, and all updates are made with it."""
    update = trained()

    @tf.function
    def several(x: Any, y: Any) -> Any:
        for _ in tf.range(INSIDE):
            update(x, y)

    for x, y in dataset(STEPS):
        several(x, y)
        clock.called(INSIDE)


def strategy_loop(clock: Clock) -> None:
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with strategy.scope():
        update = trained()

    @tf.function
    def several(batches: Any) -> None:
        for _ in tf.range(INSIDE):
            strategy.run(update, args=(*next(batches),))

    batches = iter(strategy.experimental_distribute_dataset(dataset(STEPS * INSIDE)))
    for _ in range(STEPS):
        several(batches)
        clock.called(INSIDE)


def strategy_of_two(clock: Clock) -> None:
    """Each of two replicas gets half of a batch."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        update = trained()

    @tf.function
    def one(batches: Any) -> None:
        strategy.run(update, args=(*next(batches),))

    batches = iter(strategy.experimental_distribute_dataset(dataset(STEPS)))
    for _ in range(STEPS):
        one(batches)
        clock.called(1)


def by_hand(clock: Clock) -> None:
    """No optimizer: variables are updated by the training itself."""
    model = network()

    @tf.function
    def several(batches: Any) -> None:
        for _ in range(INSIDE):
            x, y = next(batches)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
            for variable, slope in zip(
                model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
            ):
                variable.assign_sub(0.001 * slope)

    batches = iter(dataset(STEPS * INSIDE))
    for _ in range(STEPS):
        several(batches)
        clock.called(INSIDE)


def accumulate(clock: Clock) -> None:
    """Four calls with a gradient each; the last of them updates."""
    model, optimizer = network(), tf.keras.optimizers.SGD(0.001)
    sums = [tf.Variable(tf.zeros_like(one), trainable=False) for one in model.trainable_variables]

    @tf.function
    def step(x: Any, y: Any, last: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        for total, slope in zip(sums, tape.gradient(loss, model.trainable_variables), strict=True):
            total.assign_add(slope)
        if last:
            optimizer.apply_gradients(
                zip([one.value() for one in sums], model.trainable_variables, strict=True)
            )
            for total in sums:
                total.assign(tf.zeros_like(total))

    for number, (x, y) in enumerate(dataset(STEPS * 4)):
        step(x, y, tf.constant(number % 4 == 3))
        if number % 4 == 3:
            clock.called(1, 4 * BATCH)


def accumulate_apart(clock: Clock) -> None:
    """Four calls of a function that adds up gradients, and one of another that updates."""
    model, optimizer = network(), tf.keras.optimizers.SGD(0.001)
    sums = [tf.Variable(tf.zeros_like(one), trainable=False) for one in model.trainable_variables]

    @tf.function
    def add(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        for total, slope in zip(sums, tape.gradient(loss, model.trainable_variables), strict=True):
            total.assign_add(slope)

    @tf.function
    def apply() -> None:
        optimizer.apply_gradients(zip([one.value() for one in sums], model.trainable_variables, strict=True))
        for total in sums:
            total.assign(tf.zeros_like(total))

    for number, (x, y) in enumerate(dataset(STEPS * 4)):
        add(x, y)
        if number % 4 == 3:
            apply()
            clock.called(1, 4 * BATCH)


def apply_eagerly(clock: Clock) -> None:
    """A function takes the gradients; the update is in none."""
    model, optimizer = network(), tf.keras.optimizers.SGD(0.001)

    @tf.function
    def slopes(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        return tape.gradient(loss, model.trainable_variables)

    for x, y in dataset(STEPS):
        optimizer.apply_gradients(zip(slopes(x, y), model.trainable_variables, strict=True))
        clock.called()


def gan(clock: Clock) -> None:
    one, two = trained(), trained()

    @tf.function
    def both(x: Any, y: Any) -> None:
        one(x, y)
        two(x, y)

    for x, y in dataset(STEPS):
        both(x, y)
        clock.called()


class _Clocked(tf.keras.callbacks.Callback):
    def __init__(self, clock: Clock, inside: int, sizes: list[int]) -> None:
        super().__init__()
        self.own, self.inside, self.sizes, self.before = clock, inside, sizes, -1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.before = -1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        done = self.sizes[self.before + 1 : batch + 1]
        self.own.called(len(done), sum(done))
        self.before = batch

    def on_test_begin(self, logs: Any = None) -> None:
        self.since = time.monotonic_ns()

    def on_test_end(self, logs: Any = None) -> None:
        self.own.between.append(("evaluation", self.since, time.monotonic_ns()))


def _fit(clock: Clock, model: Any, batches: int, inside: int = 1, **options: Any) -> None:
    """Of arrays, the last batch of which is short."""
    count = batches * BATCH - 7
    sizes = [BATCH] * (batches - 1) + [BATCH - 7]
    watch = _Clocked(clock, inside, sizes)
    model.fit(
        *arrays(count), BATCH, verbose=0, shuffle=False,
        callbacks=[*options.pop("callbacks", []), watch], **options,
    )  # fmt: skip


def fit(clock: Clock) -> None:
    _fit(clock, compiled(), STEPS, epochs=2)


def fit_accumulating(clock: Clock) -> None:
    """With Keras 3 four batches are one update."""
    each, more = accumulation()
    model = network()
    model.compile(tf.keras.optimizers.SGD(0.001, **more), "mse")
    _fit(clock, model, 4 * STEPS, epochs=2)
    clock.calls = [
        (last[0], 1, sum(size for _, _, size in four))
        for at in range(0, len(clock.calls), each)
        if (last := (four := clock.calls[at : at + each])[-1])
    ]


def accumulating(clock: Clock) -> None:
    """As `fit_accumulating`, in functions and eager."""
    each, more = accumulation()
    for wrap in (tf.function, lambda update: update):
        step = wrap(updating(network(), tf.keras.optimizers.SGD(0.001, **more)))
        for number, (x, y) in enumerate(dataset(STEPS * each)):
            step(x, y)
            if number % each == each - 1:
                clock.called(1, each * BATCH)


def fit_several(clock: Clock) -> None:
    """The last call of an epoch makes fewer updates."""
    _fit(clock, compiled(steps_per_execution=INSIDE), 4 * INSIDE + 2, INSIDE, epochs=2)


def fit_with_breaks(clock: Clock) -> None:
    """An evaluation and a checkpoint after each epoch, and one in the midst of it."""
    with tempfile.TemporaryDirectory() as folder:
        saving = tf.keras.callbacks.ModelCheckpoint(
            os.path.join(folder, "at-{epoch}-{batch}.weights.h5"), save_weights_only=True, save_freq=10
        )
        save = saving._save_model

        def timed(*args: Any, **kwargs: Any) -> Any:
            with clock.during("checkpoint"):
                return save(*args, **kwargs)

        saving._save_model = timed
        _fit(clock, compiled(), STEPS, epochs=2, validation_data=arrays(10 * BATCH), callbacks=[saving])


def fit_custom(clock: Clock) -> None:
    class Model(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def call(self, x: Any) -> Any:
            return self.net(x)

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
            slopes = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(slopes, self.trainable_variables, strict=True))
            return {"loss": loss}

    model = Model()
    model.compile(tf.keras.optimizers.SGD(0.001))
    _fit(clock, model, STEPS, epochs=2)


def fit_eagerly(clock: Clock) -> None:
    _fit(clock, compiled(run_eagerly=True), STEPS)


def train_on_batch(clock: Clock) -> None:
    model, (x, y) = compiled(), arrays(STEPS * BATCH)
    for at in range(0, STEPS * BATCH, BATCH):
        model.train_on_batch(x[at : at + BATCH], y[at : at + BATCH])
        clock.called()


def breaks(clock: Clock) -> None:
    """A loop by hand with evaluations, predictions and checkpoints between steps."""
    model, optimizer = compiled(), tf.keras.optimizers.SGD(0.001)
    update = tf.function(updating(model, optimizer))
    x, y = arrays(10 * BATCH)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    with tempfile.TemporaryDirectory() as folder:
        manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
        for number, batch in enumerate(dataset(2 * STEPS)):
            update(*batch)
            clock.called()
            if number % 12 == 3:
                with clock.during("evaluation"):
                    model.evaluate(x, y, BATCH, verbose=0)
            if number % 12 == 6:
                with clock.during("checkpoint"):
                    manager.save()
            if number % 12 == 9:
                with clock.during("checkpoint"):
                    model.save(os.path.join(folder, "whole.keras"))
            if number % 12 == 11:
                with clock.during("evaluation"):
                    model.predict(x, BATCH, verbose=0)


KINDS = {
    f.__name__: f
    for f in (
        *(function, eager, loop_in_python, loop_in_graph, loop_of_one_batch, by_hand),
        *(strategy_loop, strategy_of_two),
        *(
            accumulate,
            accumulate_apart,
            apply_eagerly,
            accumulating,
            fit_accumulating,
            gan,
            fit,
            fit_several,
            fit_with_breaks,
            fit_custom,
            fit_eagerly,
        ),
        *(train_on_batch, breaks),
    )
}


def main() -> None:
    for kind in sys.argv[1:]:
        child = os.fork()
        if child == 0:
            train(kind)
            return
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{kind} failed")


def train(kind: str) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(0)
    clock = Clock()
    KINDS[kind](clock)
    said = {"rank": 0, "pid": os.getpid(), "kind": kind, "begin_ns": clock.begin_ns}
    sys.stdout.write(json.dumps({**said, "calls": clock.calls, "between": clock.between}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
