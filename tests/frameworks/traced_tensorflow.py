"""A small network in TensorFlow that trains for so many steps: `python traced_tensorflow.py STEPS`."""

from __future__ import annotations

import os
import sys

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


inputs, wanted = tf.random.normal((BATCH, WIDTH)), tf.random.normal((BATCH, 1))
for _ in range(int(sys.argv[1])):
    step(inputs, wanted)
