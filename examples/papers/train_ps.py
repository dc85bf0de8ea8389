"""One rank of a training with parameter servers: its role is in TF_CONFIG, its program is the chief's.

    python train_ps.py --network resnet50 --batch 16 --steps 20

Nothing in here knows of roofline.
"""

from __future__ import annotations

import argparse

import tensorflow as tf
from networks import LEARNING_RATE, NETWORKS, Network, images, loss

INTER_OP_THREADS = 2  # with one, a job was seen to hang in its first steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=NETWORKS, default="alexnet")
    parser.add_argument("--batch", type=int, default=16, help="images of a step")
    parser.add_argument("--steps", type=int, default=20, help="of each worker, on average")
    asked = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(INTER_OP_THREADS)
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.task_type in ("ps", "worker"):
        serve(cluster)
    else:
        train(cluster, NETWORKS[asked.network], asked.batch, asked.steps)


def serve(cluster: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Never returns: who started the job ends it."""
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=INTER_OP_THREADS
    )
    spec, role, index = cluster.cluster_spec(), cluster.task_type, cluster.task_id
    tf.distribute.Server(spec, job_name=role, task_index=index, config=config, protocol="grpc").join()


def train(
    cluster: tf.distribute.cluster_resolver.ClusterResolver, network: Network, batch: int, steps: int
) -> None:
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = network.build()
        optimizer = tf.keras.optimizers.legacy.SGD(LEARNING_RATE, momentum=0.9)

    @tf.function
    def replica(pixels: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = loss(model, pixels, labels)
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value

    @tf.function
    def step(iterator: tf.data.Iterator) -> tf.Tensor:
        return strategy.run(replica, args=next(iterator))

    iterator = iter(coordinator.create_per_worker_dataset(lambda: images(network, batch)))
    workers = len(cluster.cluster_spec().as_dict()["worker"])
    last = [coordinator.schedule(step, args=(iterator,)) for _ in range(steps * workers)][-1]
    coordinator.join()
    print(f"{steps * workers} steps, loss {float(last.fetch()):.3f}", flush=True)


if __name__ == "__main__":
    main()
