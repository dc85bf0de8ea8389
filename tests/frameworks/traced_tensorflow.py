"""A small network in TensorFlow: `python traced_tensorflow.py STEPS [BEGIN END]`.

It has the steps from BEGIN to END recorded by TensorFlow's profiler itself, and prints how many traces there
are of them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf

WIDTH, BATCH = 700, 64
model = tf.keras.Sequential(
    [*(tf.keras.layers.Dense(WIDTH, "relu") for _ in range(3)), tf.keras.layers.Dense(1)]
)
model.build((None, WIDTH))
optimizer = tf.keras.optimizers.SGD(0.01)


@tf.function
def step(inputs, wanted):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(inputs) - wanted) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


steps, begin, end = (*map(int, sys.argv[1:]), -1, -1)[:3]
inputs, wanted = tf.random.normal((BATCH, WIDTH)), tf.random.normal((BATCH, 1))
with tempfile.TemporaryDirectory() as folder:
    for number in range(steps):
        if number == begin:
            tf.profiler.experimental.start(folder)
        step(inputs, wanted)
        if number == end:
            tf.profiler.experimental.stop()
            print("traces", len(list(Path(folder).rglob("*.xplane.pb"))))
