"""One rank of a training with parameter servers, with its role taken from TF_CONFIG.

A step returns which worker made it and when, so that the chief has each worker's own clock.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

import tensorflow as tf
from journal import Journal, options

INTER_OP_THREADS = 2
CLASSES, EXAMPLES = 10, 512
FEATURES = 1024  # that the dense layers take
WARM_STEPS, LEAST_STEPS = 12, 60  # of each worker
# name -> batch, dense layers behind the convolutions, whether there are convolutions
MODELS = {
    "cnn": (48, (FEATURES, 128), True),
    "mlp": (256, (FEATURES, 256, 256), False),
    "wide": (32, (FEATURES, 1024, 512), False),
}
WORK_BYTES = 1 << 20  # that a server's planted work touches at a time
SECONDS_OF_WORK = 1e-4  # about what that takes


class Model(tf.Module):
    def __init__(self, convolutions: bool, widths: tuple[int, ...]) -> None:
        super().__init__()
        shapes = [(5, 5, 3, 32), (5, 5, 32, 64)] if convolutions else []
        shapes += list(zip(widths, (*widths[1:], CLASSES), strict=False))
        self.count = 2 if convolutions else 0
        self.weights = [tf.Variable(self.initial(shape, seed)) for seed, shape in enumerate(shapes)]

    @staticmethod
    def initial(shape: tuple[int, ...], seed: int) -> tf.Tensor:
        fan_in = tf.reduce_prod(shape[:-1])
        return tf.random.stateless_normal(shape, (seed, 1)) * tf.cast(fan_in, tf.float32) ** -0.5

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        for weight, pool in zip(self.weights[: self.count], (2, 4), strict=False):
            x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, weight, 1, "SAME")), pool, pool, "VALID")
        x = tf.reshape(x, (-1, FEATURES))
        dense = self.weights[self.count :]
        for weight in dense[:-1]:
            x = tf.nn.relu(tf.matmul(x, weight))
        return tf.matmul(x, dense[-1])


def index_of_worker(workers: int) -> tf.Tensor:
    """Which worker runs this operation: its environment tells, for it runs the chief's graph."""
    read = tf.data.TextLineDataset("/proc/self/environ").reduce("", lambda text, line: text + line)
    found = [
        tf.strings.regex_full_match(read, f'(?s).*"type": "worker", "index": {index}\\}}.*')
        for index in range(workers)
    ]
    return tf.argmax(tf.stack(found))


def dataset(asked: argparse.Namespace, workers: int) -> tf.data.Dataset:
    """(images, labels, index of the worker), made on the worker."""
    batch, _, convolutions = MODELS[asked.model]
    index = index_of_worker(workers)
    has_it = tf.cast(tf.equal(index, asked.on), tf.float64)
    shape = (32, 32, 3) if convolutions else (FEATURES,)
    images = tf.random.stateless_normal((EXAMPLES, *shape), (asked.seed, 0))
    labels = tf.random.stateless_uniform((EXAMPLES,), (asked.seed, 1), maxval=CLASSES, dtype=tf.int32)
    more = asked.more if asked.cause == "batch" else 0.0
    size = tf.cast(batch * (1 + more * has_it), tf.int64)
    batches = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().batch(size, drop_remainder=True)
    batches = batches.map(lambda images, labels: (images, labels, index))
    if asked.cause == "sleep_input":
        from tensorflow.python.data.experimental.ops import testing

        batches = batches.apply(testing.sleep(tf.cast(asked.amount * has_it * 1e6, tf.int64)))
    return batches


def spin(images: tf.Tensor, seconds: tf.Tensor) -> tf.Tensor:
    """The same images, so long later: a loop of small operations."""
    end = tf.timestamp() + seconds
    turns = tf.while_loop(lambda _: tf.timestamp() < end, lambda turn: (turn + 1,), (0,))
    with tf.control_dependencies(turns):
        return tf.identity(images)


def work_on(load: tf.Variable, seconds: float) -> tf.Tensor:
    """Work for the server that has the variable, the same in each step, one after the other."""
    with tf.device(load.device):
        ones = tf.ones(load.shape)
        count = max(1, round(seconds / SECONDS_OF_WORK))
        body = lambda turn: (turn + 1 + 0 * tf.cast(load.assign_add(ones)[0], tf.int32),)  # noqa: E731
        return tf.while_loop(lambda turn: turn < count, body, (0,))[0]


def training_step(asked: argparse.Namespace, model: Model, load: tf.Variable | None) -> Any:
    @tf.function
    def step(iterator: Any) -> tf.Tensor:
        images, labels, index = next(iterator)
        if asked.cause == "python":
            images = spin(images, asked.amount * tf.cast(tf.equal(index, asked.on), tf.float64))
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(images))
            loss = tf.reduce_mean(losses)
        done = []
        for weight, gradient in zip(model.weights, tape.gradient(loss, model.weights), strict=False):
            with tf.device(weight.device):
                done.append(
                    tf.raw_ops.ResourceApplyGradientDescent(var=weight.handle, alpha=0.001, delta=gradient)
                )
        if load is not None:
            done.append(work_on(load, asked.amount))
        with tf.control_dependencies([one for one in done if one is not None]):
            return tf.stack([tf.cast(index, tf.float64), tf.timestamp()])

    return step


def train(cluster: Any, asked: argparse.Namespace) -> None:
    journal = Journal(asked.folder, "chief:0")
    workers = len(cluster.cluster_spec().as_dict()["worker"])
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    _, widths, convolutions = MODELS[asked.model]
    load = None
    with strategy.scope():
        model = Model(convolutions, widths)
    if asked.cause == "ps_work":
        with tf.device(f"/job:ps/replica:0/task:{asked.on}/device:CPU:0"):
            load = tf.Variable(tf.zeros(WORK_BYTES // 4))
    step = training_step(asked, model, load)
    mine = coordinator.create_per_worker_dataset(lambda: dataset(asked, workers))
    iterator = iter(mine)
    with strategy.scope():
        step.get_concrete_function(tf.data.IteratorSpec(mine.element_spec))

    made: list[Any] = []

    def rounds(count: int) -> None:
        for _ in range(count):
            made.extend(coordinator.schedule(step, args=(iterator,)) for _ in range(workers))
            if asked.sync:
                coordinator.join()
        coordinator.join()

    rounds(WARM_STEPS)
    begin = time.perf_counter()
    rounds(WARM_STEPS)
    each = (time.perf_counter() - begin) / WARM_STEPS
    rounds(max(LEAST_STEPS, round(asked.seconds / each)))
    ends: dict[str, list[int]] = {f"worker:{index}": [] for index in range(workers)}
    for index, seconds in coordinator.fetch(made):
        ends[f"worker:{int(index)}"].append(int(seconds * 1e9))
    # TensorFlow's clock is UNIX time.
    ahead = time.time_ns() - time.monotonic_ns()
    monotonic = {name: sorted(end - ahead for end in times) for name, times in ends.items()}
    journal.write(workers=monotonic, framework=f"tensorflow {tf.__version__}")


def serve(cluster: Any, asked: argparse.Namespace) -> None:
    """Until whoever started it ends it."""
    Journal(asked.folder, f"{cluster.task_type}:{cluster.task_id}")
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=INTER_OP_THREADS
    )
    tf.distribute.Server(
        cluster.cluster_spec(), cluster.task_type, cluster.task_id, config=config, protocol="grpc"
    ).join()


def main() -> None:
    parser = options()
    parser.add_argument("--sync", action="store_true", help="wait for all workers after each round of steps")
    asked = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(INTER_OP_THREADS)
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    if asked.pinned and task["type"] == "worker":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[task["index"] % len(cores)]})
    (train if cluster.task_type == "chief" else serve)(cluster, asked)


if __name__ == "__main__":
    main()
