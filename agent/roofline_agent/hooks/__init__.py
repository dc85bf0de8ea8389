"""The hooks that run inside a training process and mark its steps where the framework makes them.

Standard library only, any Python from 3.8 on, and nothing here may raise into the training. Each framework
has a folder, and a line in HOOKS for each of its modules to wait for: module -> hook whose
`patch(module, marker)` is called once after that module's own code has run.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import time
from typing import Any, Callable, Optional, Tuple

from .marker import Marker
from .signals import raise_again
from .wrapper import NOTES, STREAM_SIGNAL

__all__ = ["HOOKS", "NOTES", "STREAM_SIGNAL", "Marker", "install"]

HOOKS = {
    "tensorflow.python.distribute.coordinator.cluster_coordinator": "tf.coordinator",
    "tensorflow.python.distribute.parameter_server_strategy_v2": "tf.payload",
    "tensorflow.python.training.server_lib": "tf.server",
    "tensorflow.python.eager.backprop": "tf.function",
    "tensorflow.python.eager.polymorphic_function.polymorphic_function": "tf.function",
    "tensorflow.python.data.ops.iterator_ops": "tf.input",
    "tensorflow.python.distribute.input_lib": "tf.input",
    "tensorflow.python.checkpoint.checkpoint": "tf.between",
    "tensorflow.python.checkpoint.checkpoint_management": "tf.between",
    "tensorflow.python.saved_model.save": "tf.between",
    "keras.src.models.model": "tf.between",  # Keras 3
    "keras.optimizers.optimizer": "tf.updates",  # Keras 2 up to 2.12
    "keras.optimizers.legacy.optimizer_v2": "tf.updates",
    "keras.src.optimizers.optimizer": "tf.updates",  # Keras 2 from 2.13
    "keras.src.optimizers.legacy.optimizer_v2": "tf.updates",
    "keras.src.optimizers.base_optimizer": "tf.updates",  # Keras 3
    "keras.engine.training": "keras.fit",  # Keras 2 up to 2.12
    "keras.src.engine.training": "keras.fit",  # Keras 2 from 2.13
    "keras.src.backend.tensorflow.trainer": "keras.fit",  # Keras 3
    "torch.amp.grad_scaler": "torch.scaler",
    "torch.autograd": "torch.autograd",
    "torch.autograd.grad_mode": "torch.grad_mode",
    "torch.cuda.graphs": "torch.graphs",
    "torch.distributed.checkpoint.state_dict_saver": "torch.between_calls",
    "torch.distributed.distributed_c10d": "torch.collectives",
    "torch.distributed.fsdp._fully_shard._fsdp_state": "torch.fsdp",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "torch.fsdp",
    "torch.distributed.pipelining.stage": "torch.shared_batch",
    "torch.distributed.tensor.parallel.api": "torch.shared_batch",
    "torch.nn.modules.module": "torch.module",
    "torch._dynamo.convert_frame": "torch.module",
    "torch._dynamo.eval_frame": "torch.module",
    "torch._dynamo.trace_rules": "torch.module",
    "torch.nn.parallel.distributed": "torch.ddp",
    "torch.optim.optimizer": "torch.optimizer",
    "torch.serialization": "torch.between_calls",
    "torch.utils.checkpoint": "torch.recompute",
    "torch.utils.data.dataloader": "torch.data",
    "safetensors.torch": "torch.between_calls",
    "accelerate.accelerator": "torch.between_calls",
    "accelerate.data_loader": "torch.dispatcher",
    "deepspeed.runtime.engine": "torch.deepspeed",
    "lightning.pytorch.loops.evaluation_loop": "torch.between_calls",
    "lightning.pytorch.trainer.trainer": "torch.between_calls",
    "pytorch_lightning.loops.evaluation_loop": "torch.between_calls",
    "pytorch_lightning.trainer.trainer": "torch.between_calls",
    "transformers.trainer": "torch.between_calls",
    "jax": "jax.calls",
    "jax._src.distributed": "jax.distributed",
    "horovod.tensorflow": "horovod.tensorflow",
    "horovod.torch.mpi_ops": "horovod.asked",
    "horovod.torch.optimizer": "horovod.torch",
}
SWITCHABLE = "torch"  # the framework whose libraries are switched at the borders of steps (kernel_switch.py)


def install(package_root: str) -> _ImportWatcher:
    """Make roofline_step importable and wait for the frameworks: the finder that does, on sys.meta_path.

    package_root: where roofline_step lies.
    """
    step = _find_step(package_root)
    profiler: Any = None
    steps, windows = os.environ.get("ROOFLINE_NCU_STEPS"), os.environ.get("ROOFLINE_NCU_WINDOWS")
    if steps and windows:  # asked for by `roofline-agent run --ncu`
        from .profiler_range import ProfilerRange

        profiler = ProfilerRange(steps, windows)
        _follow_marks(step, lambda *mark: _profile(step, profiler, *mark))
    marker = Marker(step, profiler=profiler)
    _follow_kernels(step, marker)
    watcher = _ImportWatcher(marker)
    sys.meta_path.insert(0, watcher)
    return watcher


def _find_step(package_root: str) -> Any:
    # The training's own installation of it, if there is one; never our site-packages on its path.
    try:
        return importlib.import_module("roofline_step")
    except ImportError:
        folder = os.path.join(package_root, "roofline_step")
        spec = importlib.util.spec_from_file_location(
            "roofline_step", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["roofline_step"] = module
        spec.loader.exec_module(module)
        return module


def _profile(step: Any, profiler: Any, kind: int, number: int, now: int) -> None:
    if kind == step.BEGIN:
        profiler.begins(number, now)
    else:
        profiler.ended(number, now, next_begins=kind == step.BORDER)


def _follow_kernels(step: Any, marker: Marker) -> None:
    """Have kernels sampled by the steps that the training program marks itself, too."""

    def switch(kind: int, number: int, now: int) -> None:
        if kind in (step.BORDER, step.END):
            marker.training_marked(number, now, kind == step.BORDER)

    _follow_marks(step, switch)


def _follow_marks(module: Any, follow: Callable[[int, int, int], None]) -> None:
    """Have follow(kind, number, now) called for the steps that the training program marks itself.

    module: roofline_step.
    """
    mark = module.mark

    # The training calls it: its arguments have the names that those of roofline_step.mark have.
    def followed(
        step: int,
        examples: Optional[int] = None,
        kind: int = module.BORDER,
        of: Optional[Tuple[str, int]] = None,
        asynchronous: bool = False,
        time_ns: Optional[int] = None,
    ) -> None:
        now = time.monotonic_ns() if time_ns is None else time_ns
        mark(step, examples, kind, of, asynchronous, now)
        try:
            if of is None:
                follow(kind, step, now)
        except Exception:
            raise_again()  # the step is marked; without kernels, or ranges for a profiler

    module.mark = functools.wraps(mark)(followed)


class _ImportWatcher:
    """A meta path finder that finds nothing itself: it has each hook called after its module's import."""

    def __init__(self, marker: Marker) -> None:
        self._marker = marker
        self._busy = set()  # type: Any

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if (name not in HOOKS and name != SWITCHABLE) or name in self._busy:
            return None
        self._busy.add(name)
        try:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.loader is not None:
                if name == SWITCHABLE:
                    self._sample_before(spec.loader)
                if name in HOOKS:
                    self._patch_after(spec.loader, HOOKS[name])
            return spec
        except ImportError:  # it is not installed, as the import that goes on will say
            return None
        except Exception:
            self._marker.failed(_called(HOOKS.get(name, name)))
            return None
        finally:
            self._busy.discard(name)

    def _sample_before(self, loader: Any) -> None:
        # Not as it is looked for: who asks whether it is installed may train with something else.
        execute, marker = loader.exec_module, self._marker

        def exec_module(module: Any) -> None:
            try:
                marker.sample_kernels()
            except Exception:
                marker.failed(SWITCHABLE)
            execute(module)

        loader.exec_module = exec_module

    def _patch_after(self, loader: Any, hook: str) -> None:
        execute, marker = loader.exec_module, self._marker

        def exec_module(module: Any) -> None:
            execute(module)
            try:
                importlib.import_module("_roofline_hooks." + hook).patch(module, marker)
                marker.fact("hook." + _called(hook), "installed")
            except Exception as error:
                raise_again()
                marker.fact("hook." + _called(hook), "failed: %s: %s" % (type(error).__name__, error))
                if os.environ.get("ROOFLINE_DEBUG"):
                    import traceback

                    traceback.print_exc()

        loader.exec_module = exec_module


def _called(hook: str) -> str:
    """What a hook is called in facts: "torch_data" for "torch.data"."""
    return hook.replace(".", "_")
