"""One 2D convolution or LSTM layer in TensorFlow, forward, backward and an update: as examples/kernels.

    python kernels_tensorflow.py conv2d --batch 16 --filters 64

Nothing in here knows of roofline.
"""

from __future__ import annotations

import argparse

import tensorflow as tf

layers = tf.keras.layers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("layer", choices=("conv2d", "lstm"))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=0, help="of an operation; 0: TensorFlow's own")
    for name, size in (("size", 56), ("channels", 64), ("filters", 64), ("kernel", 3), ("stride", 1)):
        parser.add_argument(f"--{name}", type=int, default=size, help="of conv2d")
    for name, size in (("length", 32), ("features", 256), ("hidden", 256)):
        parser.add_argument(f"--{name}", type=int, default=size, help="of lstm")
    asked = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(asked.threads)
    layer, shape = convolution(asked) if asked.layer == "conv2d" else lstm(asked)
    train(layer, tf.random.stateless_normal(shape, (0, 0)), asked.steps)


def convolution(asked: argparse.Namespace) -> tuple[layers.Layer, tuple[int, ...]]:
    layer = layers.Conv2D(asked.filters, asked.kernel, asked.stride, padding="same")
    return layer, (asked.batch, asked.size, asked.size, asked.channels)


def lstm(asked: argparse.Namespace) -> tuple[layers.Layer, tuple[int, ...]]:
    return layers.LSTM(asked.hidden, return_sequences=True), (asked.batch, asked.length, asked.features)


def train(layer: layers.Layer, inputs: tf.Tensor, steps: int) -> None:
    optimizer = tf.keras.optimizers.legacy.SGD(1e-6)
    images = tf.Variable(inputs)  # its gradient is computed too, as that of a layer inside a network is
    layer(images)

    @tf.function
    def step(weight: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            outputs = layer(images)
            loss = tf.reduce_sum(outputs * weight)
        *gradients, of_images = tape.gradient(loss, [*layer.trainable_variables, images])
        optimizer.apply_gradients(zip(gradients, layer.trainable_variables, strict=True))
        # Without the loss nobody needs the forward pass of a convolution, and TensorFlow leaves it out.
        return loss + tf.reduce_sum(of_images[:1, :1])

    weight = tf.random.stateless_normal(layer(images).shape, (0, 1))
    for _ in range(steps):
        step(weight)


if __name__ == "__main__":
    main()
