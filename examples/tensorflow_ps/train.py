"""One rank of a parameter-server training, with its role taken from `TF_CONFIG`.

A `ps` or `worker` serves until it is told to stop. The `chief` holds the training program: it hands
steps to whichever worker is free, and the variables live on the parameter servers. Asynchronous, or with
`--sync` in rounds: a step for each worker, and then all are waited for.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import time
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
from network import CHANNELS, CLASSES, IMAGE_SIZE, NETWORK, Network

EXAMPLES = 1024
# With one inter-op thread in every rank the job was seen to hang in its first steps.
INTER_OP_THREADS = 2
LEARNING_RATE = 0.002
MOMENTUM = 0.9


class Options(NamedTuple):
    """What the command line asks for; `steps` is per worker."""

    steps: int
    batch: int
    threads: int
    log_every: int
    sync: bool
    slow_worker: int
    slow_seconds: float
    slow_input: float


class Model(tf.Module):
    """The network's variables, each with its momentum, and its forward pass."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        shapes = [(c.kernel, c.kernel, c.inputs, c.outputs) for c in network.convolutions]
        shapes += [(d.inputs, d.outputs) for d in network.dense]
        self.weights = [tf.Variable(initial_weights(shape, seed)) for seed, shape in enumerate(shapes)]
        self.biases = [tf.Variable(tf.zeros(shape[-1:])) for shape in shapes]
        self.parameters = [*self.weights, *self.biases]
        self.momenta = [beside(p) for p in self.parameters]

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """Logits of shape (batch, classes)."""
        x = images
        layers = list(zip(self.weights, self.biases, strict=True))
        convolutions = len(self.network.convolutions)
        for at, (layer, (weight, bias)) in enumerate(zip(self.network.convolutions, layers, strict=False)):
            with tf.name_scope(f"conv{at}"):
                x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, weight, strides=1, padding="SAME"), bias))
                x = tf.nn.max_pool2d(x, layer.pool, layer.pool, padding="VALID")
        x = tf.reshape(x, (x.shape[0], -1))
        for at, (weight, bias) in enumerate(layers[convolutions:]):
            with tf.name_scope(f"dense{at}"):
                x = tf.nn.bias_add(tf.matmul(x, weight), bias)
                x = x if at == len(self.network.dense) - 1 else tf.nn.relu(x)
        return x


def beside(parameter: tf.Variable) -> tf.Variable:
    """The parameter's momentum, on the parameter server that holds the parameter."""
    with tf.distribute.get_strategy().extended.colocate_vars_with(parameter):
        return tf.Variable(tf.zeros(parameter.shape), trainable=False)


def main() -> None:
    options = parse_options()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(INTER_OP_THREADS)
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.task_type in ("ps", "worker"):
        serve(cluster, options.threads)
    else:
        train(cluster, options)


def parse_options() -> Options:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60, help="steps per worker, on average (default 60)")
    parser.add_argument("--batch", type=int, default=32, help="images per step (default 32)")
    parser.add_argument("--threads", type=int, default=1, help="intra-op threads of each rank (default 1)")
    parser.add_argument("--log-every", type=int, default=20, help="print a line every N steps (default 20)")
    parser.add_argument("--sync", action="store_true", help="wait for all workers after each round of steps")
    slow = parser.add_argument_group("one worker that is slower than the others")
    slow.add_argument("--slow-worker", type=int, default=0, metavar="I", help="which one (default 0)")
    slow.add_argument(
        "--slow-seconds", type=float, default=0, metavar="S", help="compute longer in each step"
    )
    slow.add_argument("--slow-input", type=float, default=0, metavar="S", help="wait longer for each batch")
    arguments = parser.parse_args()
    for name in ("steps", "batch", "threads", "log_every"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if not 0 <= arguments.slow_seconds < math.inf or not 0 <= arguments.slow_input < math.inf:
        parser.error("--slow-seconds and --slow-input must be 0 or more")
    if "TF_CONFIG" not in os.environ:
        parser.error("TF_CONFIG is not set: start the ranks with launch.py")
    return Options(**vars(arguments))


def serve(cluster: tf.distribute.cluster_resolver.ClusterResolver, threads: int) -> None:
    """Run this rank's server. `join` never returns: whoever started the job ends it with SIGTERM."""
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=INTER_OP_THREADS
    )
    server = tf.distribute.Server(
        cluster.cluster_spec(),
        job_name=cluster.task_type,
        task_index=cluster.task_id,
        config=config,
        protocol="grpc",
    )
    server.join()


def train(cluster: tf.distribute.cluster_resolver.ClusterResolver, options: Options) -> None:
    """Train from the chief, then say what was done and how fast."""
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = Model(NETWORK)
    step = training_step(model, options)
    dataset = coordinator.create_per_worker_dataset(lambda: training_dataset(options))
    iterator = iter(dataset)
    # Traced here, so that the time of the first step is the worker's and not the tracer's.
    with strategy.scope():
        step.get_concrete_function(tf.data.IteratorSpec(dataset.element_spec))

    workers = worker_count()
    begin = time.perf_counter()
    train_all = train_in_rounds if options.sync else train_freely
    loss = train_all(coordinator, lambda: coordinator.schedule(step, args=(iterator,)), workers, options)
    seconds = time.perf_counter() - begin
    total = options.steps * workers
    print(f"final loss: {loss:.4f}", flush=True)
    print(f"total steps: {total} images: {total * options.batch}", flush=True)
    print(f"total images/sec: {total * options.batch / seconds:.1f}", flush=True)


def train_freely(
    coordinator: tf.distribute.coordinator.ClusterCoordinator,
    schedule: Callable[[], tf.distribute.coordinator.RemoteValue],
    workers: int,
    options: Options,
) -> float:
    """Schedule every step at once, then report as results arrive. Returns the last loss."""
    begin = time.perf_counter()
    losses = [schedule() for _ in range(options.steps * workers)]
    report_progress(losses, options, begin)
    coordinator.join()
    return float(losses[-1].fetch())


def train_in_rounds(
    coordinator: tf.distribute.coordinator.ClusterCoordinator,
    schedule: Callable[[], tf.distribute.coordinator.RemoteValue],
    workers: int,
    options: Options,
) -> float:
    """Schedule a step for each worker, wait for all of them, and again. Returns the last loss."""
    begin = time.perf_counter()
    for index in range(1, options.steps + 1):
        losses = [schedule() for _ in range(workers)]
        coordinator.join()
        if index % options.log_every == 0:
            now = time.perf_counter()
            print_progress(index, losses[-1], options.log_every * workers * options.batch / (now - begin))
            begin = now
    return float(losses[-1].fetch())


def training_step(model: Model, options: Options) -> tf.types.experimental.GenericFunction:
    """The function a worker runs: one batch forward and backward, then the update."""

    @tf.function
    def train_step(iterator: tf.data.Iterator) -> tf.Tensor:
        images, labels, *slow = next(iterator)
        if options.slow_seconds:
            images = compute_longer(images, options.slow_seconds * slow[0])
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(images))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, model.parameters)
        for parameter, momentum, gradient in zip(model.parameters, model.momenta, gradients, strict=True):
            apply_momentum(parameter, momentum, gradient)
        return loss

    return train_step


def apply_momentum(parameter: tf.Variable, momentum: tf.Variable, gradient: tf.Tensor) -> None:
    """Update on the parameter server that holds the variable: only the gradient travels."""
    with tf.device(parameter.device):
        tf.raw_ops.ResourceApplyMomentum(
            var=parameter.handle,
            accum=momentum.handle,
            lr=LEARNING_RATE,
            grad=gradient,
            momentum=MOMENTUM,
        )


def report_progress(
    losses: list[tf.distribute.coordinator.RemoteValue], options: Options, begin: float
) -> None:
    """Print a line every `log_every` steps; fetching a loss waits for its step, not for the others."""
    for index in range(options.log_every - 1, len(losses), options.log_every):
        losses[index].fetch()
        now = time.perf_counter()
        print_progress(index + 1, losses[index], options.log_every * options.batch / (now - begin))
        begin = now


def print_progress(step: int, loss: tf.distribute.coordinator.RemoteValue, rate: float) -> None:
    print(f"step: {step} loss: {float(loss.fetch()):.4f} images/sec: {rate:.1f}", flush=True)


def training_dataset(options: Options) -> tf.data.Dataset:
    """What one worker trains on; runs on that worker, and may find that it is the slow one."""
    dataset = synthetic_dataset(options.batch)
    if options.slow_seconds or options.slow_input:
        slow = tf.cast(runs_on_worker(options.slow_worker), tf.float64)
        dataset = dataset.map(lambda images, labels: (images, labels, slow))
    if options.slow_input:
        from tensorflow.python.data.experimental.ops import testing

        dataset = dataset.apply(testing.sleep(tf.cast(options.slow_input * slow * 1e6, tf.int64)))
    return dataset.prefetch(1)


def runs_on_worker(index: int) -> tf.Tensor:
    """Whether the process that runs this operation is worker `index`: its environment tells.

    A worker runs the chief's graph and no Python of its own, and TensorFlow hands every worker the same.
    """
    environment = tf.data.TextLineDataset("/proc/self/environ").reduce("", lambda text, line: text + line)
    task = json.dumps({"type": "worker", "index": index})
    return tf.strings.regex_full_match(environment, "(?s).*" + re.escape(task) + ".*")


def compute_longer(images: tf.Tensor, seconds: tf.Tensor) -> tf.Tensor:
    """The same images, `seconds` of computing later."""
    end = tf.timestamp() + seconds
    turns = tf.while_loop(lambda _: tf.timestamp() < end, lambda turn: (turn + 1,), (0,))
    with tf.control_dependencies(turns):
        return tf.identity(images)


def synthetic_dataset(batch: int) -> tf.data.Dataset:
    """Noisy pictures of ten fixed patterns, made once on the worker and then repeated forever."""
    shape = (IMAGE_SIZE, IMAGE_SIZE, CHANNELS)
    patterns = tf.random.stateless_normal((CLASSES, *shape), seed=(1, 0))
    labels = tf.random.stateless_uniform((EXAMPLES,), seed=(2, 0), maxval=CLASSES, dtype=tf.int32)
    images = tf.random.stateless_normal((EXAMPLES, *shape), seed=(3, 0)) + 0.5 * tf.gather(patterns, labels)
    examples = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(EXAMPLES).repeat()
    # Static batch shape: every step has the same work.
    return examples.batch(batch, drop_remainder=True)


def initial_weights(shape: tuple[int, ...], seed: int) -> tf.Tensor:
    """LeCun normal: max pooling already lifts the activations that ReLU halves."""
    return tf.random.stateless_normal(shape, seed=(seed, 1), stddev=math.prod(shape[:-1]) ** -0.5)


def worker_count() -> int:
    return len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])


if __name__ == "__main__":
    main()
