"""One rank of a Horovod training of the same networks.

    horovodrun -np 2 -H localhost:2 --gloo python train_horovod.py --network resnet50 --batch 16 --steps 20

Nothing in here knows of roofline.
"""

from __future__ import annotations

import argparse

import horovod.tensorflow as hvd
import tensorflow as tf
from networks import LEARNING_RATE, NETWORKS, images, loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=NETWORKS, default="alexnet")
    parser.add_argument("--batch", type=int, default=16, help="images of a rank and step")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--intra", type=int, default=1, help="threads of an operation")
    parser.add_argument("--inter", type=int, default=2, help="operations at a time")
    asked = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(asked.intra)
    tf.config.threading.set_inter_op_parallelism_threads(asked.inter)
    hvd.init()
    network = NETWORKS[asked.network]
    model = network.build()
    optimizer = tf.keras.optimizers.legacy.SGD(LEARNING_RATE, momentum=0.9)

    @tf.function
    def step(pixels: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = loss(model, pixels, labels)
        gradients = hvd.DistributedGradientTape(tape).gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value

    hvd.broadcast_variables(model.variables, root_rank=0)
    for pixels, labels in images(network, asked.batch).take(asked.steps):
        value = step(pixels, labels)
    if hvd.rank() == 0:
        print(f"{asked.steps} steps, loss {float(value):.3f}", flush=True)


if __name__ == "__main__":
    main()
