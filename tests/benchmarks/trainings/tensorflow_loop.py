"""Trains a small CNN on made-up images in a loop written by hand in TensorFlow, until it is ended."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from keras_fit import TIMED, WARM, dataset, network
from step_clock import StepClock, find_batch, options


def losses(batch: int) -> Iterator[Any]:
    """Of each step, as it is over."""
    model, optimizer = network(), tf.keras.optimizers.SGD()
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    for images, labels in dataset(batch):
        yield step(images, labels)


def trial(batch: int) -> float:
    """Seconds of a step."""
    steps = losses(batch)
    ends = [time.perf_counter() for _ in zip(range(WARM + TIMED), steps, strict=False)]
    return statistics.median(b - a for a, b in zip(ends[WARM:], ends[WARM + 1 :], strict=False))


def main() -> None:
    asked = options(__doc__).parse_args()
    if asked.find:
        print(find_batch(asked.find, trial))
        return
    tick = StepClock(asked.clock).tick
    for _ in losses(asked.batch):
        tick()


if __name__ == "__main__":
    main()
