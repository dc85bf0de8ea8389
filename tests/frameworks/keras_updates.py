"""A Keras training of so many steps, of which each call makes so many."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

steps, per_call = int(sys.argv[1]), int(sys.argv[2])
tf.config.threading.set_intra_op_parallelism_threads(1)
model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(256, activation="relu"),
        tf.keras.layers.Dense(256, activation="relu"),
        tf.keras.layers.Dense(10),
    ]
)
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("sgd", loss, steps_per_execution=per_call)
random = np.random.default_rng(0)
x, y = random.random((64 * steps, 256), np.float32), random.integers(0, 10, 64 * steps)
model.fit(x, y, batch_size=64, verbose=0)
