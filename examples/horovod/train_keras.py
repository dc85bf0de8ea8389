"""One Horovod rank under TensorFlow: the same network, trained by Keras' `fit` or by a loop with a tape."""

from __future__ import annotations

import argparse

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import tensorflow as tf
from journal import Journal, dawdle, options
from network import CHANNELS, CLASSES, CONVOLUTIONS, DENSE, IMAGE, POOLED

EXAMPLES = 512
LEARNING_RATE = 0.01


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--loop", choices=("fit", "tape"), default="fit", help="who makes the steps")
    asked = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(asked.threads)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    hvd.init()
    tf.random.set_seed(1 + hvd.rank())
    train = fit if asked.loop == "fit" else loop
    journal = train(network(), dataset(asked.batch), asked)
    if asked.journal:
        journal.write(asked.journal)


def fit(model: tf.keras.Model, data: tf.data.Dataset, asked: argparse.Namespace) -> Journal:
    """Keras: one epoch of all steps."""
    optimizer = hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(LEARNING_RATE, momentum=0.9))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss)
    diary = Diary(asked)
    callbacks = [hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0), diary]
    model.fit(data, epochs=1, steps_per_epoch=asked.steps, callbacks=callbacks, verbose=0)
    return diary.journal


class Diary(tf.keras.callbacks.Callback):
    """Writes the journal, and sleeps in the slow rank."""

    def __init__(self, asked: argparse.Namespace) -> None:
        super().__init__()
        self.asked = asked

    def on_train_begin(self, logs: object = None) -> None:
        self.journal = Journal(hvd.rank(), hvd.size(), self.asked.batch)

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        dawdle(hvd.rank(), self.asked.slow_rank, self.asked.slow_seconds)

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self.journal.step_ended()
        if batch % 20 == 19 and hvd.rank() == 0 and logs:
            print(f"step {batch + 1} loss {logs['loss']:.4f}", flush=True)


def loop(model: tf.keras.Model, data: tf.data.Dataset, asked: argparse.Namespace) -> Journal:
    """A training loop written by hand around a DistributedGradientTape."""
    optimizer = tf.keras.optimizers.SGD(LEARNING_RATE, momentum=0.9)
    criterion = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = criterion(labels, model(images, training=True))
        distributed = hvd.DistributedGradientTape(tape)
        gradients = distributed.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    hvd.broadcast_variables(model.variables, root_rank=0)
    journal = Journal(hvd.rank(), hvd.size(), asked.batch)
    for k, (images, labels) in enumerate(data.take(asked.steps)):
        dawdle(hvd.rank(), asked.slow_rank, asked.slow_seconds)
        loss = step(images, labels)
        journal.step_ended()
        if k % 20 == 19 and hvd.rank() == 0:
            print(f"step {k + 1} loss {float(loss):.4f}", flush=True)
    return journal


def network() -> tf.keras.Model:
    layers = tf.keras.layers
    stack: list[object] = [tf.keras.Input((IMAGE, IMAGE, CHANNELS))]
    stack += [layers.Conv2D(out, 3, padding="same", activation="relu") for _, out in CONVOLUTIONS]
    stack += [layers.AveragePooling2D(POOLED), layers.Flatten()]
    stack += [layers.Dense(out, activation="relu") for out in DENSE[1:-1]]
    return tf.keras.Sequential([*stack, layers.Dense(DENSE[-1])])


def dataset(batch: int) -> tf.data.Dataset:
    images = tf.random.normal((EXAMPLES, IMAGE, IMAGE, CHANNELS))
    labels = tf.random.uniform((EXAMPLES,), maxval=CLASSES, dtype=tf.int32)
    examples = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(EXAMPLES).repeat()
    return examples.batch(batch, drop_remainder=True).prefetch(1)


if __name__ == "__main__":
    main()
