"""Trains a small CNN with Keras' fit on made-up images until it is ended."""

from __future__ import annotations

import statistics
import time
from typing import Any

import tensorflow as tf
from step_clock import StepClock, find_batch, options

WARM, TIMED = 30, 60  # steps of a trial
MANY = 10**7


class Ticking(tf.keras.callbacks.Callback):
    """Calls a function at the end of each step."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.call()


def network() -> tf.keras.Model:
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((32, 32, 3)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPool2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPool2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="sgd", loss=loss)
    return model


def dataset(batch: int) -> tf.data.Dataset:
    images, labels = tf.random.normal((batch, 32, 32, 3)), tf.zeros((batch,), tf.int32)
    return tf.data.Dataset.from_tensors((images, labels)).repeat()


def trial(batch: int) -> float:
    """Seconds of a step."""
    ends: list[float] = []
    ticking = Ticking(lambda: ends.append(time.perf_counter()))
    network().fit(dataset(batch), steps_per_epoch=WARM + TIMED, verbose=0, callbacks=[ticking])
    return statistics.median(b - a for a, b in zip(ends[WARM:], ends[WARM + 1 :], strict=False))


def main() -> None:
    asked = options(__doc__).parse_args()
    if asked.find:
        print(find_batch(asked.find, trial))
        return
    ticking = Ticking(StepClock(asked.clock).tick)
    network().fit(dataset(asked.batch), steps_per_epoch=MANY, verbose=0, callbacks=[ticking])


if __name__ == "__main__":
    main()
