"""NVIDIA's attributes for spans of a training, and names of spans (NeMo Lens, as Megatron-LM sets them)."""

from __future__ import annotations

# Of a resource.
RANK, WORLD, ROLE, RUN = "nv.dl.rank", "nv.dl.world_size", "nv.dl.role", "nv.dl.run.uuid"
BATCH, PARTS = "nv.dl.training.config.global_batch_size", "nv.dl.topology.size.dp"
OF_OTHERS = ("ckpt_worker", "agent")  # roles of processes next to a rank, which have its number

# Of a span.
STEP = "nv.dl.training.step"

# Names of spans.
ITERATION, BLOCK = "nv.dl.training.iteration", "nv.dl.training.iter_block"
NO_STEPS = ("nv.dl.training.evaluate", "nv.dl.training.checkpoint")  # how those begin that are no steps
