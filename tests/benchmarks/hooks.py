"""What the hooks cost in a step of a training: all of them, on made-up frameworks of the same shape.

Each program is run bare and under `roofline-agent run`, which is how the hooks get there; a step of it does
nothing but call what is hooked. The difference of the medians is the hooks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

from .site import COMMANDS, Node, Result, node

STEPS = 20_000
ROUNDS = 3  # of bare and wrapped in turn

MEASURED = """
import os, statistics, sys, time
def measure(step, count):
    clock, spent = time.perf_counter_ns, []
    for _ in range(count):
        begin = clock()
        step()
        spent.append(clock() - begin)
        if len(spent) % 50 == 0:
            time.sleep(0.02)  # a training has something between its steps; the agent reads now and then
    sender = sys.modules["roofline_step"]._agent if "roofline_step" in sys.modules else None
    dropped = sender.dropped + sender.dropped_spans if sender else 0
    with open(os.environ["BENCH_SAYS"], "w") as file:
        print(statistics.median(spent) / 1e3, dropped, file=file)
"""

TORCH = {
    "measured.py": MEASURED,
    "torch/__init__.py": "def is_grad_enabled(): return True",
    "torch/autograd.py": """
        def backward(tensors, gradient=None, retain_graph=None, create_graph=False, inputs=None):
            pass
        """,
    "torch/optim/__init__.py": "",
    "torch/optim/optimizer.py": """
        from itertools import chain
        before, after = {}, {}
        def register_optimizer_step_pre_hook(hook): before[len(before)] = hook
        def register_optimizer_step_post_hook(hook): after[len(after)] = hook
        class Optimizer:
            own = {}
            def step(self, *args, **kwargs):
                for hook in chain(before.values(), self.own.values()):
                    hook(self, args, kwargs)
                for hook in chain(self.own.values(), after.values()):
                    hook(self, args, kwargs)
        """,
    "torch/utils/__init__.py": "",
    "torch/utils/data/__init__.py": "",
    "torch/utils/data/dataloader.py": """
        import torch
        class Tensor:
            shape = (32, 3, 32, 32)
        batch = [Tensor(), Tensor()]
        class _BaseDataLoaderIter:
            def __next__(self): return batch
        """,
    "program.py": """
        import sys
        import torch.autograd
        from measured import measure
        from torch.optim.optimizer import Optimizer
        from torch.utils.data.dataloader import _BaseDataLoaderIter
        optimizer, batches, loss = Optimizer(), _BaseDataLoaderIter(), object()
        def step():
            next(batches)
            torch.autograd.backward(loss, None, None, False, inputs=None)
            optimizer.step()
        measure(step, int(sys.argv[1]))
        """,
}

_EAGER = "tensorflow/python/eager"
TENSORFLOW = {
    "measured.py": MEASURED,
    "tensorflow/__init__.py": "",
    "tensorflow/python/__init__.py": "",
    f"{_EAGER}/__init__.py": "",
    f"{_EAGER}/context.py": "def executing_eagerly(): return not tracing\ntracing = False",
    f"{_EAGER}/backprop.py": """
        from tensorflow.python.eager import context
        class Graph: pass
        class ops:
            @staticmethod
            def get_default_graph(): return Graph()
        class GradientTape:
            def __enter__(self): return self
            def __exit__(self, *_): pass
            def gradient(self, target, sources): return sources
        """,
    f"{_EAGER}/polymorphic_function/__init__.py": "",
    f"{_EAGER}/polymorphic_function/polymorphic_function.py": """
        class Function:
            def __init__(self, function): self.function, self.traced = function, False
            def __call__(self, *args, **kwargs):
                if not self.traced:
                    self.traced = True
                    return self.function(*args, **kwargs)
            def get_concrete_function(self): return self
        """,
    "tensorflow/python/data/__init__.py": "",
    "tensorflow/python/data/ops/__init__.py": "",
    "tensorflow/python/data/ops/iterator_ops.py": """
        from tensorflow.python.eager import context
        class EagerTensor:
            def _shape_tuple(self): return (32, 3, 32, 32)
        batch = (EagerTensor(), EagerTensor())
        class OwnedIterator:
            def _next_internal(self): return batch
        """,
    "program.py": """
        import sys
        from measured import measure
        from tensorflow.python.data.ops.iterator_ops import OwnedIterator
        from tensorflow.python.eager import context
        from tensorflow.python.eager.backprop import GradientTape
        from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
        class Dimensions(tuple):
            def num_elements(self): return 6
        class Variable:
            trainable, shape = True, Dimensions((2, 3))
            class dtype: size = 4
        variable = Variable()
        def train(images, labels):
            context.tracing = True
            with GradientTape() as tape:
                pass
            tape.gradient(None, [variable])
            context.tracing = False
        function, batches = Function(train), OwnedIterator()
        def step():
            images, labels = batches._next_internal()
            function(images, labels)
        measure(step, int(sys.argv[1]))
        """,
}

KERAS = {
    "measured.py": MEASURED,
    "keras/__init__.py": "",
    "keras/src/__init__.py": "",
    "keras/src/engine/__init__.py": "",
    "keras/src/engine/training.py": """
        class Model:
            _steps_per_execution, _cluster_coordinator, train_function = None, None, None
            def make_train_function(self):
                self.train_function = lambda iterator: None
                return self.train_function
            def reset_metrics(self): pass
            def fit(self, *args): pass
            def evaluate(self, *args): pass
        """,
    "program.py": """
        import sys
        from keras.src.engine.training import Model
        from measured import measure
        class Spec:
            shape = (32, 3, 32, 32)
        class Iterator:
            element_spec = (Spec(), Spec())
        model, iterator = Model(), Iterator()
        function = model.make_train_function()
        measure(lambda: function(iterator), int(sys.argv[1]))
        """,
}

SENDING = """
import os, socket, statistics, time
left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
left.setblocking(False)
clock, spent = time.perf_counter_ns, []
for _ in range(20_000):
    begin = clock()
    left.send(b"x" * 288)  # a border and four phases
    spent.append(clock() - begin)
    if len(spent) % 50 == 0:
        for _ in range(50):
            right.recv(512)
print(statistics.median(spent) / 1e3)
"""


def torch_hooks() -> Result:
    """Input, forward, backward and optimizer of a step of PyTorch."""
    return _cost("hooks, a step of PyTorch, four phases", TORCH)


def tensorflow_hooks() -> Result:
    """Input and call of a step of TensorFlow: a batch taken in Python, then a tf.function."""
    return _cost("hooks, a step of a tf.function, with input", TENSORFLOW)


def keras_hooks() -> Result:
    """A step of Keras' fit."""
    return _cost("hooks, a step of Keras' fit", KERAS)


def _cost(what: str, modules: Mapping[str, str]) -> Result:
    wrapper = (str(COMMANDS / "roofline-agent"), "run", "--job", "1", "--")
    with node() as here, here.server(), here.agent(1.0):
        for name, text in modules.items():
            path = here.folder / "made-up" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        runs = [(_median(here), _median(here, *wrapper)) for _ in range(ROUNDS)]
    cost, (bare, dropped) = min((wrapped[0] - bare[0], (bare[0], wrapped[1])) for bare, wrapped in runs)
    beside = f"bare calls {bare:.2f} us, sending alone {_sending():.2f} us; {dropped:.0f} dropped"
    return Result(f"{what}, median", "5 us", f"{cost:.2f} us", cost <= 5, beside)


def _median(here: Node, *wrapper: str) -> tuple[float, float]:
    """Microseconds of a step, and how much of what the hooks said was dropped."""
    modules, said = here.folder / "made-up", here.folder / "said"
    path = os.pathsep.join([str(modules), here.environ["PYTHONPATH"]])
    environ = {**here.environ, "PYTHONPATH": path, "BENCH_SAYS": str(said)}
    command = [*wrapper, sys.executable, str(Path(modules) / "program.py"), str(STEPS)]
    subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True, timeout=300)
    median, dropped = map(float, said.read_text().split())
    return median, dropped


def _sending() -> float:
    command = [sys.executable, "-c", SENDING]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
