"""The networks of the papers, at the size of two cores: smaller images, and dense layers an eighth as wide.

| network | images | parameters | the papers' |
|---|---|---|---|
| AlexNet | 64 x 64 | 5.2 M | 224 x 224, 61 M |
| VGG-16 | 32 x 32 | 15 M | 224 x 224, 138 M |
| ResNet-50 | 32 x 32 | 24 M | 224 x 224, 26 M |
| Inception-v3 | 75 x 75 | 22 M | 299 x 299, 24 M |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

CLASSES = 10
LEARNING_RATE = 1e-4
layers = tf.keras.layers


class Network(NamedTuple):
    """image: pixels along a side."""

    build: Callable[[], tf.keras.Model]
    image: int


def alexnet() -> tf.keras.Model:
    convolution = {"padding": "same", "activation": "relu"}
    return tf.keras.Sequential(
        [
            layers.Input((64, 64, 3)),
            layers.Conv2D(96, 11, 4, **convolution),
            layers.MaxPool2D(3, 2),
            layers.Conv2D(256, 5, **convolution),
            layers.MaxPool2D(3, 2),
            layers.Conv2D(384, 3, **convolution),
            layers.Conv2D(384, 3, **convolution),
            layers.Conv2D(256, 3, **convolution),
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dense(512, activation="relu"),
            layers.Dense(CLASSES),
        ]
    )


def vgg16() -> tf.keras.Model:
    features = tf.keras.applications.VGG16(include_top=False, weights=None, input_shape=(32, 32, 3))
    dense = [layers.Dense(512, activation="relu"), layers.Dense(512, activation="relu")]
    return tf.keras.Sequential([features, layers.Flatten(), *dense, layers.Dense(CLASSES)])


def resnet50() -> tf.keras.Model:
    return tf.keras.applications.ResNet50(
        weights=None, input_shape=(32, 32, 3), classes=CLASSES, classifier_activation=None
    )


def inception3() -> tf.keras.Model:
    return tf.keras.applications.InceptionV3(
        weights=None, input_shape=(75, 75, 3), classes=CLASSES, classifier_activation=None
    )


NETWORKS = {
    "alexnet": Network(alexnet, 64),
    "vgg16": Network(vgg16, 32),
    "resnet50": Network(resnet50, 32),
    "inception3": Network(inception3, 75),
}


def images(network: Network, batch: int) -> tf.data.Dataset:
    """The same made-up batch again and again: what is measured is training, not reading."""
    pixels = tf.random.stateless_normal((batch, network.image, network.image, 3), (0, 0))
    labels = tf.random.stateless_uniform((batch,), (0, 1), maxval=CLASSES, dtype=tf.int32)
    return tf.data.Dataset.from_tensors((pixels, labels)).repeat()


def loss(model: tf.keras.Model, pixels: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    logits = model(pixels, training=True)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
