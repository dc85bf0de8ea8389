"""Trains with a chief, one parameter server and two workers until it is ended, in rounds of a step of each.

Without TF_CONFIG it starts these four, each behind the words of --prefix.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

from step_clock import StepClock, find_batch, options

WARM, TIMED = 20, 40  # rounds of a trial
WORKERS = 2


def free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def launch(prefix: str, arguments: list[str]) -> int:
    """Start the four; ends with the chief."""
    places = [f"127.0.0.1:{port}" for port in free_ports(2 + WORKERS)]
    cluster = {"chief": places[:1], "ps": places[1:2], "worker": places[2:]}
    command = [*shlex.split(prefix), sys.executable, str(Path(__file__)), *arguments]
    started = {}
    for role, tasks in cluster.items():
        for index in range(len(tasks)):
            config = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
            started[role, index] = subprocess.Popen(command, env={**os.environ, "TF_CONFIG": config})
    try:
        return started["chief", 0].wait()
    finally:
        for process in started.values():
            process.terminate()


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--prefix", default="", help="words before each rank's command")
    asked = parser.parse_args()
    if "TF_CONFIG" not in os.environ:
        words = [f"--{name}={value}" for name, value in vars(asked).items() if value and name != "prefix"]
        sys.exit(launch(asked.prefix, words))

    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.task_type in ("ps", "worker"):
        threads = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
        tf.distribute.Server(
            cluster.cluster_spec(),
            job_name=cluster.task_type,
            task_index=cluster.task_id,
            config=threads,
            protocol="grpc",
        ).join()

    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        shapes = [(3, 3, 3, 16), (3, 3, 16, 32), (2048, 10)]
        weights = [tf.Variable(0.05 * tf.random.normal(shape)) for shape in shapes]

    def data(batch: int) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(
            (tf.random.normal((batch, 32, 32, 3)), tf.zeros((batch,), tf.int32))
        ).repeat()

    @tf.function
    def step(iterator: tf.data.Iterator) -> None:
        images, labels = next(iterator)
        with tf.GradientTape() as tape:
            x = images
            for weight in weights[:2]:
                x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, weight, 1, "SAME")), 2, 2, "VALID")
            logits = tf.matmul(tf.reshape(x, (-1, 2048)), weights[2])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=False):
            weight.assign_sub(0.001 * gradient)

    def rounds(batch: int):
        iterator = iter(coordinator.create_per_worker_dataset(lambda: data(batch)))
        while True:
            for _ in range(WORKERS):
                coordinator.schedule(step, args=(iterator,))
            coordinator.join()
            yield time.perf_counter()

    def trial(batch: int) -> float:
        ends = [at for at, _ in zip(rounds(batch), range(WARM + TIMED), strict=False)]
        return statistics.median(b - a for a, b in zip(ends[WARM:], ends[WARM + 1 :], strict=False))

    if asked.find:
        print(find_batch(asked.find, trial), flush=True)
        return
    clock = StepClock(asked.clock)
    for _ in rounds(asked.batch):
        clock.tick()


if __name__ == "__main__":
    main()
