"""One rank of a data-parallel training with `MultiWorkerMirroredStrategy`, or a plain Keras training.

With `TF_CONFIG` every worker computes on its own part of each batch and all add up their gradients before the
update; without it one process trains alone. Each worker prints what it did: `steps: N images: M`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
from network import CHANNELS, CLASSES, CONVOLUTIONS, DENSE, IMAGE_SIZE, KERNEL

EXAMPLES = 512


class Options(NamedTuple):
    """What the command line asks for; `steps` is per epoch, `batch` per worker."""

    loop: str
    epochs: int
    steps: int
    batch: int
    threads: int
    validate: bool
    slow_worker: int
    slow_seconds: float
    slow_input: float


def main() -> None:
    options = parse_options()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    # Collectives wait inside operations: with one thread for operations two could block each other.
    tf.config.threading.set_inter_op_parallelism_threads(2)
    alone = "TF_CONFIG" not in os.environ
    strategy = tf.distribute.get_strategy() if alone else tf.distribute.MultiWorkerMirroredStrategy()
    loops = {"fit": train_by_fit, "iterator": train_by_iterator, "batches": train_by_batches}
    begin = time.perf_counter()
    loss = loops[options.loop](strategy, options)
    seconds = time.perf_counter() - begin
    steps = options.epochs * options.steps
    print(
        f"steps: {steps} images: {steps * options.batch} loss: {loss:.4f} seconds: {seconds:.3f}", flush=True
    )


def parse_options() -> Options:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--loop",
        choices=("fit", "iterator", "batches"),
        default="fit",
        help="Keras fit (default), or a loop of its own: over an iterator inside the step, or over batches",
    )
    parser.add_argument("--epochs", type=int, default=2, help="epochs (default 2)")
    parser.add_argument("--steps", type=int, default=20, help="steps per epoch (default 20)")
    parser.add_argument("--batch", type=int, default=32, help="images per step and worker (default 32)")
    parser.add_argument("--threads", type=int, default=1, help="intra-op threads of each rank (default 1)")
    parser.add_argument("--validate", action="store_true", help="evaluate after each epoch")
    slow = parser.add_argument_group("one worker that is slower than the others")
    slow.add_argument("--slow-worker", type=int, default=0, metavar="I", help="which one (default 0)")
    slow.add_argument("--slow-seconds", type=float, default=0, metavar="S", help="sleep after each step")
    slow.add_argument("--slow-input", type=float, default=0, metavar="S", help="wait longer for each batch")
    arguments = parser.parse_args()
    for name in ("epochs", "steps", "batch", "threads"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if not 0 <= arguments.slow_seconds < math.inf or not 0 <= arguments.slow_input < math.inf:
        parser.error("--slow-seconds and --slow-input must be 0 or more")
    return Options(**vars(arguments))


def train_by_fit(strategy: tf.distribute.Strategy, options: Options) -> float:
    with strategy.scope():
        model = build_model()
        model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    pause = tf.keras.callbacks.LambdaCallback(on_train_batch_end=lambda *_: rest(options))
    history = model.fit(
        distributed(strategy, options),
        epochs=options.epochs,
        steps_per_epoch=options.steps,
        validation_data=distributed(strategy, options) if options.validate else None,
        validation_steps=3 if options.validate else None,
        callbacks=[pause] if slow_here(options) else [],
        verbose=0,
    )
    return float(history.history["loss"][-1])


def train_by_iterator(strategy: tf.distribute.Strategy, options: Options) -> float:
    """A step takes its batch itself, inside the function."""
    train, evaluate = steps(strategy, options)

    @tf.function
    def step(iterator: tf.data.Iterator) -> tf.Tensor:
        return train(next(iterator))

    iterator = iter(distributed(strategy, options))
    for _ in range(options.epochs):
        for _ in range(options.steps):
            loss = step(iterator)
            rest(options)
        if options.validate:
            evaluate(next(iterator))
    return float(loss)


def train_by_batches(strategy: tf.distribute.Strategy, options: Options) -> float:
    """Batches are taken in Python and handed to the step."""
    train, evaluate = steps(strategy, options)
    dataset = distributed(strategy, options, options.steps)
    for _ in range(options.epochs):
        for batch in dataset:
            loss = train(batch)
            rest(options)
        if options.validate:
            for batch in distributed(strategy, options, 3):
                evaluate(batch)
    return float(loss)


def steps(
    strategy: tf.distribute.Strategy, options: Options
) -> tuple[tf.types.experimental.GenericFunction, ...]:
    """(training step, evaluation step), each on one batch for all workers."""
    with strategy.scope():
        model = build_model()
        optimizer = tf.keras.optimizers.SGD(0.01)

    def loss_of(images: tf.Tensor, labels: tf.Tensor, training: bool) -> tf.Tensor:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=training))
        return tf.reduce_sum(losses) / (options.batch * worker_count())

    def train_replica(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(*batch, training=True)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def train(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        losses = strategy.run(train_replica, args=(batch,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    @tf.function
    def evaluate(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        losses = strategy.run(lambda both: loss_of(*both, training=False), args=(batch,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    return train, evaluate


def build_model() -> tf.keras.Model:
    layers = [tf.keras.layers.InputLayer((IMAGE_SIZE, IMAGE_SIZE, CHANNELS))]
    for filters in CONVOLUTIONS:
        layers.append(tf.keras.layers.Conv2D(filters, KERNEL, padding="same", activation="relu"))
        layers.append(tf.keras.layers.MaxPool2D())
    layers.append(tf.keras.layers.Flatten())
    layers += [tf.keras.layers.Dense(units, "relu") for units in DENSE[:-1]]
    return tf.keras.Sequential([*layers, tf.keras.layers.Dense(DENSE[-1])])


def distributed(strategy: tf.distribute.Strategy, options: Options, batches: int = -1) -> tf.data.Dataset:
    """Synthetic images, `batch` of them for each worker; `batches` of them, or forever."""

    def worker_dataset(context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        seed = context.input_pipeline_id if context else 0
        images = tf.random.stateless_normal((EXAMPLES, IMAGE_SIZE, IMAGE_SIZE, CHANNELS), seed=(seed, 0))
        labels = tf.random.stateless_uniform((EXAMPLES,), seed=(seed, 1), maxval=CLASSES, dtype=tf.int32)
        dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat()
        dataset = dataset.batch(options.batch, drop_remainder=True)
        if options.slow_input and worker_index() == options.slow_worker:
            dataset = dataset.map(wait_longer(options.slow_input))
        return dataset.take(batches)

    if worker_count() == 1:
        return worker_dataset()
    return strategy.distribute_datasets_from_function(worker_dataset)


def wait_longer(seconds: float) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    """A map over batches that does nothing for a while, as a slow disk would."""

    def wait(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        same = tf.numpy_function(lambda unchanged: time.sleep(seconds) or unchanged, (labels,), labels.dtype)
        return images, tf.ensure_shape(same, labels.shape)

    return wait


def rest(options: Options) -> None:
    if slow_here(options):
        time.sleep(options.slow_seconds)


def slow_here(options: Options) -> bool:
    return options.slow_seconds > 0 and worker_index() == options.slow_worker


def worker_count() -> int:
    return len(cluster()["cluster"]["worker"]) if cluster() else 1


def worker_index() -> int:
    return int(cluster()["task"]["index"]) if cluster() else 0


def cluster() -> dict[str, Any]:
    return json.loads(os.environ.get("TF_CONFIG", "{}"))


if __name__ == "__main__":
    main()
