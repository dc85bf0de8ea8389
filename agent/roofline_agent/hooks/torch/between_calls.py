"""PyTorch and its trainers: functions that save checkpoints or evaluate. What is inside them is no step.

One line in CALLS for each: most trainers end in the first ones, but do more than writing a file.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from .. import Marker
from .between_steps import CHECKPOINT, EVALUATION
from .recorder import Recorder, recorder

# module -> functions of it, or of a class of it, and what they do
CALLS = {
    "torch.serialization": (("save", CHECKPOINT),),
    "torch.distributed.checkpoint.state_dict_saver": (("save", CHECKPOINT), ("async_save", CHECKPOINT)),
    "safetensors.torch": (("save_file", CHECKPOINT), ("save_model", CHECKPOINT)),
    "accelerate.accelerator": (
        ("Accelerator.save_state", CHECKPOINT),
        ("Accelerator.save_model", CHECKPOINT),
    ),
    "deepspeed.runtime.engine": (("DeepSpeedEngine.save_checkpoint", CHECKPOINT),),  # see deepspeed.py
    "lightning.pytorch.loops.evaluation_loop": (("_EvaluationLoop.run", EVALUATION),),
    "lightning.pytorch.trainer.trainer": (("Trainer.save_checkpoint", CHECKPOINT),),
    "pytorch_lightning.loops.evaluation_loop": (("_EvaluationLoop.run", EVALUATION),),
    "pytorch_lightning.trainer.trainer": (("Trainer.save_checkpoint", CHECKPOINT),),
    "transformers.trainer": (
        ("Trainer.evaluate", EVALUATION),
        ("Trainer.predict", EVALUATION),
        ("Trainer._save_checkpoint", CHECKPOINT),
        ("Trainer.save_model", CHECKPOINT),
    ),
}


def patch(module: Any, marker: Marker) -> None:
    """module: one of CALLS."""
    record = recorder(marker)
    for path, kind in CALLS[module.__name__]:
        owner, _, name = path.rpartition(".")
        place = getattr(module, owner, None) if owner else module
        call = getattr(place, name, None)
        if call is not None:
            setattr(place, name, _timed(call, kind, record))


def _timed(call: Any, kind: str, record: Recorder) -> Any:
    clock = time.monotonic_ns

    @functools.wraps(call)
    def timed(*args: Any, **kwargs: Any) -> Any:
        begin = clock()
        try:
            return call(*args, **kwargs)
        finally:
            try:
                record.note_between(kind, begin, clock())
            except Exception:
                record.failed("torch_between_calls")

    return timed
